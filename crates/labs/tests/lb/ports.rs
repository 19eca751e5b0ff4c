//! Ports: of clients that use one twice, of pools that have no more.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::clients::{Connection, open, rounds};
use labs::lb::done;
use labs::lb::mapping::Mapping;
use labs::lb::servers::Nginx;
use netio::process::Signal;
use std::time::Duration;
use testkit::wait;

const SHORT: Duration = Duration::from_millis(1500);
const LONG: Duration = Duration::from_secs(10);
/// 64 ports of one address beside the node's own.
const POOL: &str = "[[snat_pools]]\nname = \"few\"\naddresses = [\"10.2.0.100\"]\n\
     ports = \"20000-20063\"\n";

fn pooled(bed: &Bed, backend: usize, vip: usize) -> Mapping {
    Mapping::new(&format!("echo{vip}"), &bed.vip(Family::V4, vip), "tcp", Some(80))
        .backend("only", &bed.backend(Family::V4, backend), ", port: 7000")
        .twice_nat()
        .with("snatPool: few")
}

#[test]
fn l4_25_the_65th_connection_of_64_ports_is_dropped_and_counted() {
    let Some(bed) = bed("few-ports", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mappings = [pooled(&bed, 0, 10), pooled(&bed, 1, 11)];
    let balancer = Balancer::start_with(&bed, POOL, &mappings).unwrap();
    let mut all = bed
        .client
        .run(|| open(echo_address(&bed), 64))
        .unwrap_or_else(|error| panic!("{error}\n{}", balancer.summary()));
    let refused = bed.client.run(|| Connection::open_from(0, echo_address(&bed), SHORT));
    assert!(refused.is_err());
    balancer.wait_dropped("snat_exhausted", 1).unwrap();
    // Ports are taken towards one backend: another has its own 64.
    let other = format!("{}:80", bed.vip(Family::V4, 11)).parse().unwrap();
    let mut more = bed.client.run(|| open(other, 64)).unwrap();
    let broken = bed.client.run(|| [rounds(&mut all), rounds(&mut more)].concat());
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

#[test]
fn l4_27_a_port_is_held_for_a_while_after_its_connection_has_closed() {
    let Some(bed) = bed("held-ports", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let timeouts = "[timeouts]\ntcp_transitory_sec = 3\n";
    let config = format!("{POOL}{timeouts}");
    let balancer = Balancer::start_with(&bed, &config, &[pooled(&bed, 0, 10)]).unwrap();
    drop(bed.client.run(|| open(echo_address(&bed), 64)).unwrap());
    let refused = bed.client.run(|| Connection::open_from(0, echo_address(&bed), SHORT));
    assert!(refused.is_err());
    balancer.wait_dropped("snat_exhausted", 1).unwrap();
    let works = || bed.client.run(|| Connection::open_from(0, echo_address(&bed), SHORT).is_ok());
    wait::until(Duration::from_secs(20), "ports to be free", works).unwrap();
}

#[test]
fn l4_37_two_vips_of_one_backend_from_one_client_port() {
    let Some(bed) = bed("two-vips", Shape::TwoArms, 1) else { return };
    bed.route_backends().unwrap();
    let _echoes = echoes(&bed);
    let mapping = |vip: usize| {
        Mapping::new(&format!("echo{vip}"), &bed.vip(Family::V4, vip), "tcp", Some(80)).backend(
            "backend1",
            &bed.backend(Family::V4, 0),
            ", port: 7000",
        )
    };
    let balancer = Balancer::start(&bed, &[mapping(10), mapping(11)]).unwrap();
    let mut both: Vec<Connection> = bed.client.run(|| {
        let open = |vip| {
            let to = format!("{}:80", bed.vip(Family::V4, vip)).parse().unwrap();
            Connection::open_from(40_000, to, LONG)
                .unwrap_or_else(|error| panic!("{vip}: {error}\n{}", balancer.summary()))
        };
        [10, 11].map(open).into()
    });
    let broken = bed.client.run(|| [rounds(&mut both), rounds(&mut both)].concat());
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

#[test]
fn l4_28_a_client_reconnects_from_its_port_after_the_backend_died() {
    let Some(bed) = bed("reconnect", Shape::TwoArms, 2) else { return };
    let mut echoes = echoes(&bed);
    let check = "{ type: TCP, intervalMs: 100, timeoutMs: 100, unhealthyThreshold: 2 }";
    let mapping = echo_mapping(&bed, &[0, 1]).twice_nat().check(check);
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    for name in ["backend1", "backend2"] {
        balancer.wait_backend("lb/echo", name, true).unwrap();
    }
    let (to, ports) = (echo_address(&bed), 40_000..40_020);
    let connect = |port| Connection::open_from(port, to, LONG).unwrap();
    let all: Vec<(u16, Connection)> =
        bed.client.run(|| ports.map(|port| (port, connect(port))).collect());
    let of_first = |(_, connection): &&(u16, Connection)| connection.server == "backend1";
    let ports: Vec<u16> = all.iter().filter(of_first).map(|(port, _)| *port).collect();
    assert!(!ports.is_empty());
    echoes[0].signal(Signal::KILL).unwrap();
    drop(all);
    balancer.wait_backend("lb/echo", "backend1", false).unwrap();
    for port in ports {
        let again = bed.client.run(|| Connection::open_from(port, to, Duration::from_secs(1)));
        let again = again.unwrap_or_else(|error| panic!("{port}: {error}\n{}", balancer.summary()));
        assert_eq!(again.server, "backend2");
    }
}

#[test]
fn l4_38_a_backend_reaches_itself_through_its_vip() {
    let Some(bed) = bed("hairpin", Shape::TwoArms, 1) else { return };
    bed.route_backends().unwrap();
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0])]).unwrap();
    let outcome = bed.backends[0].run(|| {
        let mut connections = open(echo_address(&bed), 10)?;
        Ok::<_, String>(rounds(&mut connections))
    });
    assert_eq!(outcome, Ok(Vec::new()), "{}", balancer.summary());
}

#[test]
fn l4_29_a_forged_reset_does_not_end_a_download() {
    let Some(bed) = bed("forged", Shape::TwoArms, 1) else { return };
    if !labs::peers::have("hping3", "hping3") {
        return;
    }
    let server = Nginx::start(&bed.backends[0]).unwrap();
    let vip = bed.vip(Family::V4, 10);
    let mapping = Mapping::new("web", &vip, "tcp", Some(80))
        .backend("backend1", &bed.backend(Family::V4, 0), ", port: 8080")
        .twice_nat();
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let same = format!(
        "curl -sS --local-port 40000 --max-time 15 'http://{vip}/slow' | cmp - {}",
        server.file("slow").display()
    );
    let mut download = bed.client.spawn("sh", ["-c", &same]).unwrap();
    let moving =
        || balancer.backend("lb/web", "backend1")["bytesOut"].as_u64().unwrap_or(0) > 200_000;
    wait::until(LONG, "the download to run", moving).unwrap();
    let args = ["-R", "-s", "40000", "-k", "-p", "80", "-c", "3", "-i", "u10000", "-M", "1", &vip];
    // It waits for answers that must not come.
    let _unanswered = labs::lb::run(&bed.client, "hping3", &args).unwrap();
    let status = download.wait(Duration::from_secs(20)).unwrap();
    assert!(status.success(), "{:?}\n{}", download.lines(), balancer.summary());
    done(&bed.client, "curl", &["-sS", "--max-time", "5", &format!("http://{vip}/")]).unwrap();
}
