//! What an explanation says, over tables in plain memory.

use super::*;
use crate::look::names::Names;
use crate::sweeper::Rate;
use datapath::lb::layout::{
    Backend as Record, Interface, Owned, Row, Service, ServiceKey, Source, backend_flag,
    owned_kind, service_flag,
};
use story::render;

const VIP: Address = Address::v4([203, 0, 113, 10]);
const NODE: [Address; 2] = [Address::v4([10, 1, 0, 1]), Address::v4([10, 2, 0, 1])];
const BACKENDS: [[u8; 4]; 2] = [[10, 2, 0, 11], [10, 2, 0, 12]];

/// A node with one twice-NAT service of two backends, each with every other row.
fn world() -> HostTables {
    let mut tables = HostTables::new(8, 2);
    let interface = |index: u8, v4| Interface {
        index: u32::from(index),
        mac: [2, 0, 0, 0, index, 1],
        zero: [0; 6],
        v4,
        v6: Address::v6([0; 16]),
    };
    tables.interfaces = vec![interface(1, NODE[0]), interface(2, NODE[1])];
    let owned = Owned { until_ns: u64::MAX, kind: owned_kind::VIRTUAL, zero: 0 };
    tables.owned.insert(VIP, owned);
    let [port, protocol] = [443u16.to_be_bytes(), [wire::protocol::TCP, 0]];
    let key = ServiceKey { address: VIP, port, protocol: protocol[0], zero: 0, zero_too: 0 };
    let flags = service_flag::TWICE_NAT;
    let service = Service { rows_at: 0, rows: 2, members_at: 0, affinity_s: 0, flags };
    tables.services.insert(key, service);
    tables.rows = vec![Row::new(1, 1, false), Row::new(0, 0, false)];
    tables.members = vec![0, 1];
    let backend = |address| Record {
        address: Address::v4(address),
        port: 8443u16.to_be_bytes(),
        segment: 0,
        flags: 0,
        sources_at: 0,
        sources: 1,
    };
    tables.backends = BACKENDS.map(backend).to_vec();
    tables.sources =
        vec![Source { address: NODE[1], first_port: 16_384, last_port: 65_535, zero: 0 }];
    for (last, link) in [([10, 1, 0, 2], 1), (BACKENDS[0], 2), (BACKENDS[1], 2)] {
        let mut hop = Hop::NONE;
        hop.addresses = [2, 0, 0, 0, link, 9, 2, 0, 0, 0, link, 1];
        hop.interface = u32::from(link).to_ne_bytes();
        hop.mtu = 1500u16.to_ne_bytes();
        tables.routes.insert(Address::v4(last), Ok(hop));
    }
    tables
}

/// The story of a packet in this world, as text and as facts.
fn told(tables: &HostTables, words: [&str; 3], flags: u8) -> (String, Value) {
    let [protocol, source, destination] = words;
    let flow = Flow::parse(protocol, source, destination, &[]).unwrap();
    let ethernet = [2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 9];
    let frame = packet::frame(&flow, &Shape { ethernet, flags: Flags(flags), octets: 0 });
    let routes =
        |to: &Address| tables.routes.get(to).copied().unwrap_or(Err(DropReason::RouteNotForwarded));
    let trace = witness::trace(tables, &routes, &frame);
    let called = |(id, address): (u16, [u8; 4])| {
        let address = format!("{}:8443", Address::v4(address));
        (id, Backend { mapping: "lb/web".to_owned(), name: format!("backend-{}", id + 1), address })
    };
    let backends = (0..).zip(BACKENDS).map(called).collect();
    let interfaces = [(1, "d0".to_owned()), (2, "d1".to_owned())].into();
    let scene = Scene {
        flow: &flow,
        frame: &frame,
        tables,
        trace: &trace,
        names: &Names::default(),
        backends: &backends,
        interfaces: &interfaces,
        rate: Rate { hertz: 250 },
    };
    let Story { steps, facts } = story(&scene);
    (render(&steps), facts)
}

const CLIENT: [&str; 3] = ["tcp", "10.1.0.2:40000", "203.0.113.10:443"];

#[test]
fn a_new_connection_is_told_from_its_address_to_its_verdict() {
    let expected = "\
packet       src=10.1.0.2 dst=203.0.113.10 tcp 40000>443 syn 40 octets ttl 64, in by d0
destination  203.0.113.10 is a virtual address of this node: nothing for it is the host's
session      none has this flow
service      203.0.113.10:443, twice-NAT
row          0 of 2, by the hash of client address, client port and service
choices      first choice lb/web/backend-2, no second one, not in transition
backend      lb/web/backend-2 at 10.2.0.12:8443, takes new flows
translation  twice-NAT: the backend sees 10.2.0.1:40000, the client's own port, free towards this backend (of 16384-65535)
new session  number 1; 6 more are free, 1 of 4294967295 half-open
next hop     to 10.2.0.12 by d1, 02:00:00:00:02:01 to 02:00:00:00:02:09, MTU 1500, looked up now
leaves as    src=10.2.0.1 dst=10.2.0.12 tcp 40000>8443 syn 40 octets ttl 63
verdict      sent out of d1
stages       enter, admit, claim
";
    let (text, facts) = told(&world(), CLIENT, flag::SYN);
    assert_eq!(text, expected);
    assert_eq!(facts["verdict"], "redirected");
    assert_eq!(facts["backend"]["name"], "backend-2");
    assert_eq!(facts["session"]["source"], "10.2.0.1:40000");
}

