//! ICMP errors: relayed to the backend whose reply they quote, made for the client where a packet
//! can go no further, across families in both directions.

use crate::{bed, reports};
use labs::distributor::Distributor;
use labs::peers::{have_scapy, scapy};
use netio::netlink::Route;
use std::time::Duration;
use testkit::bed::{Bed, Families};
use testkit::lab::Host;
use testkit::process::Process;
use testkit::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// Prints every ICMP error that the host gets: type, code, MTU, sender, quoted addresses.
fn watch(host: &Host) -> Process {
    let script = "def show(p):\n\
        \tif ICMP in p and p[ICMP].type in (3, 11, 12):\n\
        \t\ti = p[ICMP]; q = IPerror in p and p[IPerror]\n\
        \t\tprint('v4', i.type, i.code, i.nexthopmtu or 0, p[IP].src, p[IP].dst, q and q.src, q and q.dst, ICMP(bytes(i)).chksum == i.chksum and checksum(bytes(i)[:len(i)]) == 0, flush=True)\n\
        \telif IPv6 in p and p[IPv6].nh == 58 and bytes(p[IPv6].payload)[0] in (1, 2, 3, 4):\n\
        \t\tb = bytes(p[IPv6].payload); q = IPv6(b[8:])\n\
        \t\tgood = in6_chksum(58, p[IPv6], b) == 0\n\
        \t\tprint('v6', b[0], b[1], int.from_bytes(b[4:8], 'big'), p[IPv6].src, p[IPv6].dst, q.src, q.dst, good, flush=True)\n\
        s = AsyncSniffer(store=False, prn=show, started_callback=lambda: print('listening', flush=True))\n\
        s.start(); s.join()";
    let mut process = scapy(host, script).unwrap();
    process.wait_for_line(|line| line == "listening", PATIENCE).unwrap();
    process
}

fn expect(process: &mut Process, line: &str) {
    process.wait_for_line(|seen| seen == line, PATIENCE).unwrap_or_else(|error| {
        panic!("expected \"{line}\": {error}");
    });
}

/// A route on the router towards some clients with a small MTU.
fn narrow_clients(bed: &Bed, mtu: u32) {
    for (prefix, via) in [("10.78.5.0/24", "10.77.1.2"), ("fd78::5:0/112", "fd77:1::2")] {
        let route = Route::via(prefix.parse().unwrap(), via.parse().unwrap()).with_mtu(mtu);
        bed.router.netlink(|netlink| netlink.add_route(route)).unwrap();
    }
}

/// Lets a client get an answer that is too big for its way; where the packet went.
fn too_big_answer(bed: &Bed, families: Families, source: &str) -> usize {
    let mut sinks = bed.answering_sinks(families).unwrap();
    let args = ["--source", source, "--key", "42", "--size", "1350", "--answers", "300ms"];
    let sent = bed.send(families, &args).unwrap();
    assert_eq!(sent.answered, Some(0), "the answer does not fit");
    let mut place = None;
    wait::until(PATIENCE, "the packet at a backend", || {
        place = place.or(reports(&mut sinks).iter().position(|report| report.packets == 1));
        place.is_some()
    })
    .unwrap();
    place.unwrap()
}

#[test]
fn l3_52_the_error_of_a_router_reaches_the_backend_of_the_flow() {
    let Some(bed) = bed("pmtu", 3) else { return };
    if !have_scapy() {
        return;
    }
    narrow_clients(&bed, 1300);
    let mut watches: Vec<_> = bed.backends.iter().map(watch).collect();
    {
        let gredist = Distributor::start(&bed, &Families::V4.config(3), 3).unwrap();
        let backend = too_big_answer(&bed, Families::V4, "10.78.5.1");
        let to = Families::V4.backend(backend);
        // The edge's own address is the source: the router would drop its own.
        let line = format!("v4 3 4 1300 10.77.2.2 {to} 10.77.0.47 10.78.5.1 True");
        let seen = |process: &Process| process.lines().contains(&line);
        wait::until(PATIENCE, &line, || seen(&watches[backend]))
            .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
        let others = watches.iter().enumerate().filter(|(number, _)| *number != backend);
        for (_, other) in others {
            assert_eq!(other.lines(), ["listening"], "another backend got it too");
        }
    }
    let _gredist = Distributor::start(&bed, &Families::V6.config(3), 3).unwrap();
    let backend = too_big_answer(&bed, Families::V6, "fd78::5:1");
    let to = Families::V6.backend(backend);
    let tail = format!(" {to} fd77::47 fd78::5:1 True");
    watches[backend]
        .wait_for_line(|line| line.starts_with("v6 2 0 1300") && line.ends_with(&tail), PATIENCE)
        .unwrap();
}

