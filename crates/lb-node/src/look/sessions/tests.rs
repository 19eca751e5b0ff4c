//! How the table of sessions reads.

use super::*;
use session_state::{ANSWERED, BACKEND_FIN, CLIENT_FIN, ESTABLISHED, LIVE, REPLACED, RESET as RST};

fn session(protocol: u8, state: u32) -> Session {
    Session {
        client: Address::v4([198, 51, 100, 7]),
        vip: Address::v4([203, 0, 113, 10]),
        backend: Address::v4([10, 0, 1, 11]),
        source: Address::v4([10, 0, 1, 1]),
        client_port: 40_000u16.to_be_bytes(),
        vip_port: 443u16.to_be_bytes(),
        backend_port: 8443u16.to_be_bytes(),
        source_port: 16_384u16.to_be_bytes(),
        protocol,
        state,
        ..Session::EMPTY
    }
}

fn backend() -> Backend {
    let [mapping, name, address] = ["lb/web", "backend-1", "10.0.1.11:8443"].map(str::to_owned);
    Backend { mapping, name, address }
}

#[test]
fn the_state_is_how_far_the_connection_is() {
    for (protocol, bits, said) in [
        (TCP, 0, "new"),
        (TCP, ANSWERED, "opening"),
        (TCP, ANSWERED | ESTABLISHED, "open"),
        (TCP, ANSWERED | ESTABLISHED | CLIENT_FIN, "closing"),
        (TCP, ANSWERED | ESTABLISHED | CLIENT_FIN | BACKEND_FIN, "closed"),
        (TCP, ANSWERED | RST, "reset"),
        (TCP, ANSWERED | REPLACED, "replaced"),
        (wire::protocol::UDP, 0, "new"),
        (wire::protocol::UDP, ANSWERED, "answered"),
    ] {
        assert_eq!(state(&session(protocol, LIVE | bits)), said, "{protocol} {bits:#x}");
    }
}

#[test]
fn a_backend_is_found_by_its_name_and_its_address() {
    for (asked, found) in [
        ("backend-1", true),
        ("10.0.1.11", true),
        ("10.0.1.11:8443", true),
        ("10.0.1.1", false),
        ("backend", false),
    ] {
        assert_eq!(is_named(&backend(), asked), found, "{asked}");
    }
}

#[test]
fn sessions_are_listed_in_columns_with_totals() {
    let open = session(TCP, LIVE | ANSWERED | ESTABLISHED);
    let mut echo = session(ICMP, LIVE | ANSWERED);
    (echo.vip_port, echo.backend_port) = ([0; 2], [0; 2]);
    let mut sticky = session(0, LIVE);
    (sticky.flags, sticky.client_port) = (session_flag::AFFINITY, [TCP, 0]);
    let unnamed = Backend { mapping: String::new(), name: String::new(), ..backend() };
    let lines = vec![
        line(&open, backend(), Duration::from_millis(1500)),
        line(&echo, unnamed, Duration::from_secs(59)),
        line(&sticky, backend(), Duration::from_secs(3600)),
    ];
    let states = lines.iter().map(|line| (line.state, 1)).collect();
    let list = List { total: 4, states, lines };
    let expected = "\
PROTO  CLIENT                 VIP               SEEN AS            BACKEND           ADDRESS         STATE       IDLE
tcp    198.51.100.7:40000     203.0.113.10:443  10.0.1.1:16384     lb/web/backend-1  10.0.1.11:8443  open       1.5 s
icmp   198.51.100.7 id=40000  203.0.113.10      10.0.1.1 id=16384  (gone)            10.0.1.11:8443  answered    59 s
tcp    198.51.100.7           203.0.113.10:443  -                  lb/web/backend-1  10.0.1.11:8443  affinity  60 min

4 sessions: 1 affinity, 1 answered, 1 open
the 3 in use last are listed: --limit 0 lists all
";
    assert_eq!(render(&list), expected);
    assert_eq!(render(&List::default()), "0 sessions\n");
}
