//! What passes by a mapping: NAT of nftables, the host's own services, neighbours that change.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Shape, ip};
use labs::lb::clients::{Connection, open, rounds};
use labs::lb::{PATIENCE, servers};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::lab::Host;
use testkit::wait;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(10);

/// A connection, three rounds; the server's name.
fn talk(host: &Host, to: &str) -> Result<String, String> {
    let to: SocketAddr = to.parse().unwrap();
    host.run(|| {
        let mut connection = Connection::open(to)?;
        (0..3).try_for_each(|_| connection.round())?;
        Ok(connection.server)
    })
}

/// The node translates other packets of the same interfaces by nftables.
fn nftables(name: &str, twice: bool) {
    let Some(bed) = bed(name, Shape::TwoArms, 2) else { return };
    if !twice {
        bed.route_backends().unwrap();
    }
    let _echoes = echoes(&bed);
    let _others: Vec<_> =
        bed.backends.iter().map(|host| servers::echo(host, 7100).unwrap()).collect();
    let at_client = servers::echo(&bed.client, 7200).unwrap();
    let (inside, outside) = (&bed.arms[1], &bed.arms[0]);
    // Clients towards backends are masqueraded, one port leads to a backend, backends go out as
    // another address of the node.
    ip(&bed.node, &format!("addr add 10.1.0.77/24 dev {outside}")).unwrap();
    bed.node
        .nft(&format!(
            "table ip nat {{\n\
             chain pre {{ type nat hook prerouting priority -100;\n\
             ip daddr 10.1.0.1 tcp dport 2222 dnat to 10.2.0.12:7100\n }}\n\
             chain post {{ type nat hook postrouting priority 100;\n\
             oifname \"{inside}\" ip saddr 10.1.0.0/24 masquerade\n\
             oifname \"{outside}\" ip saddr 10.2.0.0/24 snat to 10.1.0.77\n }}\n }}\n"
        ))
        .unwrap();
    if twice {
        bed.backends.iter().for_each(|host| host.route("10.1.0.0/24", "10.2.0.1").unwrap());
    }
    let mapping = echo_mapping(&bed, &[0, 1]);
    let mapping = if twice { mapping.twice_nat() } else { mapping };
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let mut through = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    for _ in 0..3 {
        let (masqueraded, translated) =
            (talk(&bed.client, "10.2.0.11:7100"), talk(&bed.client, "10.1.0.1:2222"));
        assert_eq!(masqueraded, Ok("backend1".into()), "{}", balancer.summary());
        assert_eq!(translated, Ok("backend2".into()), "{}", balancer.summary());
        let outwards = talk(&bed.backends[0], "10.1.0.2:7200");
        assert_eq!(outwards, Ok("client".into()), "{}", balancer.summary());
        let broken = bed.client.run(|| rounds(&mut through));
        assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    }
    drop(at_client);
}

#[test]
fn nftables_translates_beside_a_vip_with_nat() {
    nftables("nft-nat", false);
}

#[test]
fn nftables_translates_beside_a_vip_with_twice_nat() {
    nftables("nft-twice", true);
}

#[test]
fn masquerading_to_the_hosts_own_ports_never_meets_a_session() {
    let Some(bed) = bed("masquerade", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0]).twice_nat()]).unwrap();
    // The ports that --fix-sysctls leaves to the host.
    bed.node
        .nft(
            "table ip nat {\n chain post { type nat hook postrouting priority 100;\n \
             ip saddr 10.1.0.0/24 ip protocol tcp masquerade to :1024-16383\n }\n }\n",
        )
        .unwrap();
    // One client port, one backend's port, by the VIP and past it.
    let mut both: Vec<Connection> = bed.client.run(|| {
        let direct = "10.2.0.11:7000".parse().unwrap();
        let open = |to| Connection::open_from(40_000, to, LONG).unwrap();
        [echo_address(&bed), direct].map(open).into()
    });
    let broken = bed.client.run(|| rounds(&mut both));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

#[test]
fn connections_to_the_node_itself_are_the_hosts() {
    let Some(bed) = bed("own", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let _own = servers::echo(&bed.node, 2200).unwrap();
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0]).twice_nat()]).unwrap();
    for (host, to) in [
        (&bed.client, "10.1.0.1:2200"),
        (&bed.client, "[fd01::1]:2200"),
        (&bed.backends[0], "10.2.0.1:2200"),
    ] {
        assert_eq!(talk(host, to), Ok("node".into()), "{to}: {}", balancer.summary());
    }
    // And the node's own, to where its backends are.
    assert_eq!(talk(&bed.node, "10.2.0.11:7000"), Ok("backend1".into()));
}

/// One round within this time, tried again as a client's TCP does.
fn alive(bed: &Bed, connections: &mut [Connection], limit: Duration) {
    let mut outcome = Vec::new();
    bed.client.run(|| {
        let limit = Some(limit);
        connections.iter().for_each(|one| one.stream().set_read_timeout(limit).unwrap());
        outcome = rounds(connections);
    });
    assert!(outcome.is_empty(), "{outcome:?}");
}

#[test]
fn l4_07_a_forgotten_neighbour_is_found_within_a_second() {
    let Some(bed) = bed("flush", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0, 1]).twice_nat()]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 20)).unwrap();
    for _ in 0..3 {
        for command in ["neigh flush all", "neigh flush nud permanent", "-6 neigh flush all"] {
            ip(&bed.node, command).unwrap();
        }
        alive(&bed, &mut all, SECOND);
        // New flows too.
        let again = bed.client.run(|| Connection::open_from(0, echo_address(&bed), SECOND));
        again.unwrap_or_else(|error| panic!("{error}\n{}", balancer.summary()));
    }
}

#[test]
fn l4_07_a_backend_with_a_new_ethernet_address_is_followed() {
    let Some(bed) = bed("new-mac", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0]).twice_nat()]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 5)).unwrap();
    let link = &bed.backend_links[0];
    bed.backends[0].sysctl(&format!("net/ipv4/conf/{link}/arp_notify"), "1").unwrap();
    ip(&bed.backends[0], &format!("link set {link} address 02:00:00:00:00:77")).unwrap();
    alive(&bed, &mut all, LONG);
    let opened = || bed.client.run(|| Connection::open_from(0, echo_address(&bed), SECOND).is_ok());
    wait::until(PATIENCE, "new connections", opened)
        .unwrap_or_else(|error| panic!("{error}\n{}", balancer.summary()));
}