#[test]
fn what_follows_is_told_by_its_session() {
    let tables = world();
    told(&tables, CLIENT, flag::SYN);
    let (text, _) = told(&tables, CLIENT, flag::ACK);
    let session = "number 1 is the client's packet: 10.1.0.2:40000 to 203.0.113.10:443, new";
    assert!(text.contains(session), "{text}");
    assert!(text.contains("d1, 02:00:00:00:02:01 to 02:00:00:00:02:09"), "{text}");
    assert!(text.contains("known since routes last changed"), "{text}");
    assert!(text.ends_with("stages       enter\n"), "{text}");
    let reply = ["tcp", "10.2.0.12:8443", "10.2.0.1:40000"];
    let (text, _) = told(&tables, reply, flag::SYN | flag::ACK);
    assert!(text.contains("number 1 is the backend's packet"), "{text}");
    assert!(text.contains("src=203.0.113.10 dst=10.1.0.2 tcp 443>40000"), "{text}");
}

/// Changes the world, and what the story then says.
type Case = (&'static str, fn(&mut HostTables), u8, &'static [&'static str]);

#[test]
fn every_hindrance_is_told_with_its_reason() {
    let cases: &[Case] = &[
        ("no service", |t| t.services.clear(), flag::SYN, &["none has this address", "no_service"]),
        ("amid a connection", |_| {}, flag::ACK, &["reason no_session"]),
        (
            "no backend",
            |t| t.services.values_mut().for_each(|service| service.rows = 0),
            flag::SYN,
            &["none: no backend takes new flows", "reason no_backend"],
        ),
        (
            "no neighbour",
            |t| t.routes.values_mut().for_each(|route| *route = Err(DropReason::NoNeighbour)),
            flag::SYN,
            &["to 10.2.0.12 unknown (The Ethernet address", "reason no_neighbour"],
        ),
        (
            "no free record",
            |t| t.adopt(datapath::lb::host::Held { free: Vec::new(), ..held() }),
            flag::SYN,
            &["none: every record is in use", "reason sessions_exhausted"],
        ),
        (
            "half-open",
            |t| t.settings.half_open_limit = 0,
            flag::SYN,
            &["none: 0 half-open ones are as many", "reason half_open_exhausted"],
        ),
        (
            "port out of range",
            |t| t.sources[0].last_port = 16_384,
            flag::SYN,
            &[
                "10.2.0.1:16384, found after 1 try in 16384-16384, where the client's own port 40000",
            ],
        ),
        (
            "in transition",
            |t| t.rows = vec![Row::new(0, 1, true); 2],
            flag::SYN,
            &["first choice lb/web/backend-1; in transition from lb/web/backend-2", "10.2.0.11"],
        ),
        (
            "another node's",
            |t| t.owned.values_mut().for_each(|owned| owned.until_ns = 0),
            flag::SYN,
            &["is another node's now"],
        ),
        (
            "gone",
            |t| t.backends.iter_mut().for_each(|one| one.flags = backend_flag::GONE),
            flag::SYN,
            &[],
        ),
    ];
    for (name, change, flags, said) in cases {
        let mut tables = world();
        change(&mut tables);
        let (text, facts) = told(&tables, CLIENT, *flags);
        for said in *said {
            assert!(text.contains(said), "{name}: {said:?} in\n{text}");
        }
        assert!(facts["steps"].as_array().unwrap().len() > 3, "{name}");
    }
}

/// Eight sessions that nobody uses, and no free one.
fn held() -> datapath::lb::host::Held {
    datapath::lb::host::Held {
        index: vec![[0; 8]; 4],
        sessions: vec![datapath::lb::layout::Session::EMPTY; 8],
        free: Vec::new(),
        half_open: 0,
        ways: vec![Hop::NONE; 2],
    }
}

#[test]
fn the_default_packet_is_what_would_come_next() {
    use clap::Parser as _;
    let tables = world();
    let asked_with = |tables: &HostTables, extra: &[&str]| {
        let words = [&["lb-node", "explain", CLIENT[0], CLIENT[1], CLIENT[2]], extra].concat();
        let args = crate::args::Args::try_parse_from(words).unwrap();
        let Some(crate::args::Command::Explain(args)) = args.command else { panic!("{extra:?}") };
        let flow = Flow::parse(CLIENT[0], CLIENT[1], CLIENT[2], &[]).unwrap();
        asked(tables, flow, &args).map(|(flow, flags)| (flow.source_port, flags.0))
    };
    assert_eq!(asked_with(&tables, &[]), Ok((40_000, flag::SYN)));
    assert!(asked_with(&tables, &["--reply"]).unwrap_err().contains("no session"));
    told(&tables, CLIENT, flag::SYN);
    assert_eq!(asked_with(&tables, &[]), Ok((40_000, flag::ACK)));
    assert_eq!(asked_with(&tables, &["--flags", "fin,ack"]), Ok((40_000, flag::FIN | flag::ACK)));
    assert_eq!(asked_with(&tables, &["--reply"]), Ok((8443, flag::SYN | flag::ACK)));
}
