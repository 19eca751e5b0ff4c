//! The operator's side: command line, privileges, signals, metrics, guard, trace.

use crate::{bed, reports};
use labs::distributor::Distributor;
use labs::peers::{PYTHON, have};
use labs::programs::program;
use netio::process::Signal;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::bed::{Bed, Families, wait_for_lines};
use testkit::process::Process;

const PATIENCE: Duration = Duration::from_secs(20);

fn run(bed: &Bed, command: &mut Command) -> (Option<i32>, String) {
    let mut process: Process = bed.edge.spawn_command(command).unwrap();
    let status = process.wait(PATIENCE).unwrap();
    (status.code(), process.lines().join("\n"))
}

#[test]
fn only_the_raw_socket_capability_is_kept() {
    let Some(bed) = bed("caps", 1) else { return };
    let gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    let path = format!("/proc/{}/task", gredist.process.id());
    let mut threads = 0;
    for task in std::fs::read_dir(path).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        // CAP_NET_RAW is bit 13 (capabilities(7)).
        for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
            assert_eq!(field(set), "0000000000002000", "{set}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        threads += 1;
    }
    assert_eq!(threads, 2, "one for packets, one for control");
}

#[test]
fn without_the_capability_it_says_what_is_missing_and_how_to_grant_it() {
    let Some(bed) = bed("no-caps", 1) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), Families::V4.config(1)).unwrap();
    let gredist = program("gredist");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    command.arg(gredist.get_program()).arg("-c").arg(file.path());
    let (code, output) = run(&bed, &mut command);
    assert_eq!(code, Some(1), "{output}");
    for word in ["CAP_NET_RAW", "setcap cap_net_raw", "AmbientCapabilities"] {
        assert!(output.contains(word), "{word} is not in: {output}");
    }
}

#[test]
fn a_frontend_or_a_return_prefix_that_is_not_local_is_refused_with_the_command() {
    let Some(bed) = bed("not-local", 1) else { return };
    for (text, expected) in [
        ("frontend=10.77.0.99\nbackend=10.77.11.2\n", "ip address add 10.77.0.99/32 dev lo"),
        (
            "frontend=10.77.0.47\nbackend=fd77:11::2\nprefix=fd77:65::/96\n",
            "ip route add local fd77:65::/96 dev lo",
        ),
        (
            "frontend=fd77::47\nbackend=10.77.11.2\npool=10.77.65.0/28\n",
            "ip route add local 10.77.65.0/28 dev lo",
        ),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (code, output) = run(&bed, program("gredist").arg("-c").arg(file.path()));
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains(expected), "{output}");
    }
}

#[test]
fn a_device_that_merges_packets_is_named_with_the_remedy() {
    let Some(bed) = bed("gro", 1) else { return };
    if !have("ethtool", "ethtool") {
        return;
    }
    let link = bed.edge_link.left.clone();
    let mut ethtool = bed.edge.spawn("ethtool", ["-K", &link, "gro", "on"]).unwrap();
    assert!(ethtool.wait(PATIENCE).unwrap().success(), "{:?}", ethtool.lines());
    let gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    assert_eq!(gredist.count_lines(&format!("ethtool -K {link} gro off")), 1);
    drop(gredist);
    let mut ethtool = bed.edge.spawn("ethtool", ["-K", &link, "gro", "off"]).unwrap();
    assert!(ethtool.wait(PATIENCE).unwrap().success(), "{:?}", ethtool.lines());
    let gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    assert_eq!(gredist.count_lines("gro off"), 0);
}

#[test]
fn signals_report_and_end() {
    let Some(bed) = bed("signals", 2) else { return };
    for signal in [Signal::TERM, Signal::INT] {
        let _sinks = bed.sinks(Families::V4).unwrap();
        let mut gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();
        bed.send(Families::V4, &["--key", "1", "--flows", "20", "--count", "100"]).unwrap();
        bed.send(Families::V4, &["--malformed", "version", "--count", "3"]).unwrap();
        gredist.wait_dropped("gre_version", 3).unwrap();
        gredist.process.signal(Signal::USR1).unwrap();
        wait_for_lines(&gredist.process, "statistics received_packets=103", 1).unwrap();
        wait_for_lines(&gredist.process, "statistics of a backend", 2).unwrap();
        wait_for_lines(&gredist.process, "reason=gre_version count=3", 1).unwrap();
        gredist.process.signal(signal).unwrap();
        assert_eq!(gredist.process.wait(PATIENCE).unwrap().code(), Some(0));
        assert_eq!(gredist.count_lines("ended"), 1);
        // Each transition was logged once.
        assert_eq!(gredist.count_lines("backend came up"), 2);
    }
}

