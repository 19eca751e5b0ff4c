//! The places that a plan takes in the maps, and gives back.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::*;
use std::slice;
use testkit::lab::Lab;

const SECOND: Duration = Duration::from_secs(1);

/// The maps of a small core, in the kernel.
fn with_kernel(name: &str, test: impl FnOnce(&mut Kernel, Instant) + Send) {
    let Some(lab) = Lab::or_skip(name) else { return };
    lab.host("node").unwrap().run(|| {
        let sizes = Sizes {
            sessions: 64,
            rows: 16,
            members: 16,
            backends: 16,
            sources: 16,
            ..Sizes::default()
        };
        test(&mut Kernel::load(&sizes, None).unwrap(), adopt::now());
    });
}

/// A plan with one service, that chooses among these backends row by row.
fn plan(backends: &[PlannedBackend]) -> Plan {
    let key = ServiceKey {
        address: Address::v4([203, 0, 113, 10]),
        port: 80_u16.to_be_bytes(),
        protocol: 6,
        zero: 0,
        zero_too: 0,
    };
    let service = Service {
        key,
        flags: 0,
        affinity_s: 0,
        backends: backends.to_vec(),
        rows: (0..).take(backends.len()).collect(),
        digest: [0; 32],
    };
    let services = BTreeMap::from([("web".to_owned(), service)]);
    Plan { services, virtuals: vec![key.address], sources: Vec::new() }
}

fn backend(number: u8) -> PlannedBackend {
    let source = Source {
        address: Address::v4([192, 0, 2, number]),
        first_port: 1024,
        last_port: 65_535,
        zero: 0,
    };
    PlannedBackend {
        name: format!("b{number}"),
        address: Address::v4([10, 0, 0, number]),
        port: 80,
        segment: 0,
        alive: true,
        sources: Arc::from([source]),
    }
}

#[test]
fn a_backend_that_is_gone_gives_all_its_records_back() {
    with_kernel("kernel-reap", |kernel, now| {
        kernel.apply(&plan(&[backend(1)]), now).unwrap();
        assert_eq!((kernel.sources.unused(), kernel.rows.unused()), (15, 15));
        kernel.apply(&plan(&[backend(2)]), now).unwrap();
        assert_eq!(kernel.sources.unused(), 14, "the first is named by rows in transition");
        kernel.reap(&Census::default(), now);
        kernel.end_transitions(SECOND, now + SECOND).unwrap();
        kernel.reap(&Census::default(), now + SECOND);
        assert_eq!(kernel.backend_id("web", &backend(1)), Some(0), "one look is not enough");
        kernel.reap(&Census::default(), now + SECOND);
        assert_eq!(kernel.backend_id("web", &backend(1)), None);
        let unused = (kernel.sources.unused(), kernel.rows.unused(), kernel.members.unused());
        assert_eq!(unused, (15, 15, 15));
    });
}

#[test]
fn a_service_that_does_not_fit_holds_nothing_and_the_one_before_stays() {
    with_kernel("kernel-full", |kernel, now| {
        kernel.members = Extents::new(1);
        kernel.apply(&plan(slice::from_ref(&backend(1))), now).unwrap();
        let refused = kernel.apply(&plan(&[backend(1), backend(2)]), now).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "web: no room for its members: lower tableSize, or take mappings away"
        );
        assert_eq!((kernel.rows.unused(), kernel.members.unused()), (15, 0));
        let installed = kernel.installed.values().next().unwrap();
        assert_eq!(installed.owners, [(0, None)]);
    });
}
