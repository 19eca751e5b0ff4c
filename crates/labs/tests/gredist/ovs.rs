//! Open vSwitch as the tunnel's client and as its backends: not our parser, not our generator.

use crate::bed;
use labs::distributor::Distributor;
use labs::ovs::{Ovs, can_run};
use std::time::Duration;
use testkit::bed::{Bed, FRONTEND_V4, Families, wait_for_lines};

const PATIENCE: Duration = Duration::from_secs(20);

/// A backend that answers as the frontend, for a client at 10.77.1.2.
fn backend(bed: &Bed, number: usize) -> Ovs<'_> {
    let network = number + 11;
    let link = &bed.backend_links[number].left;
    let (address, gateway) = (format!("10.77.{network}.2/24"), format!("10.77.{network}.1"));
    let ovs = Ovs::start(&bed.backends[number], link, &address, &gateway).unwrap();
    bed.backends[number].address("phy", &format!("{FRONTEND_V4}/32")).unwrap();
    ovs.tunnel(
        "options:local_ip=flow options:remote_ip=flow options:key=42 options:csum=true",
        "192.168.50.1/24",
    )
    .unwrap();
    // Every backend is the same host to the client: one inner address, one link address.
    ovs.vsctl("set bridge inner other-config:hwaddr=02:00:00:00:00:01").unwrap();
    ovs.flow("in_port=gre,actions=LOCAL").unwrap();
    ovs.flow(&format!(
        "in_port=LOCAL,actions=set_field:{FRONTEND_V4}->tun_src,set_field:10.77.1.2->tun_dst,output:gre"
    ))
    .unwrap();
    ovs
}

fn ping(bed: &Bed, count: u32) -> Result<(), String> {
    let count = count.to_string();
    let args = ["-c", &count, "-i", "0.05", "-W", "2", "192.168.50.1"];
    let mut ping = bed.client.spawn("ping", args).unwrap();
    let status = ping.wait(PATIENCE)?;
    let lines = ping.lines();
    let whole = lines.iter().any(|line| line.contains(" 0% packet loss"));
    if status.success() && whole { Ok(()) } else { Err(lines.join("\n")) }
}

#[test]
fn l3_49_a_tunnel_of_open_vswitch_survives_the_loss_of_its_backend() {
    let Some(bed) = bed("ovs", 2) else { return };
    if !can_run() {
        return;
    }
    let switches = [backend(&bed, 0), backend(&bed, 1)];
    let client =
        Ovs::start(&bed.client, &bed.client_link.left, "10.77.1.2/24", "10.77.1.1").unwrap();
    let options = format!("options:remote_ip={FRONTEND_V4} options:key=42 options:csum=true");
    client.tunnel(&options, "192.168.50.2/24").unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();

    let logs = || format!("{}\n{}\n{}", client.log(), switches[0].log(), switches[1].log());
    let reached = || ping(&bed, 1).is_ok();
    testkit::wait::until(PATIENCE, "the tunnel to come up", reached)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", gredist.status().unwrap(), logs()));
    ping(&bed, 40).unwrap_or_else(|error| panic!("{error}\n{}", logs()));

    // The backend that has the tunnel goes; the other takes over.
    let status = gredist.status().unwrap();
    let busy = |n: usize| status["backends"][n]["packets"].as_u64().unwrap() > 30;
    let home = usize::from(!busy(0));
    assert!(busy(home), "{status}");
    bed.set_backend_link(home, false).unwrap();
    wait_for_lines(&gredist.process, "backend went down", 1).unwrap();
    testkit::wait::until(PATIENCE, "the other backend to take over", reached).unwrap();
    ping(&bed, 40).unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    for reason in ["gre_truncated", "gre_version", "outer_malformed", "outer_fragment"] {
        assert_eq!(gredist.dropped(reason), 0, "{reason}");
    }
}
