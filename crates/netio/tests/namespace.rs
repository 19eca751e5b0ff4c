//! Namespaces and route netlink against the running kernel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

use std::io::{self, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

use ipnet::IpNet;
use netio::netlink::{Netlink, Route};
use netio::netns::{Namespace, set_sysctl};
use netio::process;

/// A namespace, or a reason on the terminal why there is none; `LABS=required` makes that a failure.
fn namespace(name: &str) -> Option<Namespace> {
    match Namespace::new(name) {
        Ok(namespace) => Some(namespace),
        Err(error) if std::env::var_os("LABS").is_some_and(|labs| labs == "required") => {
            panic!("{error}")
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn netlink<R: Send>(
    namespace: &Namespace,
    f: impl FnOnce(&mut Netlink) -> io::Result<R> + Send,
) -> io::Result<R> {
    namespace.run(|| f(&mut Netlink::open()?))
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `ip -o` with `arguments` inside `namespace`: another implementation's view.
fn iproute(namespace: &Namespace, arguments: &str) -> String {
    let output = namespace.run(|| {
        let mut command = Command::new("ip");
        command.arg("-o").args(arguments.split(' ')).stdout(Stdio::piped());
        process::spawn(&mut command).unwrap().wait_with_output().unwrap()
    });
    assert!(output.status.success(), "ip {arguments}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_job_borrows_from_its_caller_and_runs_inside() {
    let Some(namespace) = namespace("borrow") else { return };
    let mut seen = Vec::new();
    let length = namespace.run(|| {
        seen.push(std::fs::read_link("/proc/thread-self/ns/net").unwrap());
        seen.len()
    });
    assert_eq!(length, 1);
    assert_ne!(seen[0], std::fs::read_link("/proc/thread-self/ns/net").unwrap());
}

#[test]
fn a_job_may_run_another_job() {
    let Some(namespace) = namespace("nested") else { return };
    assert_eq!(namespace.run(|| namespace.run(|| 7)), 7);
}

#[test]
fn a_panicking_job_panics_the_caller_and_spares_the_namespace() {
    let Some(namespace) = namespace("panic") else { return };
    let outcome = catch_unwind(AssertUnwindSafe(|| namespace.run(|| panic!("as planned"))));
    assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "as planned");
    assert_eq!(namespace.run(|| 1), 1);
}

#[test]
fn a_socket_carried_away_stays_in_its_namespace() {
    let Some(namespace) = namespace("socket") else { return };
    netlink(&namespace, |netlink| netlink.set_up("lo")).unwrap();
    let (first, second) = namespace
        .run(|| Ok::<_, io::Error>((UdpSocket::bind("127.0.0.1:9")?, UdpSocket::bind("[::1]:0")?)))
        .unwrap();
    drop(namespace);
    first.send_to(b"still here", "127.0.0.1:9").unwrap();
    let mut bytes = [0; 32];
    assert_eq!(first.recv(&mut bytes).unwrap(), 10);
    assert!(second.local_addr().unwrap().ip().is_loopback());
}

#[test]
fn a_sysctl_is_set_in_the_namespace_only() {
    let Some(namespace) = namespace("sysctl") else { return };
    let path = "net/ipv4/ip_default_ttl";
    let read = || std::fs::read_to_string(format!("/proc/sys/{path}")).unwrap();
    let outside = read();
    namespace.run(|| set_sysctl(path, "9")).unwrap();
    assert_eq!(namespace.run(read), "9\n");
    assert_eq!(read(), outside);
}

#[test]
fn dropping_a_namespace_kills_its_children_and_destroys_its_links() {
    let (Some(kept), Some(dropped)) = (namespace("kept"), namespace("dropped")) else { return };
    netlink(&kept, |netlink| netlink.veth("cable", "end", dropped.fd())).unwrap();
    assert!(iproute(&dropped, "link").contains("end@"));
    let mut child = dropped.run(|| process::spawn(Command::new("sleep").arg("1000"))).unwrap();

    drop(dropped);

    let status = process::wait_until(&mut child, Duration::from_secs(20)).unwrap();
    assert!(status.is_some(), "the child outlived its namespace");
    // The kernel destroys namespaces in the background.
    for _ in 0..2000 {
        if !iproute(&kept, "link").contains("cable") {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("the cable into the dropped namespace is still there");
}

#[test]
fn links_addresses_and_routes_are_what_iproute_shows() {
    let (Some(here), Some(there)) = (namespace("here"), namespace("there")) else { return };
    netlink(&here, |netlink| netlink.veth("a0", "b0", there.fd())).unwrap();
    netlink(&there, |netlink| netlink.set_up("b0")).unwrap();
    netlink(&here, |netlink| {
        netlink.set_mtu("a0", 1300)?;
        netlink.set_up("a0")?;
        netlink.set_up("lo")?;
        netlink.add_address("a0", net("10.77.1.1/24"))?;
        netlink.add_address("a0", net("fd77:1::1/64"))?;
        netlink.add_route(Route::via(net("10.9.1.3/16"), ip("10.77.1.2")).with_mtu(1280))?;
        netlink.add_route(Route::via(net("::/0"), ip("fd77:1::2")))?;
        netlink.add_route(Route::on_link(net("10.8.0.0/16"), "a0"))?;
        netlink.add_local_route(net("192.0.2.0/28"))?;
        netlink.add_local_route(net("2001:db8::/64"))
    })
    .unwrap();

    let link = iproute(&here, "link show a0");
    assert!(link.contains("mtu 1300") && link.contains(",UP"), "{link}");
    assert!(iproute(&there, "link").contains("b0@"));
    let addresses = iproute(&here, "address show a0");
    assert!(addresses.contains("inet 10.77.1.1/24") && addresses.contains("inet6 fd77:1::1/64"));
    let routes = iproute(&here, "route") + &iproute(&here, "-6 route");
    assert!(
        routes.contains("10.9.0.0/16 via 10.77.1.2 dev a0 proto static mtu lock 1280"),
        "{routes}"
    );
    assert!(routes.contains("default via fd77:1::2 dev a0 proto static"), "{routes}");
    assert!(routes.contains("10.8.0.0/16 dev a0 proto static scope link"), "{routes}");
    let local = iproute(&here, "route show table local");
    assert!(local.contains("local 192.0.2.0/28 dev lo proto static scope host"), "{local}");
    let local = iproute(&here, "-6 route show table local");
    assert!(local.contains("local 2001:db8::/64 dev lo proto static"), "{local}");
}

#[test]
fn an_ordinary_lookup_says_which_addresses_are_local() {
    let Some(namespace) = namespace("lookup") else { return };
    netlink(&namespace, |netlink| {
        netlink.set_up("lo")?;
        netlink.add_local_route(net("192.0.2.0/28"))?;
        netlink.add_local_route(net("2001:db8::/64"))?;
        netlink.add_address("lo", net("10.1.1.1/32"))?;
        netlink.add_route(Route::on_link(net("10.8.0.0/16"), "lo"))
    })
    .unwrap();
    iproute(&namespace, "route add blackhole 10.2.0.0/16");
    iproute(&namespace, "route add prohibit 10.3.0.0/16");
    iproute(&namespace, "route add unreachable fd01::/16");
    let cases = [
        ("192.0.2.0", true),
        ("192.0.2.15", true),
        ("192.0.2.16", false),
        ("2001:db8::47", true),
        ("2001:db8:1::47", false),
        ("10.1.1.1", true),
        ("10.8.0.1", false),
        ("10.2.0.1", false),
        ("10.3.0.1", false),
        ("fd01::1", false),
        ("127.0.0.1", true),
        ("::1", true),
    ];
    for (address, expected) in cases {
        let local = netlink(&namespace, |netlink| netlink.route_is_local(ip(address))).unwrap();
        assert_eq!(local, expected, "{address}");
    }
}

#[test]
fn a_lookup_needs_no_privilege() {
    // Whatever the answer is: `lo` may be down where the test runs.
    Netlink::open().unwrap().route_is_local(ip("127.0.0.1")).unwrap();
}

#[test]
fn addresses_and_links_are_replaced_and_deleted() {
    let (Some(here), Some(there)) = (namespace("here"), namespace("there")) else { return };
    netlink(&here, |netlink| {
        netlink.veth("a0", "b0", there.fd())?;
        for address in [net("10.77.1.1/24"), net("fd77:1::1/64")] {
            netlink.replace_address("a0", address)?;
            netlink.replace_address("a0", address)?;
            let error = netlink.add_address("a0", address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            netlink.delete_address("a0", address)?;
            assert!(netlink.delete_address("a0", address).is_err());
        }
        netlink.delete_link("a0")
    })
    .unwrap();
    assert!(!iproute(&there, "link").contains("b0@"));
}

#[test]
fn errors_name_operation_object_and_errno() {
    let (Some(here), Some(there)) = (namespace("here"), namespace("there")) else { return };
    netlink(&here, |netlink| netlink.veth("a0", "b0", there.fd())).unwrap();
    let text = |f: &(dyn Fn(&mut Netlink) -> io::Result<()> + Sync)| {
        netlink(&here, |netlink| f(netlink)).unwrap_err().to_string()
    };
    assert_eq!(
        text(&|netlink| netlink.set_up("eth7")),
        "set link eth7 up: No such device (os error 19)"
    );
    assert_eq!(
        text(&|netlink| netlink.veth("a0", "b1", there.fd())),
        "create veth a0 with peer b1: File exists (os error 17)"
    );
    assert_eq!(
        text(&|netlink| netlink.add_route(Route::via(net("10.0.0.0/8"), ip("10.9.9.9")))),
        "add route to 10.0.0.0/8: Network is unreachable (os error 101)"
    );
    assert_eq!(
        text(&|netlink| netlink.add_route(Route::via(net("10.0.0.0/8"), ip("::1")))),
        "add route to 10.0.0.0/8: next hop ::1 is of the other address family"
    );
    assert_eq!(
        text(&|netlink| netlink.set_mtu("a0", 7)),
        "set mtu 7 on a0: Invalid argument (os error 22)"
    );
}
