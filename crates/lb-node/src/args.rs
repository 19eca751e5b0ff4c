//! The command line.

use clap::Parser;
use daemon::args::Common;

/// Balance virtual addresses and ports over monitored backends, by NAT or twice-NAT in XDP.
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
}

const AFTER_HELP: &str = "\
Signals: HUP reads the resources again, USR1 logs the statistics, TERM and INT end.
Exit codes: 0 ok, 1 runtime error, 2 usage, 78 configuration error.";