#[test]
fn metrics_pass_promtool_and_count_what_was_sent() {
    let Some(bed) = bed("metrics", 2) else { return };
    if !have("promtool", "prometheus") {
        return;
    }
    let gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();
    bed.send(Families::V4, &["--key", "1", "--flows", "50", "--count", "500"]).unwrap();
    let sent = || {
        let status = gredist.status().unwrap();
        let packets = |n: usize| status["backends"][n]["packets"].as_u64().unwrap();
        packets(0) + packets(1) == 500
    };
    testkit::wait::until(PATIENCE, "500 packets to be forwarded", sent).unwrap();
    let (head, metrics) = gredist.page("/metrics").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"));
    assert!(metrics.contains("gredist_received_packets_total 500\n"), "{metrics}");
    let sent: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("gredist_backend_packets_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(sent, 500);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    for (path, status) in
        [("/healthz", "200"), ("/readyz", "200"), ("/status", "200"), ("/x", "404")]
    {
        let (head, _) = gredist.page(path).unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {head}");
    }
}

#[test]
fn l3_59_with_the_guard_a_stopped_daemon_is_silent() {
    let Some(bed) = bed("guard", 1) else { return };
    if !have("nft", "nftables") || !labs::peers::have_scapy() {
        return;
    }
    for families in [Families::V4, Families::V6] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), families.config(1)).unwrap();
        let script = "s = AsyncSniffer(store=False, lfilter=lambda p: (ICMP in p and p[ICMP].type == 3 and p[ICMP].code == 2 and p[IP].src == '10.77.0.47') or (ICMPv6ParamProblem in p and p[IPv6].src == 'fd77::47'), prn=lambda p: print('unreachable', flush=True), started_callback=lambda: print('listening', flush=True))\ns.start(); s.join()";
        let mut sniffer = labs::peers::scapy(&bed.client, script).unwrap();
        sniffer.wait_for_line(|line| line == "listening", PATIENCE).unwrap();
        let unreachable = |sniffer: &Process| {
            sniffer.lines().iter().filter(|line| *line == "unreachable").count()
        };
        // Without the guard the kernel answers: the test can see it.
        bed.send(families, &["--key", "1", "--count", "1"]).unwrap();
        sniffer.wait_for_line(|line| line == "unreachable", PATIENCE).unwrap();
        let before = unreachable(&sniffer);

        let (code, table) =
            run(&bed, program("gredist").args(["--print-guard", "lab", "-c"]).arg(file.path()));
        assert_eq!(code, Some(0), "{table}");
        bed.edge.nft(&table).unwrap();
        bed.edge.nft(&table).unwrap();
        // A started and stopped daemon leaves the guard in place.
        let mut gredist = Distributor::start(&bed, &families.config(1), 1).unwrap();
        bed.send(families, &["--key", "1", "--count", "50"]).unwrap();
        gredist.process.stop().unwrap();
        bed.send(families, &["--key", "1", "--count", "200"]).unwrap();
        // An echo that is answered after them proves that the client would have seen more.
        let flag = if families == Families::V6 { "-6" } else { "-4" };
        let mut ping = bed.client.spawn("ping", [flag, "-c1", "-W5", families.frontend()]).unwrap();
        assert!(ping.wait(PATIENCE).unwrap().success(), "{:?}", ping.lines());
        assert_eq!(unreachable(&sniffer), before, "{}", families.name());
    }
}

