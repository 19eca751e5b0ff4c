//! Labs against the running kernel: they carry packets, and they leave nothing behind.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use testkit::lab::{Host, Lab};
use testkit::wait;

const LONG: Duration = Duration::from_secs(20);

/// One datagram there and back.
fn exchange(client: &Host, server: &Host, address: &str) {
    let address: SocketAddr = address.parse().unwrap();
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let answering = server.run(|| UdpSocket::bind(address)).unwrap();
    let asking = client.run(|| UdpSocket::bind(any)).unwrap();
    for socket in [&answering, &asking] {
        socket.set_read_timeout(Some(LONG)).unwrap();
    }
    let mut bytes = [0; 16];
    asking.send_to(b"question", address).unwrap();
    let (length, from) = answering.recv_from(&mut bytes).unwrap();
    assert_eq!(bytes[..length], *b"question");
    answering.send_to(b"answer", from).unwrap();
    let (length, from) = asking.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..length], from), (&b"answer"[..], address));
}

fn has_link(host: &Host, link: &str) -> bool {
    let table = host.run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
    table.lines().any(|line| line.trim_start().starts_with(&format!("{link}:")))
}

#[test]
fn two_hosts_reach_each_other_through_a_router() {
    let Some(lab) = Lab::or_skip("routed") else { return };
    let [client, router, server] =
        ["client", "router", "server"].map(|name| lab.host(name).unwrap());
    router.forwarding().unwrap();
    let near = ["10.77.1.1/24", "fd77:1::1/64"];
    let far = ["10.77.2.1/24", "fd77:2::1/64"];
    lab.link(&client, &["10.77.1.2/24", "fd77:1::2/64"], &router, &near).unwrap();
    lab.link(&router, &far, &server, &["10.77.2.2/24", "fd77:2::2/64"]).unwrap();
    client.route("0.0.0.0/0", "10.77.1.1").unwrap();
    client.route("::/0", "fd77:1::1").unwrap();
    server.route("10.77.1.0/24", "10.77.2.1").unwrap();
    server.route("fd77:1::/64", "fd77:2::1").unwrap();
    exchange(&client, &server, "10.77.2.2:4000");
    exchange(&client, &server, "[fd77:2::2]:4000");
}

#[test]
fn a_prefix_is_delivered_to_the_host_that_owns_it() {
    let Some(lab) = Lab::or_skip("prefix") else { return };
    let [client, server] = ["client", "server"].map(|name| lab.host(name).unwrap());
    let (near, far) = (["10.77.1.1/24", "fd77:1::1/64"], ["10.77.1.2/24", "fd77:1::2/64"]);
    lab.link(&client, &near, &server, &far).unwrap();
    server.local_route("192.0.2.0/28").unwrap();
    server.local_route("2001:db8::/64").unwrap();
    server.sysctl("net/ipv6/ip_nonlocal_bind", "1").unwrap();
    client.route("192.0.2.0/24", "10.77.1.2").unwrap();
    client.route("2001:db8::/32", "fd77:1::2").unwrap();
    exchange(&client, &server, "192.0.2.9:4000");
    exchange(&client, &server, "[2001:db8::abcd]:4000");
}

#[test]
fn links_are_named_after_the_host_at_the_other_end() {
    let Some(lab) = Lab::or_skip("names") else { return };
    let [left, right] = ["left", "a-name-beyond-all-limits"].map(|name| lab.host(name).unwrap());
    let first = lab.link(&left, &[], &right, &[]).unwrap();
    let second = lab.link(&right, &[], &left, &[]).unwrap();
    assert_eq!((first.left.as_str(), first.right.as_str()), ("a-name-beyond-0", "left0"));
    assert_eq!((second.left.as_str(), second.right.as_str()), ("left1", "a-name-beyond-1"));
    assert!(has_link(&left, "a-name-beyond-1") && has_link(&right, "left1"));
}

