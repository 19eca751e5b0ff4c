//! How the statistics read.

use super::*;

fn figures() -> Figures {
    let backend = |name: &str, address: &str, up, active, sessions| BackendFigures {
        backend: Backend {
            mapping: "lb/web".to_owned(),
            name: name.to_owned(),
            address: address.to_owned(),
        },
        up,
        active,
        traffic: Traffic {
            packets_in: sessions * 6,
            octets_in: sessions * 400,
            packets_out: sessions * 5,
            octets_out: sessions * 3000,
            sessions,
        },
    };
    let web = ServiceFigures {
        mapping: "lb/web".to_owned(),
        service: "tcp 203.0.113.10 port 443".to_owned(),
        backends: vec![
            backend("backend-1", "10.0.1.11:8443", Some(true), 12, 900),
            backend("backend-2", "10.0.1.12:8443", Some(false), 0, 100),
        ],
    };
    let drops = DropReason::ALL.iter().map(|reason| match reason {
        DropReason::NoService => (*reason, 40),
        DropReason::TtlExpired => (*reason, 2),
        _ => (*reason, 0),
    });
    Figures {
        services: vec![web],
        verdicts: [1000, 2, 11_000, 42],
        drops: drops.collect(),
        room: Room {
            used: 12,
            limit: 524_287,
            free: 524_275,
            half_open: 1,
            half_open_limit: 65_536,
        },
    }
}

#[test]
fn figures_stand_by_service_and_only_reasons_that_dropped_something() {
    let expected = "\
packets  1000 passed to the host, 2 sent back by their interface (answers to dropped ones among them), 11000 by another, 42 dropped
sessions  12 of 524287 in use (0 %), 524275 free; 1 of 65536 half-open

lb/web  tcp 203.0.113.10 port 443
  BACKEND    ADDRESS         STATE  ACTIVE   NEW  PACKETS IN  BYTES IN  PACKETS OUT  BYTES OUT
  backend-1  10.0.1.11:8443  up         12   900        5400    360 kB         4500     2.7 MB
  backend-2  10.0.1.12:8443  down        0   100         600     40 kB          500     300 kB
  total                                 12  1000        6000    400 kB         5000     3.0 MB

DROPPED FOR  PACKETS  WHICH IS
ttl_expired        2  The TTL or hop limit ends here.
no_service        40  To a virtual address, but no service has this port and protocol.
";
    assert_eq!(render(&figures(), Reasons::Nonzero, ""), expected);
}

#[test]
fn all_reasons_are_shown_when_asked_for() {
    let text = render(&figures(), Reasons::All, "");
    for reason in DropReason::ALL {
        assert!(text.contains(reason.explanation()), "{}", reason.name());
    }
}

#[test]
fn a_quiet_node_says_that_nothing_was_dropped() {
    let text = render(&Figures::default(), Reasons::Nonzero, "");
    assert!(text.ends_with("nothing dropped\n"), "{text}");
}

#[test]
fn rates_are_of_counters_and_not_of_levels() {
    let before = figures();
    let mut now = before.clone();
    now.verdicts[2] += 50;
    now.services[0].backends[0].traffic.packets_in += 20;
    now.drops[0].1 += 10;
    let rates = now.rate_since(&before, 5);
    assert_eq!(rates.verdicts, [0, 0, 10, 0]);
    assert_eq!(rates.drops[0].1, 2);
    assert_eq!(rates.services[0].backends[0].traffic.packets_in, 4);
    assert_eq!(rates.services[0].backends[1].traffic, Traffic::default());
    assert_eq!(rates.services[0].backends[0].active, 12);
    assert_eq!(rates.room, before.room);
}
