//! What gre-send and gre-sink share: stamped payloads, and a small clock.
//!
//! They are lab tools: they speak plain GRE with payloads of their own and are no tunnel.

pub mod packet;
pub mod send;
pub mod sink;
pub mod stamp;

use clap::Parser;
use daemon::exit::Exit;
use daemon::privileges::{self, Capability};
use rustix::event::{Timespec, poll};
use std::error::Error;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The EtherType of the payloads: "local experimental 1" (IEEE 802).
pub const PROTOCOL_TYPE: u16 = 0x88b5;

/// Enough for a burst of thousands of packets where the kernel allows it.
const QUEUE_BYTES: usize = 8 << 20;

#[expect(clippy::disallowed_methods, reason = "lab tools are shells: they read the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Waits for a time span or a signal, whichever comes first.
fn pause(span: Duration) {
    let span = Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    };
    // An interruption is what the caller looks for next.
    let _ = poll(&mut [], Some(&span));
}

/// A lab tool's main: parses its arguments, checks the privilege, runs, prints the report.
fn run<A: Parser>(
    program: &'static str,
    args: impl IntoIterator<Item = OsString>,
    body: impl FnOnce(A) -> Result<String, Box<dyn Error>>,
) -> ExitCode {
    let args = match A::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return daemon::args::refuse(&error),
    };
    let result = match privileges::ensure(Capability::NetRaw, program) {
        Ok(()) => body(args),
        Err(missing) => Err(missing.to_string().into()),
    };
    match result {
        Ok(report) => {
            // A closed pipe is the reader's choice.
            let _ = writeln!(std::io::stdout().lock(), "{report}");
            Exit::Ok.into()
        }
        Err(error) => {
            eprintln!("{program}: {error}");
            Exit::Runtime.into()
        }
    }
}

/// The GRE part of what a raw socket hands over: IPv4 packets come with their header.
fn gre_part(packet: &[u8], source: IpAddr) -> Option<&[u8]> {
    match source {
        IpAddr::V6(_) => Some(packet),
        IpAddr::V4(_) => {
            let header = wire::ipv4::Header::parse(*packet.first_chunk()?)?;
            packet.get(usize::from(header.header_length)..)
        }
    }
}