#[test]
fn the_error_of_a_router_is_translated_for_a_backend_of_the_other_family() {
    let Some(bed) = bed("pmtu-mixed", 1) else { return };
    if !have_scapy() {
        return;
    }
    narrow_clients(&bed, 1300);
    let mut backend = watch(&bed.backends[0]);
    {
        let _gredist = Distributor::start(&bed, &Families::V4ToV6.config(1), 1).unwrap();
        too_big_answer(&bed, Families::V4ToV6, "10.78.5.1");
        // 1300 for IPv4 is 1320 for IPv6; 10.78.5.1 is the client within the /96.
        backend
            .wait_for_line(
                |line| {
                    line.starts_with("v6 2 0 1320 fd77:64::")
                        && line.ends_with(" fd77:11::2 fd77:11::2 fd77:64::a4e:501 True")
                },
                PATIENCE,
            )
            .unwrap();
    }
    let _gredist = Distributor::start(&bed, &Families::V6ToV4.config(1), 1).unwrap();
    too_big_answer(&bed, Families::V6ToV4, "fd78::5:1");
    // 1300 for IPv6 is 1280 for IPv4; the client is an address of the pool.
    backend
        .wait_for_line(
            |line| {
                line.starts_with("v4 3 4 1280 10.77.64.")
                    && line.contains(" 10.77.11.2 10.77.11.2 10.77.64.")
                    && line.ends_with("True")
            },
            PATIENCE,
        )
        .unwrap();
}

#[test]
fn l3_13_twenty_eight_quoted_octets_name_the_flow() {
    let Some(bed) = bed("quotes", 3) else { return };
    if !have_scapy() {
        return;
    }
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(3), 3).unwrap();
    let mut watches: Vec<_> = bed.backends.iter().map(watch).collect();
    for key in 100..110u32 {
        bed.send(Families::V4, &["--key", &key.to_string()]).unwrap();
        let mut home = None;
        wait::until(PATIENCE, "the flow", || {
            home = home.or(reports(&mut sinks).iter().position(|report| report.packets == 1));
            home.is_some()
        })
        .unwrap();
        // A code that names the key, so that the watcher can tell the errors apart.
        let script = format!(
            "q = bytes(IP(src='10.77.0.47', dst='10.77.1.2')/GRE(key_present=1, key={key})/Raw(b'x'*30))[:28]\n\
             send(IP(dst='10.77.0.47')/ICMP(type=3, code=4, nexthopmtu={})/Raw(q))",
            1000 + key
        );
        let mut sender = scapy(&bed.client, &script).unwrap();
        assert!(sender.wait(PATIENCE).unwrap().success(), "{:?}", sender.lines());
        let start = format!("v4 3 4 {} ", 1000 + key);
        watches[home.unwrap()].wait_for_line(|line| line.starts_with(&start), PATIENCE).unwrap();
        for (number, watch) in watches.iter().enumerate().filter(|(n, _)| Some(*n) != home) {
            let strays = watch.lines().iter().filter(|line| line.starts_with(&start)).count();
            assert_eq!(strays, 0, "key {key} also went to backend {number}");
        }
    }
    assert_eq!(gredist.number("fannedOutPackets"), 0);
}

#[test]
fn l3_52_an_error_whose_quote_ends_before_the_key_goes_to_every_backend_within_the_limit() {
    let Some(bed) = bed("everyone", 3) else { return };
    if !have_scapy() {
        return;
    }
    let config = format!("{}error_rate=30\n", Families::V4.config(3));
    let gredist = Distributor::start(&bed, &config, 3).unwrap();
    let mut watches: Vec<_> = bed.backends.iter().map(watch).collect();
    let script = "q = bytes(IP(src='10.77.0.47', dst='10.77.1.2')/GRE(chksum_present=1, key_present=1, key=5)/Raw(b'x'*30))[:28]\n\
                  p = IP(dst='10.77.0.47')/ICMP(type=3, code=4, nexthopmtu=1234)/Raw(q)\n\
                  send([p]*200)";
    let mut sender = scapy(&bed.client, script).unwrap();
    assert!(sender.wait(PATIENCE).unwrap().success(), "{:?}", sender.lines());
    for watch in &mut watches {
        watch.wait_for_line(|line| line.starts_with("v4 3 4 1234"), PATIENCE).unwrap();
    }
    gredist.wait_dropped("error_rate_limited", 100).unwrap();
    let all = || gredist.number("fannedOutPackets") + gredist.dropped("error_rate_limited") == 200;
    wait::until(PATIENCE, "all errors to be judged", all).unwrap();
    let fanned_out = gredist.number("fannedOutPackets");
    assert!((10..100).contains(&fanned_out), "{fanned_out}");
}

