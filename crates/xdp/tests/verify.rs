//! The verifier's word on the object that is checked in.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use datapath::lb::layout::Interface;
use xdp::{Core, Octets, Sizes};

/// The kernel's action for a frame that is the host's (`enum xdp_action`).
const XDP_PASS: u32 = 2;

#[test]
fn every_stage_is_verified_within_its_bounds() {
    let core = Core::load(&Sizes::default()).unwrap();
    for verified in core.verified().unwrap() {
        println!("{:10} {:7} instructions", verified.program, verified.instructions);
    }
}

#[test]
fn a_stage_hands_over_to_the_next() {
    let mut core = Core::load(&Sizes { sessions: 64, ..Sizes::default() }).unwrap();
    let interface = Interface { index: 1, mac: [2, 0, 0, 0, 0, 1], zero: [0; 2] };
    core.interfaces.set(1, Octets(interface), 0).unwrap();
    // Of no session and for nobody: `enter` asks `admit`, which leaves it to the host.
    let packet = testkit::packet::ipv4("192.0.2.1", "192.0.2.2").udp(1, 2, b"?");
    let frame = testkit::packet::ethernet([2; 6], interface.mac).ipv4(packet).build();
    assert_eq!(core.test_run(&frame, 1).unwrap(), (XDP_PASS, frame));
    assert_eq!(core.verdicts().unwrap(), [1, 0, 0, 0]);
}
