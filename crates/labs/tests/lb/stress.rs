//! Floods, full tables, and operators who rename things.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::PATIENCE;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape, ip};
use labs::lb::clients::{Connection, open, rounds};
use labs::lb::mapping::Mapping;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::wait;

const SECOND: Duration = Duration::from_secs(1);

fn unbroken(bed: &Bed, balancer: &Balancer<'_>, connections: &mut [Connection]) {
    let broken = bed.client.run(|| rounds(connections));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

/// The mapping under another name, for another port of the VIP, to the second backend.
fn other(bed: &Bed, id: &str, port: u16) -> Mapping {
    Mapping::new(id, &bed.vip(Family::V4, 10), "tcp", Some(port))
        .backend("backend2", &bed.backend(Family::V4, 1), ", port: 7000")
        .twice_nat()
}

#[test]
fn a_mapping_renamed_or_removed_breaks_no_connection() {
    let Some(bed) = bed("renamed", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let first = echo_mapping(&bed, &[0, 1]).twice_nat();
    let balancer = Balancer::start(&bed, &[first, other(&bed, "second", 81)]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    // The services change names, then one is left, then none.
    for mappings in [
        vec![other(&bed, "echo", 81), other(&bed, "third", 80)],
        vec![other(&bed, "third", 80)],
        vec![],
    ] {
        balancer.put(&mappings).unwrap();
        unbroken(&bed, &balancer, &mut all);
    }
    balancer.put(&[other(&bed, "new", 80)]).unwrap();
    all.extend(bed.client.run(|| open(echo_address(&bed), 5)).unwrap());
    unbroken(&bed, &balancer, &mut all);
}

#[test]
fn a_vip_that_is_added_is_answered_for_on_its_subnet() {
    let Some(bed) = bed("added", Shape::Flat, 1) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0]).twice_nat()]).unwrap();
    let added = Family::ALL.map(|family| {
        let id = if family == Family::V4 { "added4" } else { "added6" };
        Mapping::new(id, &bed.vip(family, 77), "tcp", Some(80))
            .backend("backend1", &bed.backend(family, 0), ", port: 7000")
            .twice_nat()
    });
    balancer.put(&added).unwrap();
    for to in
        [format!("{}:80", bed.vip(Family::V4, 77)), format!("[{}]:80", bed.vip(Family::V6, 77))]
    {
        let mut all = bed.client.run(|| open(to.parse().unwrap(), 3)).unwrap();
        unbroken(&bed, &balancer, &mut all);
    }
}

#[test]
fn a_link_that_flaps_takes_no_connection_with_it() {
    let Some(bed) = bed("flap", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0, 1]).twice_nat()]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    for arm in &bed.arms {
        ip(&bed.node, &format!("link set {arm} down")).unwrap();
        ip(&bed.node, &format!("link set {arm} up")).unwrap();
        unbroken(&bed, &balancer, &mut all);
        let opened =
            || bed.client.run(|| Connection::open_from(0, echo_address(&bed), SECOND).is_ok());
        wait::until(PATIENCE, "new connections", opened).unwrap();
    }
}

#[test]
fn l4_30_open_connections_outlive_a_flood_and_a_change() {
    let Some(bed) = bed("flood", Shape::TwoArms, 2) else { return };
    if !labs::peers::have("hping3", "hping3") {
        return;
    }
    bed.route_backends().unwrap();
    let _echoes = echoes(&bed);
    let config = "sessions = 4096\nhalf_open_sessions = 1024\n";
    let balancer =
        Balancer::start_with(&bed, config, &[echo_mapping(&bed, &[0, 1]).twice_nat()]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 200)).unwrap();
    let vip = bed.vip(Family::V4, 10);
    let args = ["-S", "--rand-source", "-p", "80", "-i", "u20", "-c", "50000", &vip];
    let mut flood = bed.client.spawn("hping3", args).unwrap();
    balancer.wait_dropped("half_open_exhausted", 1000).unwrap();
    unbroken(&bed, &balancer, &mut all);
    balancer.put(&[echo_mapping(&bed, &[1]).twice_nat()]).unwrap();
    unbroken(&bed, &balancer, &mut all);
    flood.wait(Duration::from_secs(30)).unwrap();
    unbroken(&bed, &balancer, &mut all);
}