#[test]
fn l3_57_a_client_hears_the_mtu_that_is_left_for_it() {
    let Some(bed) = bed("too-big", 1) else { return };
    if !have_scapy() {
        return;
    }
    let mut client = watch(&bed.client);
    let gredist = Distributor::start(&bed, &Families::V4ToV6.config(1), 1).unwrap();
    // 20 + 8 + 1472 = 1500 octets; towards IPv6 they would be 1520.
    bed.send(Families::V4ToV6, &["--key", "1", "--size", "1472"]).unwrap();
    expect(&mut client, "v4 3 4 1480 10.77.0.47 10.77.1.2 10.77.1.2 10.77.0.47 True");
    // Without DF there is nobody to tell: dropped and counted.
    bed.send(Families::V4ToV6, &["--key", "1", "--size", "1472", "--no-df"]).unwrap();
    gredist.wait_dropped("too_big", 2).unwrap();
    assert_eq!(gredist.number("answeredPackets"), 1);
}

#[test]
fn a_narrow_way_to_a_backend_of_the_other_family_is_told_to_the_client() {
    let Some(bed) = bed("narrow", 1) else { return };
    if !have_scapy() {
        return;
    }
    let route = Route::via("fd77:11::2/128".parse().unwrap(), "fd77:11::2".parse().unwrap());
    let link = bed.backend_links[0].right.clone();
    let route = Route { link: Some(&link), via: None, ..route }.with_mtu(1400);
    bed.router.netlink(|netlink| netlink.add_route(route)).unwrap();
    let client = watch(&bed.client);
    let gredist = Distributor::start(&bed, &Families::V4ToV6.config(1), 1).unwrap();
    // The router tells the return address, and gredist tells the client.
    bed.send(Families::V4ToV6, &["--key", "1", "--size", "1430"]).unwrap();
    let line = "v4 3 4 1380 10.77.0.47 10.77.1.2 10.77.1.2 10.77.0.47 True";
    wait::until(PATIENCE, line, || client.lines().iter().any(|seen| seen == line))
        .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
}

#[test]
fn l3_58_the_last_hop_is_answered_from_the_frontend() {
    let Some(bed) = bed("ttl", 1) else { return };
    if !have_scapy() {
        return;
    }
    let mut client = watch(&bed.client);
    for (families, line) in [
        (Families::V4, "v4 11 0 0 10.77.0.47 10.77.1.2 10.77.1.2 10.77.0.47 True"),
        (Families::V6, "v6 3 0 0 fd77::47 fd77:1::2 fd77:1::2 fd77::47 True"),
    ] {
        let gredist = Distributor::start(&bed, &families.config(1), 1).unwrap();
        // One hop to the router, the last one to the distributor.
        bed.send(families, &["--key", "1", "--ttl", "2"]).unwrap();
        expect(&mut client, line);
        assert_eq!(gredist.dropped("ttl_expired"), 1);
    }
}

#[test]
fn l3_15_a_narrow_way_to_a_backend_of_the_same_family_is_found_and_told_to_the_client() {
    let Some(bed) = bed("narrow-same", 1) else { return };
    if !have_scapy() {
        return;
    }
    let link = bed.backend_links[0].right.clone();
    for backend in ["10.77.11.2/32", "fd77:11::2/128"] {
        let route = Route::on_link(backend.parse().unwrap(), &link).with_mtu(1400);
        bed.router.netlink(|netlink| netlink.add_route(route)).unwrap();
    }
    let client = watch(&bed.client);
    for (families, size, line) in [
        // The router behind tells the client about the backend, which the client does not know:
        // what helps is that the frontend tells it.
        (Families::V4, "1430", "v4 3 4 1400 10.77.0.47 10.77.1.2 10.77.1.2 10.77.0.47 True"),
        (Families::V6, "1430", "v6 2 0 1400 fd77::47 fd77:1::2 fd77:1::2 fd77::47 True"),
    ] {
        let _gredist = Distributor::start(&bed, &families.config(1), 1).unwrap();
        wait::until(PATIENCE, line, || {
            bed.send(families, &["--key", "1", "--size", size]).unwrap();
            client.lines().iter().any(|seen| seen == line)
        })
        .unwrap_or_else(|error| panic!("{error}: {}", client.lines().join("; ")));
    }
}

#[test]
fn a_packet_without_df_is_fragmented_on_a_narrow_way() {
    let Some(bed) = bed("no-df", 1) else { return };
    let link = bed.backend_links[0].right.clone();
    let route = Route::on_link("10.77.11.2/32".parse().unwrap(), &link).with_mtu(1400);
    bed.router.netlink(|netlink| netlink.add_route(route)).unwrap();
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    let args = ["--key", "1", "--size", "1430", "--no-df", "--count", "50"];
    bed.send(Families::V4, &args).unwrap();
    let mut arrived = 0;
    wait::until(PATIENCE, "reassembled packets", || {
        arrived += crate::packets(&reports(&mut sinks));
        arrived == 50
    })
    .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
}
