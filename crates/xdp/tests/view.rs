//! Another process's look at a packet core: by the program of an interface alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use datapath::lb::layout::{Backend, Interface, Owned, Settings, owned_kind};
use datapath::lb::{DropReason, Verdict};
use testkit::lab::Lab;
use wire::Address;
use xdp::{Capture, Core, Error, Mode, Octets, Sizes, Stub, View};

const VIP: [u8; 4] = [203, 0, 113, 10];
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Loads a packet core on an interface of a namespace of its own, and looks at it from there.
fn with_core(name: &str, test: impl FnOnce(&mut Core, View, u32) + Send) {
    let Some(lab) = Lab::or_skip(name) else { return };
    let (node, peer) = (lab.host("node").unwrap(), lab.host("peer").unwrap());
    let cable = lab.link(&node, &["10.79.9.1/24"], &peer, &["10.79.9.2/24"]).unwrap();
    node.run(|| {
        let mut netlink = netio::netlink::Netlink::open().unwrap();
        let index = netlink.link(&cable.left).unwrap().index;
        let sizes = Sizes { sessions: 64, rows: 64, members: 64, backends: 64, ..Sizes::default() };
        let mut core = Core::load(&sizes, None).unwrap();
        let settings = Settings {
            seed: 7,
            generation: 1,
            half_open_limit: 9,
            capture_until: 0,
            capture_every: 0,
        };
        core.shared.settings.store(0, settings);
        let _attached = core.attach(&cable.left, index, Mode::Native).unwrap();
        let program = netlink.link(&cable.left).unwrap().program.unwrap();
        let view = View::of_program(program).unwrap();
        test(&mut core, view, index);
    });
}

#[test]
fn a_view_is_on_the_maps_of_the_interfaces_program() {
    with_core("view", |core, view, _| {
        assert_eq!(view.shared.settings.load(0).unwrap().seed, 7);
        assert_eq!(view.shared.sessions.len(), 64);
        assert_eq!(view.shared.free.len(), core.shared.free.len());
        // No program uses the names: the first stage holds them for the view.
        core.shared.names.store(3, 42);
        assert_eq!(view.shared.names.load(3), Some(42));
        let backend = Backend {
            address: Address::v4([10, 0, 0, 1]),
            port: [1, 2],
            segment: 0,
            flags: 0,
            sources_at: 0,
            sources: 0,
        };
        core.shared.backends.store(3, backend);
        assert_eq!(view.shared.backends.load(3), Some(backend));
        assert_eq!(view.verdicts().unwrap(), core.verdicts().unwrap());
    });
}

#[test]
fn a_program_that_is_not_ours_is_refused() {
    let Some(lab) = Lab::or_skip("view-foreign") else { return };
    let (node, peer) = (lab.host("node").unwrap(), lab.host("peer").unwrap());
    let cable = lab.link(&node, &["10.79.9.1/24"], &peer, &["10.79.9.2/24"]).unwrap();
    node.run(|| {
        let mut netlink = netio::netlink::Netlink::open().unwrap();
        let _stub = Stub::attach(netlink.link(&cable.left).unwrap().index).unwrap();
        let program = netlink.link(&cable.left).unwrap().program.unwrap();
        assert!(matches!(View::of_program(program), Err(Error::NotOurs { .. })));
    });
}

#[test]
fn a_capture_shows_drops_and_samples_until_it_ends() {
    with_core("capture", |core, mut view, index| {
        let zero = Address::v6([0; 16]);
        let interface = Interface { index, mac: MAC, zero: [0; 6], v4: zero, v6: zero };
        core.interfaces.set(index % 1024, Octets(interface), 0).unwrap();
        let owned = Owned { until_ns: u64::MAX, kind: owned_kind::VIRTUAL, zero: 0 };
        core.owned.insert(Octets(Address::v4(VIP)), Octets(owned), 0).unwrap();
        let (bad, other) = (fragment(), [&MAC[..], &MAC, &[0x88, 0xb5], &[7; 400]].concat());

        let mut capture = Capture::start(&mut view, 2).unwrap();
        let mut again = View::of_program(program_of(index)).unwrap();
        assert!(matches!(Capture::start(&mut again, 1), Err(Error::Capturing)));
        core.test_run(&bad, index).unwrap();
        let dropped = capture.next_packet().unwrap();
        assert_eq!(dropped.verdict(), Some(Verdict::Drop(DropReason::Fragment)));
        assert_eq!((dropped.frame(), dropped.ingress), (&bad[..], index));

        for _ in 0..4 {
            core.test_run(&other, index).unwrap();
        }
        let passed: Vec<_> = std::iter::from_fn(|| capture.next_packet()).collect();
        // One in two of each processor's.
        assert!((1..=3).contains(&passed.len()), "{}", passed.len());
        for passed in passed {
            assert_eq!(passed.verdict(), Some(Verdict::Pass));
            assert_eq!((passed.length, passed.frame()), (414, &other[..255]));
        }
        assert_eq!(capture.lost(), 0);

        drop(capture);
        assert_eq!(core.shared.settings.load(0).unwrap().capture_until, 0);
    });
}

fn program_of(index: u32) -> u32 {
    let mut netlink = netio::netlink::Netlink::open().unwrap();
    netlink.link_at(index).unwrap().program.unwrap()
}

/// The first fragment of a packet for the virtual address.
fn fragment() -> Vec<u8> {
    let mut packet = [0x45, 0, 0, 40, 0, 1, 0x20, 0, 64, 17, 0, 0, 192, 0, 2, 1].to_vec();
    packet.extend(VIP);
    packet.extend([0; 26]);
    [&MAC[..], &[2, 0, 0, 0, 0, 9], &[8, 0], &packet].concat()
}
