//! TCP connections over two L4 nodes behind an ECMP route: twice-NAT in XDP, three backends; one is
//! taken out of the configuration, one is cut off.

use super::report::{Balancing, Report};
use super::{program, progress};
use crate::demo::traffic::{Backend, Connections};
use anyhow::{Context as _, anyhow};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::bed::wait_for_lines;
use testkit::lab::{Host, Lab};
use testkit::process::Process;

const NAME: &str = "TCP, twice-NAT";
const VIP: &str = "203.0.113.80";
const PORT: u16 = 80;
const BACKENDS: usize = 3;
const NODES: usize = 2;
/// The backend that the configuration loses for a while, and the one whose cable is cut.
const REMOVED: usize = 1;
const CUT: usize = 2;
/// Connections that are opened after a change.
const NEW: usize = 100;

pub(super) fn run(connections: usize, report: &mut Report) -> anyhow::Result<()> {
    progress(&format!("{NAME}: building the network: client, ECMP router, two nodes, backends"));
    let net = Network::build().context("the network of the second tier")?;
    let directory = tempfile::tempdir()?;
    let resources = directory.path().join("resources");
    std::fs::create_dir(&resources)?;
    let file = resources.join("web.yaml");
    std::fs::write(&file, mapping(&[0, 1, 2]))?;
    let nodes = net.start_nodes(directory.path(), &resources)?;
    let wait =
        |text: &str, count| nodes.iter().try_for_each(|node| wait_for_lines(node, text, count));
    wait("backend came up", BACKENDS).map_err(|error| anyhow!(error))?;

    progress(&format!("{NAME}: {connections} connections, all backends up"));
    let address = SocketAddr::new(VIP.parse()?, PORT);
    let mut open = net.client.run(|| Connections::open(address, connections))?;
    let mut figures = Balancing { name: NAME, connections, ..Balancing::default() };
    figures.all_up = open.per_backend(BACKENDS);
    open.exchange();
    figures.broken_idle = open.broken();

    progress(&format!("{NAME}: taking the second backend out of the configuration under load"));
    std::fs::write(&file, mapping(&[0, 2]))?;
    open.exchange_until(|| wait("resources read", 2)).map_err(|error| anyhow!(error))?;
    figures.broken_by_removal = open.broken() - figures.broken_idle;
    let new = net.client.run(|| Connections::open(address, NEW))?;
    figures.after_removal = new.per_backend(BACKENDS);
    std::fs::write(&file, mapping(&[0, 1, 2]))?;
    wait("resources read", 3).map_err(|error| anyhow!(error))?;

    progress(&format!("{NAME}: cutting the third backend off"));
    let (before, before_of_cut, cut) = (open.broken(), open.broken_of(CUT), now());
    net.cut(CUT)?;
    wait("backend went down", 1).map_err(|error| anyhow!(error))?;
    figures.seconds_to_remove = cut.elapsed().as_secs_f64();
    open.exchange();
    figures.broken_by_cut = open.broken_of(CUT) - before_of_cut;
    figures.broken_without_reason = open.broken() - before - figures.broken_by_cut;
    let new = net.client.run(|| Connections::open(address, NEW))?;
    figures.after_cut = new.per_backend(BACKENDS);
    claim(&figures, report);
    report.balancing.push(figures);
    Ok(())
}

fn claim(f: &Balancing, report: &mut Report) {
    let every = |flows: &[usize], silent: Option<usize>| {
        flows.iter().enumerate().all(|(at, flows)| (*flows > 0) != (Some(at) == silent))
    };
    report.claim(NAME, "every backend gets connections", every(&f.all_up, None));
    report.claim(NAME, "no connection breaks while nothing changes", f.broken_idle == 0);
    let kept = f.broken_by_removal == 0;
    report.claim(NAME, "no connection of a backend that is taken out breaks", kept);
    let silent = every(&f.after_removal, Some(REMOVED));
    report.claim(NAME, "a backend that is taken out gets no new connection", silent);
    let others = f.broken_without_reason == 0;
    report.claim(NAME, "no connection of another backend breaks when one is cut off", others);
    let silent = every(&f.after_cut, Some(CUT));
    report.claim(NAME, "a backend that is cut off gets no new connection", silent);
}

/// The mapping with these backends.
fn mapping(backends: &[usize]) -> String {
    let mut text = format!(
        "type: NATLBMappings.lb.siha\nmetadata: {{ namespace: lb, id: web }}\nspec:\n  \
         vipAddress: {VIP}\n  vipPort: {PORT}\n  protocol: tcp\n  twiceNat: true\n  backends:\n"
    );
    for backend in backends {
        let (name, address) = (backend + 1, backend + 31);
        text.push_str(&format!(
            "    - {{ name: backend-{name}, address: 10.88.{address}.2, port: 8080 }}\n"
        ));
    }
    text + "  healthCheck: { type: TCP, intervalMs: 100, timeoutMs: 100, healthyThreshold: 2, \
            unhealthyThreshold: 2 }\n"
}