#[test]
fn when_every_session_is_in_use_new_flows_are_dropped_and_counted() {
    let Some(bed) = bed("full", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let balancer =
        Balancer::start_with(&bed, "sessions = 1024\n", &[echo_mapping(&bed, &[0, 1]).twice_nat()])
            .unwrap();
    let mut all = Vec::new();
    // A flow may find no room in the index earlier; its client would come from another port.
    while balancer.dropped("sessions_exhausted") == 0 {
        bed.client.run(|| {
            while let Ok(one) = Connection::open_from(0, echo_address(&bed), SECOND / 2) {
                all.push(one);
                assert!(all.len() < 1024);
            }
        });
    }
    assert!(all.len() > 900, "{} {}", all.len(), balancer.summary());
    unbroken(&bed, &balancer, &mut all);
}

#[test]
fn two_hundred_services_start_at_once() {
    let Some(bed) = bed("many", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mappings: Vec<Mapping> =
        (0..200).map(|n| other(&bed, &format!("m{n}"), 1000 + n)).collect();
    let balancer = Balancer::start(&bed, &mappings).unwrap();
    for port in [1000, 1100, 1199] {
        let to = format!("{}:{port}", bed.vip(Family::V4, 10)).parse().unwrap();
        let mut all = bed.client.run(|| open(to, 3)).unwrap();
        unbroken(&bed, &balancer, &mut all);
    }
}

#[test]
fn a_storm_of_changes_fails_no_new_connection() {
    let Some(bed) = bed("storm", Shape::TwoArms, 3) else { return };
    let _echoes = echoes(&bed);
    // A transition ends within the storm.
    let config = "transition_sec = 1\n";
    let mapping = |backends: &[usize]| [echo_mapping(&bed, backends).twice_nat()];
    let balancer = Balancer::start_with(&bed, config, &mapping(&[0, 1, 2])).unwrap();
    let ended = AtomicBool::new(false);
    let connect = || {
        bed.client.run(|| {
            let mut all = Vec::new();
            while !ended.load(Ordering::Acquire) {
                let mut one = Connection::open_from(0, echo_address(&bed), 5 * SECOND)?;
                one.round()?;
                // Some stay open.
                if all.len() < 500 {
                    all.push(one);
                }
            }
            let broken = rounds(&mut all);
            if broken.is_empty() { Ok(all.len()) } else { Err(format!("{broken:?}")) }
        })
    };
    let opened = std::thread::scope(|scope| {
        let client = scope.spawn(connect);
        for _ in 0..8 {
            for backends in [&[0, 1][..], &[2], &[0, 1, 2], &[1]] {
                let _written = balancer.put_text(&mapping(backends)[0].yaml());
                balancer.put(&mapping(&[0, 2])).unwrap();
            }
        }
        ended.store(true, Ordering::Release);
        client.join().unwrap()
    });
    let opened = opened.unwrap_or_else(|error| panic!("{error}\n{}", balancer.summary()));
    assert!(opened > 50, "{opened}");
}

#[test]
fn a_change_of_more_tables_than_there_is_room_for_at_once_arrives_a_little_later() {
    let Some(bed) = bed("tables", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    // Names of their own, so that no two services share a table: 40 of 65,537 rows in 2^22.
    let mapping = |n: u16, backends: &[usize]| {
        let mapping = Mapping::new(&format!("m{n}"), &bed.vip(Family::V4, 10), "tcp", Some(n));
        let named = backends.iter().fold(mapping, |mapping, number| {
            let address = bed.backend(Family::V4, *number);
            mapping.backend(&format!("b{n}-{number}"), &address, ", port: 7000")
        });
        named.twice_nat()
    };
    let all = |backends: &[usize]| (60..100).map(|n| mapping(n, backends)).collect::<Vec<_>>();
    let balancer = Balancer::start(&bed, &all(&[0, 1])).unwrap();
    balancer.put(&all(&[0])).unwrap();
    for port in [60, 99] {
        let to = format!("{}:{port}", bed.vip(Family::V4, 10)).parse().unwrap();
        let moved = || {
            let opened = bed.client.run(|| open(to, 12)).unwrap();
            opened.iter().all(|connection| connection.server == "backend1")
        };
        wait::until(PATIENCE, "the change of every service", moved)
            .unwrap_or_else(|error| panic!("{port}: {error}\n{}", balancer.summary()));
    }
    let good = || balancer.status().unwrap()["configurationGood"] == true;
    wait::until(PATIENCE, "a good configuration", good).unwrap();
}
