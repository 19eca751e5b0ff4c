//! Small networks on one machine: hosts are network namespaces, cables are veth pairs.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let lab = testkit::lab::Lab::new("two-hosts")?;
//! let (client, server) = (lab.host("client")?, lab.host("server")?);
//! let cable = lab.link(&client, &["10.77.1.1/24", "fd77:1::1/64"], &server, &["10.77.1.2/24"])?;
//! client.route("10.9.0.0/16", "10.77.1.2")?;
//! let ping = client.spawn("ping", ["-c1", "10.77.1.2"])?;
//! # drop((cable, ping));
//! # Ok(())
//! # }
//! ```
//!
//! When a host is dropped, its processes are killed and its links are destroyed by the kernel, in
//! a panicking test too. Hosts and processes may be dropped in any order.
//! Hosts need root or a user namespace ([`netio::netns::enter_user_namespace`], `unshare -Urn`).

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use netio::netlink::{Netlink, Route};
use netio::netns::{Namespace, set_sysctl};

use crate::process::Process;
use crate::wait;

/// How long a new link may take to carry packets.
const LINK_LIMIT: Duration = Duration::from_secs(10);
/// What the kernel allows in the name of a link: `IFNAMSIZ` less the final NUL.
const MAX_LINK_NAME: usize = 15;

/// A network under test.
#[derive(Debug)]
pub struct Lab {
    name: String,
}

/// One machine of a lab: a network namespace with `lo` up.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: Namespace,
    links: AtomicU32,
}

/// The names of a cable's two ends, each in its own host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Name of the link in the first host.
    pub left: String,
    /// Name of the link in the second host.
    pub right: String,
}

impl Lab {
    /// A lab called `name` and a random suffix, which tells its threads from those of other runs.
    ///
    /// # Errors
    /// Network namespaces are not permitted; see [`Lab::or_skip`] for tests.
    pub fn new(name: &str) -> io::Result<Self> {
        // A trial, so that a lab that cannot have hosts fails here and not at the first of them.
        Namespace::new(name)?;
        let random = RandomState::new().hash_one(name) & 0xffff;
        Ok(Self { name: format!("{name}-{random:04x}") })
    }

    /// A lab for a test, or `None`, with the reason on the terminal, where namespaces are not
    /// permitted.
    ///
    /// # Panics
    /// With `LABS=required` in the environment, instead of returning `None`.
    #[expect(clippy::panic, reason = "a required lab that cannot run is a failed test")]
    #[must_use]
    pub fn or_skip(name: &str) -> Option<Self> {
        match Self::new(name) {
            Ok(lab) => Some(lab),
            Err(error) if std::env::var_os("LABS").is_some_and(|labs| labs == "required") => {
                panic!("lab {name}: {error}")
            }
            Err(error) => {
                eprintln!("skipped: lab {name}: {error}");
                None
            }
        }
    }

    /// The name with its suffix.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a host.
    ///
    /// # Errors
    /// The kernel refuses the namespace.
    pub fn host(&self, name: &str) -> io::Result<Host> {
        let namespace = Namespace::new(&format!("{name}.{}", self.name))?;
        let host = Host { name: name.to_owned(), namespace, links: AtomicU32::new(0) };
        host.netlink(|netlink| netlink.set_up("lo"))?;
        // Link-local addresses are usable at once, or a router could not ask for neighbours for a
        // second (RFC 4862 5.4).
        for scope in ["all", "default"] {
            match host.sysctl(&format!("net/ipv6/conf/{scope}/accept_dad"), "0") {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(host)
    }

    /// Connects two hosts and gives each end its addresses, `10.77.1.1/24` for example; returns
    /// when both ends can send.
    ///
    /// # Errors
    /// An address that does not parse, or the kernel's refusal.
    pub fn link(
        &self,
        left: &Host,
        left_addresses: &[&str],
        right: &Host,
        right_addresses: &[&str],
    ) -> io::Result<Link> {
        let link = Link { left: left.next_link(right), right: right.next_link(left) };
        let peer = right.namespace.fd();
        left.netlink(|netlink| netlink.veth(&link.left, &link.right, peer))?;
        for (host, name, addresses) in
            [(left, &link.left, left_addresses), (right, &link.right, right_addresses)]
        {
            for address in addresses {
                host.address(name, address)?;
            }
            host.netlink(|netlink| netlink.set_up(name))?;
        }
        left.wait_for_link(&link.left)?;
        right.wait_for_link(&link.right)?;
        Ok(link)
    }
}

impl Host {
    /// Runs `f` in the host: sockets, threads and processes it creates belong to the host.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.namespace.run(f)
    }

    /// Runs `f` with a route netlink handle of the host.
    ///
    /// # Errors
    /// Those of `f`, with the host's name in front.
    pub fn netlink<R: Send>(
        &self,
        f: impl FnOnce(&mut Netlink) -> io::Result<R> + Send,
    ) -> io::Result<R> {
        self.named(self.run(|| f(&mut Netlink::open()?)))
    }

    /// Adds `address`, `10.77.1.1/24` for example, to `link`.
    ///
    /// # Errors
    /// Not an address with a prefix length, or the kernel's refusal.
    pub fn address(&self, link: &str, address: &str) -> io::Result<()> {
        let address: IpNet = self.named(parse(address))?;
        self.netlink(|netlink| netlink.add_address(link, address))
    }

    /// Adds a route to `destination` (`0.0.0.0/0` is the default) through `via`.
    ///
    /// # Errors
    /// Not a prefix or an address, or the kernel's refusal.
    pub fn route(&self, destination: &str, via: &str) -> io::Result<()> {
        let destination: IpNet = self.named(parse(destination))?;
        let via: IpAddr = self.named(parse(via))?;
        let route = Route::via(destination, via);
        self.netlink(|netlink| netlink.add_route(route))
    }

    /// Delivers every address of `prefix` to the host; [`Netlink::add_local_route`] says which of
    /// them sockets can bind to.
    ///
    /// # Errors
    /// Not a prefix, or the kernel's refusal.
    pub fn local_route(&self, prefix: &str) -> io::Result<()> {
        let prefix: IpNet = self.named(parse(prefix))?;
        self.netlink(|netlink| netlink.add_local_route(prefix))
    }

    /// Makes the host a router for IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn forwarding(&self) -> io::Result<()> {
        self.sysctl("net/ipv4/ip_forward", "1")?;
        self.sysctl("net/ipv6/conf/all/forwarding", "1")
    }

