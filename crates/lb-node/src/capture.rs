//! `lb-node capture`: dropped packets with their reason, and samples of the others.
//!
//! ```text
//! packet core ──ring──> Capture ──> filter ──> a line a packet, or pcapng
//! ```
//! A frame is shown as it ended: translated, or turned into the answer that tells its source.

pub mod pcapng;

use crate::args;
use crate::daemon_main::heard;
use crate::look::summary::Summary;
use crate::look::table::counted;
use crate::look::{Error, Node, print};
use daemon::signals::{Signal, Signals};
use datapath::lb::capture::{Captured, SNAP};
use datapath::lb::{DropReason, Verdict};
use netio::links::Link;
use pcapng::{Packet, Writer};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::Address;
use xdp::Capture;

/// From one renewal of the packet core's deadline to the next.
const RENEWAL: Duration = Duration::from_millis(200);

/// Captures until it is told to end.
///
/// # Errors
/// Somebody else captures, or what is captured cannot be written.
pub fn capture(node: &mut Node, args: &args::Capture) -> Result<(), Error> {
    let every = if args.drops { 0 } else { args.sample };
    let mut sink = Sink::open(node, args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (shown, lost) = runtime.block_on(async {
        // The signals first: from the start on, every end of this is an end of the copying.
        let signals = Signals::new()?;
        let capture = Capture::start(&mut node.view, every)?;
        eprintln!("lb-node: capturing {}; Ctrl-C ends it", subject(every));
        run(capture, signals, &mut sink).await
    })?;
    for reason in DropReason::ALL.iter().filter(|reason| sink.reasons.contains(&reason.index())) {
        eprintln!("lb-node: {}: {}", reason.name(), reason.explanation());
    }
    let shown = counted(shown, "packet");
    eprintln!("lb-node: {shown} captured, {lost} lost for want of room");
    Ok(())
}

fn subject(every: u32) -> String {
    match every {
        0 => "dropped packets".to_owned(),
        1 => "every packet".to_owned(),
        every => {
            format!("dropped packets and one in {every} of the others (--sample 1 for all of them)")
        }
    }
}

async fn run(capture: Capture, mut signals: Signals, sink: &mut Sink) -> Result<(u64, u64), Error> {
    let mut capture = heard(capture).map_err(|error| Error::Io(io::Error::other(error)))?;
    let mut renewal = tokio::time::interval(RENEWAL);
    loop {
        let done = tokio::select! {
            signal = signals.next() => signal == Signal::Terminate,
            _ = renewal.tick() => {
                capture.get_ref().refresh()?;
                sink.flush()?;
                false
            }
            ready = capture.readable_mut() => {
                let mut ready = ready?;
                let done = sink.take_all(ready.get_inner_mut())?;
                ready.clear_ready();
                done
            }
        };
        if done {
            sink.flush()?;
            return Ok((sink.shown, capture.get_ref().lost()));
        }
    }
}

/// Where packets go to.
struct Sink {
    links: Vec<Link>,
    host: Option<Address>,
    count: Option<u64>,
    shown: u64,
    /// The reasons of the drops that were shown.
    reasons: BTreeSet<usize>,
    /// The time of the boot clock's zero.
    boot: Duration,
    file: Option<Writer<Box<dyn Write>>>,
    lines: bool,
}

impl Sink {
    fn open(node: &Node, args: &args::Capture) -> Result<Self, Error> {
        let links = node.links.clone();
        let mut names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        names.push("other");
        let begin = |path: &Path| {
            let to: Box<dyn Write> = if path == Path::new("-") {
                Box::new(BufWriter::new(io::stdout()))
            } else {
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                };
                Box::new(BufWriter::new(File::create(path).map_err(named)?))
            };
            let snap = u32::try_from(SNAP).unwrap_or(u32::MAX);
            Writer::begin(to, concat!("lb-node ", env!("CARGO_PKG_VERSION")), &names, snap)
        };
        let file = args.write.as_deref().map(begin).transpose()?;
        let lines = args.print || file.is_none();
        let host = args.host.map(|host: IpAddr| Address::from(host));
        Ok(Self {
            links,
            host,
            count: args.count,
            shown: 0,
            reasons: BTreeSet::new(),
            boot: boot(),
            file,
            lines,
        })
    }

    /// Takes what there is; whether that was all that was asked for.
    fn take_all(&mut self, capture: &mut Capture) -> io::Result<bool> {
        while let Some(captured) = capture.next_packet() {
            self.take(&captured)?;
            if self.count.is_some_and(|count| self.shown >= count) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, captured: &Captured) -> io::Result<()> {
        let summary = Summary::of(captured.frame());
        let wanted = |host: Address| summary.addresses().is_some_and(|both| both.contains(&host));
        if !self.host.is_none_or(wanted) {
            return Ok(());
        }
        self.shown += 1;
        self.reasons.extend(reason(captured).map(DropReason::index));
        let time = self.boot + Duration::from_nanos(captured.boot_ns);
        let fate = fate(captured, &self.links);
        if self.lines {
            let interface = name(&self.links, captured.ingress);
            print(&format!("{} {interface} {summary} {fate}\n", clock(time)))?;
        }
        if let Some(file) = &mut self.file {
            let place = self.links.iter().position(|link| link.index == captured.ingress);
            let place = u32::try_from(place.unwrap_or(self.links.len())).unwrap_or(u32::MAX);
            let (length, frame) = (captured.length, captured.frame());
            let meaning = reason(captured).map(|reason| format!("\n{}", reason.explanation()));
            let comment = &(fate + &meaning.unwrap_or_default());
            file.packet(&Packet { interface: place, time, length, frame, comment })?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Writer::flush)
    }
}

/// What became of a packet, in words; of a drop the reason's name.
fn fate(captured: &Captured, links: &[Link]) -> String {
    match captured.verdict() {
        Some(Verdict::Pass) => "passed to the host".to_owned(),
        Some(Verdict::Transmit) => "sent back".to_owned(),
        Some(Verdict::Redirect(index)) => format!("sent out of {}", name(links, index)),
        Some(Verdict::Drop(reason)) => format!("DROPPED {}", reason.name()),
        Some(Verdict::Answer(reason)) => format!("DROPPED {}, this answers it", reason.name()),
        None => "of another build of lb-node".to_owned(),
    }
}

/// Why a packet was dropped, if it was.
fn reason(captured: &Captured) -> Option<DropReason> {
    match captured.verdict()? {
        Verdict::Drop(reason) | Verdict::Answer(reason) => Some(reason),
        Verdict::Pass | Verdict::Transmit | Verdict::Redirect(_) => None,
    }
}

fn name(links: &[Link], index: u32) -> String {
    let link = links.iter().find(|link| link.index == index);
    link.map_or_else(|| format!("interface {index}"), |link| link.name.clone())
}

/// The time of the day, in UTC and microseconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:06}", time.subsec_micros())
}

