//! GRE inside IPsec: strongSwan on the distributor's host decrypts, gredist distributes.

use crate::{bed, packets, reports};
use labs::distributor::Distributor;
use labs::strongswan::{Connection, StrongSwan, can_run};
use std::time::Duration;
use testkit::bed::{Families, wait_for_lines};
use testkit::wait;

const PATIENCE: Duration = Duration::from_secs(20);
const FLOW_ARGS: [&str; 4] = ["--source", "10.78.100.1", "--key", "1"];

#[test]
fn l3_61_gre_that_strongswan_has_decrypted_is_distributed() {
    let Some(bed) = bed("ipsec", 2) else { return };
    if !can_run() {
        return;
    }
    bed.client.address("lo", "10.78.100.1/32").unwrap();
    for scope in ["all", "default"] {
        bed.edge.sysctl(&format!("net/ipv4/conf/{scope}/rp_filter"), "0").unwrap();
    }
    // Nothing reaches the frontend in the clear: what arrives came through the tunnel.
    bed.router
        .nft(
            "table ip clear {\n chain forward {\n type filter hook forward priority 0; policy accept;\n\
             ip daddr 10.77.0.47 counter drop\n }\n}\n",
        )
        .unwrap();
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();
    let connection = Connection {
        local: "10.77.1.2",
        remote: "10.77.2.2",
        local_ts: "10.78.100.1/32[gre]",
        remote_ts: "10.77.0.47/32[gre]",
    };
    let args = ["--flows", "50", "--count", "2000", "--rate", "1000"];
    bed.send(Families::V4, &[&FLOW_ARGS[..], &["--count", "20"]].concat()).unwrap();
    assert_eq!(gredist.number("receivedPackets"), 0, "the way in the clear is closed");
    let edge = StrongSwan::start(&bed.edge, &connection.reversed()).unwrap();
    let client = StrongSwan::start(&bed.client, &connection).unwrap();
    client.initiate().unwrap_or_else(|error| panic!("{error}\nedge:\n{}", edge.log()));

    bed.send(Families::V4, &[&FLOW_ARGS[..], &args].concat()).unwrap();
    let mut seen = Vec::new();
    wait::until(PATIENCE, "2,000 packets through the tunnel", || {
        seen.extend(reports(&mut sinks));
        packets(&seen) == 2_000
    })
    .unwrap_or_else(|error| panic!("{error}: {}: {}", gredist.status().unwrap(), edge.log()));

    // One backend goes: the flows in the tunnel take the other.
    bed.set_backend_link(0, false).unwrap();
    wait_for_lines(&gredist.process, "backend went down", 1).unwrap();
    bed.send(Families::V4, &[&FLOW_ARGS[..], &args].concat()).unwrap();
    let mut after = 0;
    wait::until(PATIENCE, "2,000 packets at the other backend", || {
        after += reports(&mut sinks)[1].packets;
        after == 2_000
    })
    .unwrap();
}
