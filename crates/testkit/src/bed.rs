//! The test bed of the L3 tier: a client, a router, a distributor and backends.
//!
//! ```text
//!            10.77.1.0/24              10.77.2.0/24
//!   client ───────────────── router ───────────────── edge   (frontends on lo)
//!                              │ 10.77.11.0/24 ... one network a backend
//!                      backend 1, 2, 3 ...
//! ```
//! Every network has an IPv6 twin, `fd77:1::/64` for `10.77.1.0/24` and so on. Backends answer
//! clients through the router, past the distributor; return addresses lead to the distributor.

use std::io;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use netio::process::Signal;
use serde::Deserialize;

use crate::lab::{Host, Lab, Link};
use crate::process::Process;
use crate::wait;

/// The IPv4 frontend.
pub const FRONTEND_V4: &str = "10.77.0.47";
/// The IPv6 frontend.
pub const FRONTEND_V6: &str = "fd77::47";
/// The prefix that embeds IPv4 clients towards IPv6 backends.
pub const PREFIX: &str = "fd77:64::/96";
/// The pool that stands for IPv6 clients towards IPv4 backends.
pub const POOL: &str = "10.77.64.0/28";
/// IPv4 sources that are routed to the client, beside its own address.
pub const CLIENTS_V4: &str = "10.78.0.0/16";
/// IPv6 sources that are routed to the client, beside its own address.
pub const CLIENTS_V6: &str = "fd78::/64";
/// How long a report or a start may take before the bed is called broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the command for a program by its name: `gredist`, `gre-send`, `gre-sink`.
pub type Program = fn(&str) -> Command;

/// The hosts, wired and routed.
#[derive(Debug)]
pub struct Bed {
    /// Sends as the clients.
    pub client: Host,
    /// Between all others.
    pub router: Host,
    /// Runs the distributor.
    pub edge: Host,
    /// Run sinks.
    pub backends: Vec<Host>,
    /// The cable between client and router.
    pub client_link: Link,
    /// The cable between edge and router.
    pub edge_link: Link,
    /// The cables between backends and router.
    pub backend_links: Vec<Link>,
    program: Program,
}

/// The families of frontend and backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 to IPv4.
    V4,
    /// IPv6 to IPv6.
    V6,
    /// IPv4 clients, IPv6 backends.
    V4ToV6,
    /// IPv6 clients, IPv4 backends.
    V6ToV4,
}

impl Families {
    /// All four.
    pub const ALL: [Self; 4] = [Self::V4, Self::V6, Self::V4ToV6, Self::V6ToV4];

    /// A name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
            Self::V4ToV6 => "IPv4 to IPv6",
            Self::V6ToV4 => "IPv6 to IPv4",
        }
    }

    /// Where clients send to.
    #[must_use]
    pub const fn frontend(self) -> &'static str {
        match self {
            Self::V4 | Self::V4ToV6 => FRONTEND_V4,
            Self::V6 | Self::V6ToV4 => FRONTEND_V6,
        }
    }

    /// Whether replies return through the distributor.
    #[must_use]
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::V4ToV6 | Self::V6ToV4)
    }

    /// The address of the backend of this number, from 0.
    #[must_use]
    pub fn backend(self, number: usize) -> String {
        match self {
            Self::V4 | Self::V6ToV4 => format!("10.77.{}.2", number + 11),
            Self::V6 | Self::V4ToV6 => format!("fd77:{}::2", number + 11),
        }
    }

    /// The least configuration for this many backends; more lines may follow.
    #[must_use]
    pub fn config(self, backends: usize) -> String {
        let mut text = format!("frontend={}\n", self.frontend());
        for number in 0..backends {
            text.push_str(&format!("backend={}\n", self.backend(number)));
        }
        match self {
            Self::V4 | Self::V6 => {}
            Self::V4ToV6 => text.push_str(&format!("prefix={PREFIX}\n")),
            Self::V6ToV4 => text.push_str(&format!("pool={POOL}\n")),
        }
        text
    }

    /// A first source address for flows that differ in their source.
    #[must_use]
    pub const fn many_sources(self) -> &'static str {
        match self {
            Self::V4 | Self::V4ToV6 => "10.78.1.1",
            Self::V6 | Self::V6ToV4 => "fd78::1:1",
        }
    }
}

