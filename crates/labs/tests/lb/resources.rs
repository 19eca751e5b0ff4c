//! Resources that are wrong, or gone.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::clients::{Connection, open, rounds};
use labs::lb::mapping::Mapping;
use netio::process::Signal;

/// A new connection works.
fn serves(bed: &Bed, balancer: &Balancer<'_>) {
    let opened = bed.client.run(|| Connection::open(echo_address(bed)).and_then(|mut c| c.round()));
    opened.unwrap_or_else(|error| panic!("{error}\n{}", balancer.summary()));
}

#[test]
fn a_bad_file_changes_nothing_and_each_error_names_file_line_and_path() {
    let Some(bed) = bed("bad-file", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mapping = echo_mapping(&bed, &[0, 1]).twice_nat();
    let balancer = Balancer::start(&bed, std::slice::from_ref(&mapping)).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    let bad =
        mapping.yaml().replace("vipPort: 80", "vipPort: 80000").replace("{ type: DISABLED }", "{}");
    let line = |text: &str| 1 + bad.lines().position(|line| line.contains(text)).unwrap();
    let (port, check) = (line("vipPort"), line("healthCheck"));
    balancer.put_text(&bad).unwrap();
    balancer.wait_lines("what was in force stays", 1).unwrap();
    let file = balancer.resources().join("lb.yaml").display().to_string();
    for (line, path) in [(port, "spec.vipPort"), (check, "spec.healthCheck")] {
        let named = |text: &String| text.contains(&format!("{file}:{line}")) && text.contains(path);
        let lines = balancer.process.lines();
        assert!(lines.iter().any(named), "{line} {path} is not in {lines:?}");
    }
    assert_eq!(balancer.status().unwrap()["configurationGood"], false);
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}");
    serves(&bed, &balancer);
    balancer.put(&[mapping]).unwrap();
    assert_eq!(balancer.status().unwrap()["configurationGood"], true);
}

#[test]
fn a_directory_that_has_gone_changes_nothing() {
    let Some(bed) = bed("no-directory", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let mapping = echo_mapping(&bed, &[0]).twice_nat();
    let mut balancer = Balancer::start(&bed, std::slice::from_ref(&mapping)).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 5)).unwrap();
    std::fs::remove_dir_all(balancer.resources()).unwrap();
    balancer.process.signal(Signal::HUP).unwrap();
    balancer.wait_lines("what was in force stays", 1).unwrap();
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}");
    serves(&bed, &balancer);
    // It is back, and is read without a signal or with one.
    std::fs::create_dir(balancer.resources()).unwrap();
    balancer.put_text(&mapping.yaml()).unwrap();
    balancer.process.signal(Signal::HUP).unwrap();
    balancer.wait_lines("resources read", 2).unwrap();
    serves(&bed, &balancer);
}

#[test]
fn after_a_restart_with_a_bad_file_the_last_good_resources_serve() {
    let Some(bed) = bed("last-good", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let mut balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0]).twice_nat()]).unwrap();
    balancer.put_text("type: nothing\n").unwrap();
    balancer.wait_lines("what was in force stays", 1).unwrap();
    balancer.restart().unwrap();
    balancer.wait_lines("serving the last good resources", 1).unwrap();
    serves(&bed, &balancer);
    assert_eq!(balancer.status().unwrap()["configurationGood"], false);
}

#[test]
fn a_vip_that_clients_are_translated_to_is_refused_with_both_names() {
    let Some(bed) = bed("overlap", Shape::TwoArms, 1) else { return };
    let pool = "[[snat_pools]]\nname = \"few\"\naddresses = [\"10.2.0.100-10.2.0.110\"]\n";
    let balancer = Balancer::start_with(&bed, pool, &[echo_mapping(&bed, &[0])]).unwrap();
    let both = Mapping::new("both", "10.2.0.105", "tcp", Some(80)).backend(
        "backend1",
        &bed.backend(Family::V4, 0),
        ", port: 7000",
    );
    balancer.put_text(&both.yaml()).unwrap();
    balancer.wait_lines("what was in force stays", 1).unwrap();
    let named = |line: &String| {
        line.contains("10.2.0.105") && line.contains("few") && line.contains("lb.yaml:")
    };
    let lines = balancer.process.lines();
    assert!(lines.iter().any(named), "{lines:?}");
}

#[test]
fn l4_34_the_order_of_backends_does_not_change_the_table() {
    let Some(bed) = bed("order", Shape::TwoArms, 3) else { return };
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0, 1, 2])]).unwrap();
    let digest = || balancer.status().unwrap()["mappings"][0]["tableDigest"].to_string();
    let first = digest();
    balancer.put(&[echo_mapping(&bed, &[2, 0, 1])]).unwrap();
    assert_eq!(digest(), first);
    balancer.put(&[echo_mapping(&bed, &[2, 0])]).unwrap();
    assert_ne!(digest(), first);
}