    /// Sets a sysctl of the host, `net/ipv4/ip_forward` for example.
    ///
    /// # Errors
    /// No such sysctl, or a value it does not take.
    pub fn sysctl(&self, path: &str, value: &str) -> io::Result<()> {
        self.named(self.run(|| set_sysctl(path, value)))
    }

    /// Starts `program` on the host; it is killed when the guard or the host is dropped.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Process> {
        let mut command = Command::new(program);
        command.args(arguments);
        self.spawn_command(&mut command)
    }

    /// Starts `command` on the host, with the environment and directory set there.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn_command(&self, command: &mut Command) -> io::Result<Process> {
        self.named(self.run(|| Process::spawn(command)))
    }

    /// Loads an nftables script, as `nft -f` does.
    ///
    /// # Errors
    /// nft is not installed, or what it says about the script.
    pub fn nft(&self, script: &str) -> io::Result<()> {
        self.named(self.run(|| nft(script)))
    }

    /// The name given at creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace, for what this type does not offer.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A free link name that says where the cable leads: `router0`.
    fn next_link(&self, peer: &Host) -> String {
        let number = self.links.fetch_add(1, Ordering::Relaxed).to_string();
        let room = MAX_LINK_NAME.saturating_sub(number.len());
        let mut name = peer.name.clone();
        while name.len() > room {
            name.pop();
        }
        name + &number
    }

    /// Waits until `link` has its IPv6 link-local address, which the kernel assigns when there is a
    /// carrier. Without IPv6 there is nothing to see and nothing to wait for.
    fn wait_for_link(&self, link: &str) -> io::Result<()> {
        let ready = || {
            let Ok(table) = fs::read_to_string("/proc/thread-self/net/if_inet6") else {
                return true;
            };
            table.lines().any(|line| is_usable_link_local(line, link))
        };
        let what = format!("link {link} to come up");
        let outcome = self.run(|| wait::until(LINK_LIMIT, &what, ready));
        self.named(outcome.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error)))
    }

    fn named<R>(&self, outcome: io::Result<R>) -> io::Result<R> {
        outcome
            .map_err(|error| io::Error::new(error.kind(), format!("host {}: {error}", self.name)))
    }
}

/// Whether a line of `/proc/net/if_inet6` (address, index, prefix length, scope, flags, name) is a
/// link-local address of `link` whose flags do not say tentative (0x40).
fn is_usable_link_local(line: &str, link: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [address, _, _, _, flags, name] = fields[..] else { return false };
    let tentative = u32::from_str_radix(flags, 16).map_or(true, |flags| flags & 0x40 != 0);
    name == link && address.starts_with("fe80") && !tentative
}

fn nft(script: &str) -> io::Result<()> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = netio::process::spawn(&mut command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            io::ErrorKind::NotFound,
            "nft is not there: install the package nftables",
        ),
        _ => error,
    })?;
    // If nft gives up early, what it says is worth more than the broken pipe.
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("nft: {complaint}")));
    }
    written
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> io::Result<T> {
    text.parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{text:?}: {error}")))
}