#[test]
fn mistakes_are_reported_with_the_host_and_the_step() {
    let Some(lab) = Lab::or_skip("mistakes") else { return };
    let host = lab.host("client").unwrap();
    assert_eq!(
        host.address("lo", "10.0.0.1").unwrap_err().to_string(),
        "host client: \"10.0.0.1\": invalid IP address syntax"
    );
    assert_eq!(
        host.address("eth7", "10.0.0.1/8").unwrap_err().to_string(),
        "host client: add address 10.0.0.1/8 to eth7: No such device (os error 19)"
    );
    let error = host.spawn("no-such-program", [""; 0]).unwrap_err().to_string();
    assert!(error.starts_with("host client: start no-such-program: "), "{error}");
}

#[test]
fn a_program_runs_in_its_host() {
    let Some(lab) = Lab::or_skip("program") else { return };
    let host = lab.host("server").unwrap();
    let mut process = host.spawn("cat", ["/proc/self/net/dev"]).unwrap();
    assert!(process.wait(LONG).unwrap().success());
    let lines = process.lines();
    assert_eq!(lines.len(), 3, "two lines of heading and lo: {lines:?}");
    assert!(lines[2].trim_start().starts_with("lo:"));
}

#[test]
fn an_nftables_script_filters_what_the_host_receives() {
    let Some(lab) = Lab::or_skip("nft") else { return };
    let host = lab.host("server").unwrap();
    let script = "table inet lab {\n chain in {\n type filter hook input priority 0;\n \
                  udp dport 4001 drop\n }\n}\n";
    match host.nft(script) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            assert!(error.to_string().ends_with("install the package nftables"));
            println!("skipped: {error}");
            return;
        }
        outcome => outcome.unwrap(),
    }
    let closed = host.run(|| UdpSocket::bind("127.0.0.1:4001")).unwrap();
    let sender = host.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    sender.send_to(b"question", "127.0.0.1:4001").unwrap();
    // Loopback keeps the order: what came through before this exchange is there after it.
    exchange(&host, &host, "127.0.0.1:4000");
    closed.set_nonblocking(true).unwrap();
    assert_eq!(closed.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let error = host.nft("table inet {").unwrap_err().to_string();
    assert!(error.starts_with("host server: nft: ") && error.contains("syntax error"), "{error}");
}

#[test]
fn a_panicking_test_leaves_no_process_and_no_namespace() {
    let Some(lab) = Lab::or_skip("panicking") else { return };
    let witness = lab.host("witness").unwrap();
    let mut left_behind = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let doomed = lab.host("doomed").unwrap();
        let link = lab.link(&witness, &[], &doomed, &[]).unwrap();
        let process = doomed.spawn("sleep", ["1000"]).unwrap();
        left_behind = Some((format!("/proc/{}", process.id()), link.left));
        panic!("as planned");
    }));
    assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "as planned");
    let (process, link) = left_behind.unwrap();
    assert!(!fs::exists(process).unwrap(), "the process is dead and reaped");
    // The far end of the witness's cable goes with the namespace, when the kernel gets to it.
    wait::until(LONG, "the doomed namespace to be destroyed", || !has_link(&witness, &link))
        .unwrap();
}

#[test]
fn hosts_and_processes_may_be_dropped_in_any_order() {
    let Some(lab) = Lab::or_skip("order") else { return };
    let first = lab.host("first").unwrap();
    let mut orphan = first.spawn("sleep", ["1000"]).unwrap();
    drop(first);
    let status = orphan.wait(LONG).unwrap();
    assert!(!status.success(), "killed with its host: {status}");

    let second = lab.host("second").unwrap();
    let process = second.spawn("sleep", ["1000"]).unwrap();
    drop(lab);
    drop(process);
    drop(second);
}

#[test]
fn twenty_labs_run_side_by_side() {
    if Lab::or_skip("many").is_none() {
        return;
    }
    thread::scope(|scope| {
        for number in 0..20 {
            scope.spawn(move || {
                let lab = Lab::new(&format!("many-{number}")).unwrap();
                let [client, server] = ["client", "server"].map(|name| lab.host(name).unwrap());
                let near = ["10.77.1.1/24", "fd77:1::1/64"];
                let far = ["10.77.1.2/24", "fd77:1::2/64"];
                lab.link(&client, &near, &server, &far).unwrap();
                exchange(&client, &server, "10.77.1.2:4000");
                exchange(&client, &server, "[fd77:1::2]:4000");
            });
        }
    });
}