/// ```text
/// client ── router ══ ECMP ══ node 1, node 2 ══ fabric ── backends 1, 2, 3
/// ```
struct Network {
    client: Host,
    _router: Host,
    nodes: Vec<Host>,
    fabric: Host,
    _backends: Vec<Backend>,
    /// The fabric's links to the backends.
    to_backends: Vec<String>,
    _stubs: Vec<xdp::Stub>,
}

impl Network {
    fn build() -> anyhow::Result<Self> {
        let lab = Lab::new("demo-l4")?;
        let (client, router, fabric) =
            (lab.host("client")?, lab.host("router")?, lab.host("fabric")?);
        for host in [&router, &fabric] {
            host.forwarding()?;
        }
        lab.link(&client, &["10.88.0.2/24"], &router, &["10.88.0.1/24"])?;
        client.route("0.0.0.0/0", "10.88.0.1")?;
        router.sysctl("net/ipv4/fib_multipath_hash_policy", "1")?;
        let (mut nodes, mut stubs, mut hops) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=NODES {
            let node = lab.host(&format!("node{number}"))?;
            let (north, south) = (format!("10.88.{number}"), format!("10.88.1{number}"));
            let up =
                lab.link(&router, &[&format!("{north}.1/24")], &node, &[&format!("{north}.2/24")])?;
            let down =
                lab.link(&fabric, &[&format!("{south}.1/24")], &node, &[&format!("{south}.2/24")])?;
            stubs.push(router.run(|| far_end(&up.left))?);
            stubs.push(fabric.run(|| far_end(&down.left))?);
            node.route("0.0.0.0/0", &format!("{north}.1"))?;
            for backend in 0..BACKENDS {
                let net = format!("10.88.{}.0/24", backend + 31);
                node.route(&net, &format!("{south}.1"))?;
            }
            hops.push(format!("{north}.2").parse()?);
            nodes.push(node);
        }
        router.netlink(|netlink| {
            netlink.add_multipath_route(
                ipnet::IpNet::new(VIP.parse().map_err(invalid)?, 32).map_err(invalid)?,
                &hops,
            )
        })?;
        let (mut backends, mut to_backends) = (Vec::new(), Vec::new());
        for number in 0..BACKENDS {
            let host = lab.host(&format!("backend{}", number + 1))?;
            let net = format!("10.88.{}", number + 31);
            let link =
                lab.link(&fabric, &[&format!("{net}.1/24")], &host, &[&format!("{net}.2/24")])?;
            host.route("0.0.0.0/0", &format!("{net}.1"))?;
            backends.push(Backend::start(host, number, 8080)?);
            to_backends.push(link.left);
        }
        Ok(Self {
            client,
            _router: router,
            nodes,
            fabric,
            _backends: backends,
            to_backends,
            _stubs: stubs,
        })
    }

    fn start_nodes(&self, directory: &Path, resources: &Path) -> anyhow::Result<Vec<Process>> {
        let mut processes = Vec::new();
        for (node, number) in self.nodes.iter().zip(1..) {
            let file = directory.join(format!("node{number}.toml"));
            let text = format!(
                "interfaces = [\"router0\", \"fabric1\"]\nresources = \"{}\"\nsessions = 65536\n",
                resources.display()
            );
            std::fs::write(&file, text)?;
            let mut command = program("lb-node");
            command.arg("--config").arg(&file).arg("--fix-sysctls");
            processes.push(node.spawn_command(&mut command)?);
        }
        Ok(processes)
    }

    fn cut(&self, backend: usize) -> anyhow::Result<()> {
        let link = self.to_backends.get(backend).context("no such backend")?;
        self.fabric.netlink(|netlink| netlink.set_down(link))?;
        Ok(())
    }
}

/// What the far end of a cable to a node needs: an XDP program, so that the node can send to it,
/// and checksums that are complete when the node sees them.
fn far_end(link: &str) -> anyhow::Result<xdp::Stub> {
    netio::offload::complete_checksums(link)?;
    let index = netio::netlink::Netlink::open()?.link(link)?.index;
    Ok(xdp::Stub::attach(index)?)
}

fn invalid(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, error.to_string())
}

/// How long one round of questions and answers may take.
pub(super) const ROUND: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "the demonstration is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