/// A sink's report; the fields are gre-sink's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are documented at their source, gre-sink")]
pub struct SinkReport {
    pub packets: u64,
    pub bytes: u64,
    pub malformed: u64,
    pub checksum_errors: u64,
    pub payload_errors: u64,
    pub foreign: u64,
    pub answered: u64,
    pub queue_drops: u64,
    pub flows: Vec<SinkFlow>,
}

/// A flow in a sink's report; the fields are gre-sink's.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are documented at their source, gre-sink")]
pub struct SinkFlow {
    pub source: String,
    pub key: Option<u32>,
    pub packets: u64,
    pub first: u64,
    pub last: u64,
    pub missing: i64,
    pub late: u64,
}

/// A sender's report; the fields are gre-send's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are documented at their source, gre-send")]
pub struct SendReport {
    pub sent: u64,
    pub refused: u64,
    pub seconds: f64,
    pub answered: Option<u64>,
    pub damaged_answers: Option<u64>,
}

impl Bed {
    /// Builds the hosts, cables and routes.
    ///
    /// # Errors
    /// Namespaces are not permitted, or the kernel refuses a link or a route.
    pub fn new(name: &str, backends: usize, program: Program) -> io::Result<Self> {
        let lab = Lab::new(name)?;
        let (client, router, edge) = (lab.host("client")?, lab.host("router")?, lab.host("edge")?);
        router.forwarding()?;
        // A cable that is pulled and put back finds the router's IPv6 addresses as they were.
        for scope in ["all", "default"] {
            router.sysctl(&format!("net/ipv6/conf/{scope}/keep_addr_on_down"), "1")?;
        }
        let client_link = wire(&lab, &client, &router, 1)?;
        let edge_link = wire(&lab, &edge, &router, 2)?;
        let mut bed = Self {
            client,
            router,
            edge,
            backends: Vec::new(),
            client_link,
            edge_link,
            backend_links: Vec::new(),
            program,
        };
        for number in 0..backends {
            let backend = lab.host(&format!("backend{}", number + 1))?;
            bed.backend_links.push(wire(&lab, &backend, &bed.router, number + 11)?);
            bed.backends.push(backend);
        }
        for frontend in [FRONTEND_V4, FRONTEND_V6] {
            bed.edge.address("lo", &host_prefix(frontend))?;
        }
        for (prefix, via_v4, via_v6) in [
            (host_prefix(FRONTEND_V4), "10.77.2.2", ""),
            (host_prefix(FRONTEND_V6), "", "fd77:2::2"),
            (PREFIX.into(), "", "fd77:2::2"),
            (POOL.into(), "10.77.2.2", ""),
            (CLIENTS_V4.into(), "10.77.1.2", ""),
            (CLIENTS_V6.into(), "", "fd77:1::2"),
        ] {
            let via = if via_v4.is_empty() { via_v6 } else { via_v4 };
            bed.router.route(&prefix, via)?;
        }
        bed.edge.local_route(PREFIX)?;
        bed.edge.local_route(POOL)?;
        // Sources that clients are given by the sender are theirs: no answer is refused.
        bed.client.local_route(CLIENTS_V4)?;
        bed.client.local_route(CLIENTS_V6)?;
        Ok(bed)
    }