/// When the machine started.
#[expect(clippy::disallowed_methods, reason = "a command's shell: it reads the clock")]
fn boot() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(xdp::boot_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::lb::capture::code;

    fn captured(verdict: Verdict, egress: u32) -> Captured {
        let (verdict, reason) = code(verdict);
        let [verdict, reason] = [verdict, reason].map(|word| u8::try_from(word).unwrap());
        let frame = [0; SNAP + 1];
        Captured { boot_ns: 0, ingress: 1, egress, length: 60, octets: 60, verdict, reason, frame }
    }

    #[test]
    fn what_became_of_a_packet_is_said_with_interface_or_reason() {
        let link = |index, name: &str| Link {
            index,
            name: name.to_owned(),
            mac: None,
            mtu: 1500,
            program: None,
            addresses: Vec::new(),
        };
        let links = [link(1, "d0"), link(2, "d1")];
        for (verdict, said) in [
            (Verdict::Pass, "passed to the host"),
            (Verdict::Transmit, "sent back"),
            (Verdict::Redirect(2), "sent out of d1"),
            (Verdict::Redirect(9), "sent out of interface 9"),
            (Verdict::Drop(DropReason::TtlExpired), "DROPPED ttl_expired"),
            (Verdict::Answer(DropReason::TtlExpired), "DROPPED ttl_expired, this answers it"),
        ] {
            let egress = if let Verdict::Redirect(index) = verdict { index } else { 0 };
            assert_eq!(fate(&captured(verdict, egress), &links), said);
        }
    }

    #[test]
    fn the_time_is_that_of_the_day() {
        assert_eq!(clock(Duration::new(1_700_000_000, 123_456_789)), "22:13:20.123456");
    }
}
