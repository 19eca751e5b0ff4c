//! What the node asks of its interfaces and of its host, and segments on their way.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Shape, ip, stub};
use labs::lb::capture::Capture;
use labs::lb::clients::{open, rounds};
use labs::lb::{PATIENCE, done};
use labs::programs::program;

#[test]
fn a_foreign_program_on_an_interface_is_an_error_that_names_it() {
    let Some(bed) = bed("foreign", Shape::TwoArms, 1) else { return };
    let arm = &bed.arms[1];
    let foreign = stub(&bed.node, arm).unwrap();
    let mapping = [echo_mapping(&bed, &[0]).twice_nat()];
    let mut balancer = Balancer::launch(&bed, "", &mapping).unwrap();
    assert_eq!(balancer.process.wait(PATIENCE).unwrap().code(), Some(1));
    let lines = balancer.process.lines().join("\n");
    let shown = done(&bed.node, "ip", &["link", "show", "dev", arm]).unwrap();
    let id = shown.split("prog/xdp id ").nth(1).unwrap().split_whitespace().next().unwrap();
    let error = format!("interface {arm} already runs an XDP program (id {id})");
    assert!(lines.contains(&error), "{lines}");
    drop(foreign);
    Balancer::start(&bed, &mapping).unwrap();
}

#[test]
fn generic_mode_serves_and_warns() {
    let Some(bed) = bed("generic", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let config = "dataplane = \"xdp-generic\"\n";
    let mapping = echo_mapping(&bed, &[0, 1]).twice_nat();
    let balancer = Balancer::start_with(&bed, config, &[mapping]).unwrap();
    let lines = balancer.process.lines();
    let warned = |line: &&String| line.contains("WARN") && line.contains("generic");
    assert_eq!(lines.iter().filter(warned).count(), 2, "{lines:?}");
    let mut all = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

#[test]
fn sysctls_are_named_or_set_and_put_back() {
    let Some(bed) = bed("sysctls", Shape::TwoArms, 1) else { return };
    let range = || done(&bed.node, "cat", &["/proc/sys/net/ipv4/ip_local_port_range"]).unwrap();
    let before = range();
    let mapping = [echo_mapping(&bed, &[0]).twice_nat()];
    let mut balancer = Balancer::start(&bed, &mapping).unwrap();
    assert_eq!(range().split_whitespace().collect::<Vec<_>>(), ["1024", "16383"]);
    assert!(balancer.process.stop().unwrap().success());
    assert_eq!(range(), before);
    // Not asked to, it sets nothing and says what to set.
    let mut command = program("lb-node");
    command.arg("--config").arg(balancer.resources().with_file_name("lb-node.toml"));
    let refused = |command: &mut _| {
        let mut process = bed.node.spawn_command(command).unwrap();
        (process.wait(PATIENCE).unwrap().code(), process.lines().join("\n"))
    };
    let (code, text) = refused(&mut command);
    assert!(code == Some(1) && text.contains("--fix-sysctls"), "{text}");
    bed.node.forwarding().unwrap();
    let (code, text) = refused(&mut command);
    assert!(code == Some(1) && text.contains("ip_local_port_range"), "{text}");
    assert_eq!(range(), before);
}

#[test]
fn l4_16_segments_are_lowered_at_both_ends_of_a_handshake_and_never_raised() {
    let Some(bed) = bed("clamp", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let mapping = echo_mapping(&bed, &[0]).twice_nat().with("mssClamp: 1200");
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let syn = "tcp[tcpflags] & tcp-syn != 0";
    let at_client = Capture::start(&bed.client, &bed.client_link, syn).unwrap();
    let at_backend = Capture::start(&bed.backends[0], &bed.backend_links[0], syn).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 3)).unwrap();
    at_client.wait("Flags [S.]", 3).unwrap();
    at_backend.wait("Flags [S]", 3).unwrap();
    let agreed = |capture: &Capture, flags: &str, size: &str| {
        let lines = capture.lines();
        let mine = |line: &&String| line.contains(flags) && line.contains(size);
        lines.iter().filter(mine).count()
    };
    assert_eq!(agreed(&at_client, "Flags [S],", "mss 1460"), 3, "{:?}", at_client.lines());
    assert_eq!(agreed(&at_backend, "Flags [S],", "mss 1200"), 3, "{:?}", at_backend.lines());
    assert_eq!(agreed(&at_backend, "Flags [S.],", "mss 1460"), 3, "{:?}", at_backend.lines());
    assert_eq!(agreed(&at_client, "Flags [S.],", "mss 1200"), 3, "{:?}", at_client.lines());
    // A client that wants less gets it.
    ip(&bed.client, "route change default via 10.1.0.1 advmss 600").unwrap();
    all.extend(bed.client.run(|| open(echo_address(&bed), 1)).unwrap());
    at_backend.wait("mss 600", 1).unwrap();
    assert_eq!((at_client.count("incorrect"), at_backend.count("incorrect")), (0, 0));
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}
