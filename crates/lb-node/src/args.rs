//! The command line.

use crate::explain::flow::Flags;
use clap::{Args as Group, Parser, Subcommand};
use daemon::args::Common;
use std::net::IpAddr;
use std::path::PathBuf;

/// Balance virtual addresses and ports over monitored backends, by NAT or twice-NAT in XDP.
///
/// Without a command: the daemon. The commands look at a running one, as root and in its network
/// namespace.
#[derive(Debug, Parser)]
#[command(name = "lb-node", version, after_help = AFTER_HELP)]
pub struct Args {
    /// Flags that all daemons have.
    #[command(flatten)]
    pub common: Common,

    /// End the data plane that an earlier lb-node has left behind with `pins`, its sessions too
    #[arg(long, conflicts_with = "fix_sysctls")]
    pub detach: bool,

    /// Set the kernel's forwarding and local port range as needed, and put them back at the end
    #[arg(long)]
    pub fix_sysctls: bool,

    /// What to look at instead.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "\
Signals: HUP reads the resources again, USR1 logs the statistics, TERM and INT end.
Exit codes: 0 ok, 1 runtime error, 2 usage, 78 configuration error.";

/// What looks at a running node.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List sessions: who talks to which backend, in which state
    Sessions(Sessions),
    /// Show packets, bytes and sessions by service and backend, and why packets were dropped
    Stats(Stats),
    /// Tell what would become of a packet, and why, without sending it
    Explain(Explain),
    /// Show dropped packets with their reason, and samples of the others
    Capture(Capture),
}

/// Which node.
#[derive(Clone, Debug, Group)]
pub struct Of {
    /// The running node's configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sessions`.
#[derive(Debug, Group)]
pub struct Sessions {
    /// Which node, and how to print.
    #[command(flatten)]
    pub of: Of,

    /// Only sessions of this mapping, such as lb/web
    #[arg(long, value_name = "NAMESPACE/ID")]
    pub mapping: Option<String>,

    /// Only sessions with this backend: its name or address
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<String>,

    /// Only sessions of this client
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<IpAddr>,

    /// List so many at most, those in use last; 0 for all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
}

/// Arguments of `stats`.
#[derive(Debug, Group)]
pub struct Stats {
    /// Which node, and how to print.
    #[command(flatten)]
    pub of: Of,

    /// Reasons for drops too that have dropped nothing
    #[arg(long)]
    pub all: bool,

    /// Show what has come about every so many seconds, until interrupted
    #[arg(long, value_name = "SEC", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,
}

/// Arguments of `explain`.
#[derive(Debug, Group)]
#[command(after_help = EXPLAIN_HELP)]
pub struct Explain {
    /// Which node, and how to print.
    #[command(flatten)]
    pub of: Of,

    /// tcp, udp, icmp, or the number of another protocol
    pub protocol: String,

    /// Who sends it: ADDRESS or ADDRESS:PORT, in IPv6 [ADDRESS]:PORT
    pub source: String,

    /// To whom
    pub destination: String,

    /// Of an echo: id=N and seq=N
    #[arg(value_name = "ECHO")]
    pub echo: Vec<String>,

    /// The backend's answer to this client's packet, of its session
    #[arg(long)]
    pub reply: bool,

    /// TCP control bits, such as syn or fin,ack [default: what would come next]
    #[arg(long, value_name = "BITS")]
    pub flags: Option<Flags>,

    /// Octets of the IP packet [default: its headers alone]
    #[arg(long, value_name = "OCTETS", default_value_t = 0, hide_default_value = true)]
    pub size: u16,

    /// The interface that it comes in by [default: the one that leads to its source]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
}

const EXPLAIN_HELP: &str = "\
Examples:
  lb-node explain -c lb-node.toml tcp 198.51.100.7:40000 203.0.113.10:443
  lb-node explain -c lb-node.toml tcp 198.51.100.7:40000 203.0.113.10:443 --reply
  lb-node explain -c lb-node.toml icmp 2001:db8::7 2001:db8::10 id=77 seq=3

Nothing is sent, and nothing changes on the node.";

/// Arguments of `capture`.
#[derive(Debug, Group)]
pub struct Capture {
    /// The running node's configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print a line a packet [default unless written to a file]
    #[arg(long)]
    pub print: bool,

    /// Write pcapng with a comment on each packet; - for stdout
    #[arg(short, long, value_name = "FILE.pcapng")]
    pub write: Option<PathBuf>,

    /// Dropped packets only
    #[arg(long, conflicts_with = "sample")]
    pub drops: bool,

    /// Of packets that are not dropped, one in so many of each verdict and processor
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: u32,

    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Only packets from or to this address, as they end
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_is_the_daemon() {
        let args = Args::try_parse_from(["lb-node", "--config", "a"]).unwrap();
        assert!(args.command.is_none());
        let args = Args::try_parse_from(["lb-node", "-c", "a", "stats", "--watch", "2"]).unwrap();
        assert!(matches!(args.command, Some(Command::Stats(Stats { watch: Some(2), .. }))));
    }
}