    /// The command for a program.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        (self.program)(program)
    }

    /// Starts the distributor on the edge with this configuration file.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn distributor(&self, file: &std::path::Path) -> io::Result<Process> {
        self.edge.spawn_command(self.command("gredist").arg("--config").arg(file))
    }

    /// Starts a silent sink on each backend.
    ///
    /// # Errors
    /// A program cannot be started.
    pub fn sinks(&self, families: Families) -> io::Result<Vec<Process>> {
        self.start_sinks(families, &[])
    }

    /// Starts a sink on each backend that answers as clients expect it.
    ///
    /// # Errors
    /// A program cannot be started.
    pub fn answering_sinks(&self, families: Families) -> io::Result<Vec<Process>> {
        match families.is_mixed() {
            true => self.start_sinks(families, &["--answer"]),
            false => {
                self.start_sinks(families, &["--answer", "--answer-from", families.frontend()])
            }
        }
    }

    fn start_sinks(&self, families: Families, options: &[&str]) -> io::Result<Vec<Process>> {
        let start = |(number, host): (usize, &Host)| {
            let mut command = self.command("gre-sink");
            command.args(["--json", &families.backend(number)]).args(options);
            host.spawn_command(&mut command)
        };
        let mut sinks: Vec<Process> =
            self.backends.iter().enumerate().map(start).collect::<io::Result<_>>()?;
        for sink in &mut sinks {
            let receiving = |line: &str| line.contains("receiving on");
            sink.wait_for_line(receiving, PATIENCE).map_err(io::Error::other)?;
        }
        Ok(sinks)
    }

    /// Starts a sender on the client.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn sender(&self, families: Families, args: &[&str]) -> io::Result<Process> {
        let mut command = self.command("gre-send");
        self.client.spawn_command(command.args(["--json", families.frontend()]).args(args))
    }

    /// Runs a sender to its end.
    ///
    /// # Errors
    /// The program cannot be started, fails, or does not end in time.
    pub fn send(&self, families: Families, args: &[&str]) -> Result<SendReport, String> {
        let mut process = self.sender(families, args).map_err(|error| error.to_string())?;
        finish_sender(&mut process)
    }

    /// Cuts or restores the cable of a backend.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_backend_link(&self, number: usize, up: bool) -> io::Result<()> {
        let link = self.backend_links.get(number).ok_or(io::ErrorKind::NotFound)?;
        // The router's end: its routes stay, and the backend's stack is not disturbed.
        self.router.netlink(|netlink| match up {
            true => netlink.set_up(&link.right),
            false => netlink.set_down(&link.right),
        })
    }
}

/// Waits for a sender to end and reads its report.
///
/// # Errors
/// The sender fails or does not end in time.
pub fn finish_sender(process: &mut Process) -> Result<SendReport, String> {
    let status = process.wait(Duration::from_secs(120))?;
    let lines = process.lines();
    let report = lines.last().and_then(|line| serde_json::from_str(line).ok());
    match (status.success(), report) {
        (true, Some(report)) => Ok(report),
        _ => Err(format!("gre-send failed: {}", lines.join("; "))),
    }
}

/// Asks a sink for what came since the last report.
///
/// # Errors
/// The sink does not report in time.
pub fn sink_report(sink: &mut Process) -> Result<SinkReport, String> {
    let before = sink.lines().len();
    sink.signal(Signal::USR1)?;
    wait::until(PATIENCE, "a sink's report", || sink.lines().len() > before)?;
    let lines = sink.lines();
    let line = lines.get(before).map(String::as_str).unwrap_or_default();
    serde_json::from_str(line).map_err(|error| format!("a sink's report: {error}: {line}"))
}

/// Waits until a text stands in this many lines of a process's output.
///
/// # Errors
/// It does not come in time; the text shows the last lines.
pub fn wait_for_lines(process: &Process, text: &str, count: usize) -> Result<(), String> {
    let what = format!("{count} lines with \"{text}\"");
    let enough = || process.lines().iter().filter(|line| line.contains(text)).count() >= count;
    wait::until(PATIENCE, &what, enough)
        .map_err(|error| format!("{error}; output: {}", process.lines().join("; ")))
}

fn host_prefix(address: &str) -> String {
    if address.contains(':') { format!("{address}/128") } else { format!("{address}/32") }
}

/// Connects a host to the router by the network of this number; the router is its default.
fn wire(lab: &Lab, host: &Host, router: &Host, network: usize) -> io::Result<Link> {
    let (v4, v6) = (format!("10.77.{network}"), format!("fd77:{network}:"));
    let link = lab.link(
        host,
        &[&format!("{v4}.2/24"), &format!("{v6}:2/64")],
        router,
        &[&format!("{v4}.1/24"), &format!("{v6}:1/64")],
    )?;
    host.route("0.0.0.0/0", &format!("{v4}.1"))?;
    host.route("::/0", &format!("{v6}:1"))?;
    for router in [format!("{v4}.1:9"), format!("[{v6}:1]:9")] {
        host.run(|| meet(&router))?;
    }
    Ok(link)
}

/// Makes two neighbours know each other: a burst to one whose link address is not known yet would
/// overflow the kernel's small queue for it. Nobody listens on the port, and its owner says so.
fn meet(neighbour: &str) -> io::Result<()> {
    let any = if neighbour.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(neighbour)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&[0])?;
    match socket.recv(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{neighbour}: {error}"))),
        Ok(_) => Ok(()),
    }
}