#[test]
fn the_trace_names_the_backend_that_takes_the_flow() {
    let Some(bed) = bed("trace", 3) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let config = format!("{}key_mask=0xffffff00\n", Families::V4.config(3))
        .replace("12.2\n", "12.2 weight=5\n");
    let gredist = Distributor::start(&bed, &config, 3).unwrap();
    for key in (0..10).map(|n| n * 256 + 7) {
        bed.send(Families::V4, &["--key", &key.to_string()]).unwrap();
        let flow = format!("10.77.1.2,key={key}");
        let (code, trace) =
            run(&bed, program("gredist").arg("-c").arg(gredist.file()).args(["--trace", &flow]));
        assert_eq!(code, Some(0), "{trace}");
        let line = trace.lines().find(|line| line.contains("takes the flow")).unwrap();
        let named = line.split_whitespace().nth(3).unwrap();
        let mut seen = None;
        testkit::wait::until(PATIENCE, "the packet", || {
            let place = reports(&mut sinks).iter().position(|report| report.packets == 1);
            seen = seen.or(place);
            seen.is_some()
        })
        .unwrap();
        assert_eq!(named, Families::V4.backend(seen.unwrap()), "{trace}");
    }
}

#[test]
fn the_log_goes_to_syslog_when_asked_to() {
    let Some(bed) = bed("syslog", 1) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}check_interval=100ms\n", Families::V4.config(1)))
        .unwrap();
    // A private /dev with a socket that prints what syslog(3) sends to it.
    let listener = "import os, socket\n\
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.bind('/dev/log')\nprint('listening', flush=True)\n\
        while True: print(s.recv(4096).decode(), flush=True)";
    let gredist = program("gredist");
    let script = format!(
        "mount -t tmpfs none /dev && : > /dev/null && {{ {PYTHON} -c \"{listener}\" & }}; \
         until [ -S /dev/log ]; do :; done; exec \"$0\" --syslog -c \"$1\""
    );
    let mut process = bed
        .edge
        .spawn_command(
            Command::new("unshare")
                .args(["-m", "sh", "-c", &script])
                .arg(gredist.get_program())
                .arg(file.path()),
        )
        .unwrap();
    let started =
        |line: &str| line.contains("gredist") && line.contains("started frontend=10.77.0.47");
    let line = process.wait_for_line(started, PATIENCE).unwrap();
    assert!(line.starts_with('<'), "a syslog priority: {line}");
}

#[test]
fn a_bad_configuration_ends_the_daemon_with_78_and_every_error_in_the_log() {
    let Some(bed) = bed("bad-config", 1) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "frontend=x\nbackend=10.0.0.300\nbackends=10.0.0.1\n").unwrap();
    for option in ["--log-format=text", "--check-config"] {
        let (code, output) = run(&bed, program("gredist").arg(option).arg("-c").arg(file.path()));
        assert_eq!(code, Some(78), "{output}");
        for error in [
            ":1: frontend=x: not an IPv4 or IPv6 address",
            ":2: backend=10.0.0.300: not an IPv4 or IPv6 address",
            ":3: backends=10.0.0.1: unknown key: did you mean backend?",
        ] {
            assert!(output.contains(error), "{error} is not in {output}");
        }
    }
}

#[test]
fn a_second_distributor_of_the_same_frontend_is_refused() {
    let Some(bed) = bed("twice", 1) else { return };
    let first = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), Families::V4.config(1)).unwrap();
    let (code, output) = run(&bed, program("gredist").arg("-c").arg(file.path()));
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("10.77.0.47/32 is distributed by another gredist"), "{output}");
    drop(first);
    Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
}

#[test]
fn a_configuration_that_is_a_pipe_does_not_stop_the_control_loop() {
    let Some(bed) = bed("pipe", 1) else { return };
    let mut gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    std::fs::remove_file(gredist.file()).unwrap();
    let made = Command::new("mkfifo").arg(gredist.file()).status().unwrap();
    assert!(made.success());
    gredist.process.signal(Signal::HUP).unwrap();
    wait_for_lines(&gredist.process, "not a regular file", 1).unwrap();
    wait_for_lines(&gredist.process, "the running configuration stays", 1).unwrap();
    let (head, _) = gredist.page("/healthz").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}
