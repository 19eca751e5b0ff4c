//! The verifier's word on the object that is checked in.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use xdp::{Core, Sizes};

#[test]
fn every_stage_is_verified_within_its_bounds() {
    let core = Core::load(&Sizes::default()).unwrap();
    for verified in core.verified().unwrap() {
        println!("{:10} {:7} instructions", verified.program, verified.instructions);
    }
}
