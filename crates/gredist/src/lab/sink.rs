//! gre-sink(1): receives GRE packets of gre-send, checks and counts them, and can answer.

use super::now;
use super::packet::{Parsed, Shape, parse};
use super::stamp::{Direction, Stamp};
use ::config::value;
use clap::Parser;
use netio::batch::{Batch, Outgoing};
use netio::socket::RawSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::checksum::{Sum, update};
use wire::{Address, gre, protocol};

/// Receive GRE packets, count them per source and key, check them, and answer if asked to.
#[derive(Debug, Parser)]
#[command(name = "gre-sink", version)]
pub struct Args {
    /// Local addresses to receive on
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,

    /// Send every packet back to its source
    #[arg(long)]
    pub answer: bool,

    /// With --answer: outer source of answers (default: the address that the packet was sent to)
    #[arg(long, value_name = "ADDRESS", requires = "answer")]
    pub answer_from: Option<IpAddr>,

    /// End after so many packets
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// End after so long (such as 500ms or 2s)
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub duration: Option<Duration>,

    /// Report as JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// One report: what came since the last one.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// GRE packets received.
    pub packets: u64,
    /// Their octets, GRE header included.
    pub bytes: u64,
    /// Packets with a malformed GRE header.
    pub malformed: u64,
    /// Packets with a wrong GRE checksum.
    pub checksum_errors: u64,
    /// Stamped packets whose pattern is wrong.
    pub payload_errors: u64,
    /// Packets that gre-send did not make.
    pub foreign: u64,
    /// Answers sent.
    pub answered: u64,
    /// Answers that the kernel refused to send.
    pub refused: u64,
    /// Packets lost to a full receive queue.
    pub queue_drops: u64,
    /// Flows by source and key.
    pub flows: Vec<Flow>,
}

/// Flows by source, key and the sender's run.
type Flows = BTreeMap<(IpAddr, Option<u32>, u32), Flow>;

/// What came of one source, key and run of the sender.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// Outer source.
    pub source: IpAddr,
    /// GRE key, if any.
    pub key: Option<u32>,
    /// Packets.
    pub packets: u64,
    /// The least sequence number.
    pub first: u64,
    /// The greatest sequence number.
    pub last: u64,
    /// Numbers between the two that are missing; negative if some came twice.
    pub missing: i64,
    /// Packets that came after one with a greater number.
    pub late: u64,
}

/// The program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    super::run("gre-sink", args, |args: Args| {
        let json = args.json;
        let mut sink = Sink::open(args)?;
        let addresses: Vec<_> = sink.args.addresses.iter().map(ToString::to_string).collect();
        eprintln!("gre-sink: receiving on {}", addresses.join(", "));
        while sink.turn()? {
            if sink.report_wanted.swap(false, Ordering::Relaxed) {
                writeln!(io::stdout().lock(), "{}", sink.report().render(json)?)?;
            }
        }
        Ok(sink.report().render(json)?)
    })
}

struct Sink {
    args: Args,
    sockets: Vec<RawSocket>,
    senders: Vec<RawSocket>,
    batch: Batch,
    outgoing: Vec<Outgoing>,
    total: u64,
    counts: Report,
    flows: Flows,
    queue_drops: Vec<u32>,
    until: Option<Instant>,
    stop: Arc<AtomicBool>,
    report_wanted: Arc<AtomicBool>,
}

impl Sink {
    fn open(args: Args) -> io::Result<Self> {
        let (stop, report_wanted) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        signal_hook::flag::register(SIGUSR1, Arc::clone(&report_wanted))?;
        let addresses = args.addresses.iter();
        let sockets: Vec<_> = addresses
            .map(|address| {
                let socket = RawSocket::bound(*address, protocol::GRE)
                    .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
                socket.set_receive_queue(super::QUEUE_BYTES)?;
                Ok(socket)
            })
            .collect::<io::Result<_>>()?;
        let senders = sockets.iter().map(|socket| RawSocket::sender(socket.family()));
        Ok(Self {
            senders: senders.collect::<io::Result<_>>()?,
            queue_drops: vec![0; sockets.len()],
            sockets,
            batch: Batch::default(),
            outgoing: Vec::new(),
            total: 0,
            counts: Report::default(),
            flows: BTreeMap::new(),
            until: args.duration.map(|duration| now() + duration),
            stop,
            report_wanted,
            args,
        })
    }

    /// Waits for packets or a signal and handles them. `false` when it is time to end.
    fn turn(&mut self) -> io::Result<bool> {
        const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let fds = self.sockets.iter().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN));
        let mut fds: Vec<_> = fds.collect();
        match poll(&mut fds, Some(&IDLE)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for socket in 0..self.sockets.len() {
            while self.receive(socket)? {}
        }
        let ended = self.stop.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| now() >= until)
            || self.args.count.is_some_and(|count| self.total >= count);
        Ok(!ended)
    }

    fn receive(&mut self, number: usize) -> io::Result<bool> {
        let (Some(socket), Some(sender), Some(seen_drops)) =
            (self.sockets.get(number), self.senders.get(number), self.queue_drops.get_mut(number))
        else {
            return Ok(false);
        };
        let count = self.batch.receive(socket)?;
        for slot in 0..count {
            let Some((octets, place, received)) = self.batch.slot(slot) else { continue };
            if let Some(drops) = received.queue_drops {
                self.counts.queue_drops += u64::from(drops.wrapping_sub(*seen_drops));
                *seen_drops = drops;
            }
            let packet = octets.get(place).unwrap_or_default();
            let sent_to = match received.destination {
                Some(v6) => IpAddr::V6(v6),
                None => destination_v4(packet),
            };
            let Some(gre) = super::gre_part(packet, received.source) else { continue };
            self.counts.packets += 1;
            self.counts.bytes += gre.len() as u64;
            self.total += 1;
            let Some(parsed) = parse(gre) else {
                self.counts.malformed += 1;
                continue;
            };
            let counted = count_packet(&mut self.counts, &mut self.flows, received.source, &parsed);
            if counted && self.args.answer {
                let answer = answer(gre, self.args.answer_from.unwrap_or(sent_to), received.source);
                if let Some((_, place)) = answer.and_then(|answer| self.batch.put(slot, &answer)) {
                    self.outgoing.push(Outgoing::new(slot, place, received.source));
                }
            }
        }
        self.counts.answered += self.outgoing.len() as u64;
        let counts = &mut self.counts;
        self.batch.send(sender, &self.outgoing, |_, _| {
            counts.answered -= 1;
            counts.refused += 1;
        });
        self.outgoing.clear();
        Ok(count > 0)
    }

    /// Takes the report out; counting begins anew.
    fn report(&mut self) -> Report {
        let mut report = std::mem::take(&mut self.counts);
        report.flows = std::mem::take(&mut self.flows).into_values().collect();
        report
    }
}

/// Counts a well-formed packet; whether it is an intact request.
fn count_packet(
    counts: &mut Report,
    flows: &mut Flows,
    source: IpAddr,
    parsed: &Parsed<'_>,
) -> bool {
    if parsed.checksum == Some(false) {
        counts.checksum_errors += 1;
        return false;
    }
    let Some((stamp, intact)) = Stamp::read(parsed.payload) else {
        counts.foreign += 1;
        return false;
    };
    if !intact {
        counts.payload_errors += 1;
        return false;
    }
    let sequence = stamp.sequence;
    let flow = flows.entry((source, parsed.key, stamp.run)).or_insert(Flow {
        source,
        key: parsed.key,
        packets: 0,
        first: sequence,
        last: sequence,
        missing: 0,
        late: 0,
    });
    if flow.packets > 0 && sequence <= flow.last {
        flow.late += 1;
    }
    flow.packets += 1;
    flow.first = flow.first.min(sequence);
    flow.last = flow.last.max(sequence);
    let spanned = i64::try_from(flow.last - flow.first + 1).unwrap_or(i64::MAX);
    flow.missing = spanned - i64::try_from(flow.packets).unwrap_or(i64::MAX);
    stamp.direction == Direction::Request
}

/// The packet as an answer: the same GRE header and payload, but for the stamp's direction and,
/// with it, the GRE checksum.
fn answer(request: &[u8], source: IpAddr, destination: IpAddr) -> Option<Vec<u8>> {
    let mut gre_octets = request.to_vec();
    let header = gre::Header::parse(*gre_octets.first_chunk()?).ok()?;
    let payload = gre_octets.get_mut(header.length()..)?;
    let (stamp, _) = Stamp::read(payload)?;
    let before = Sum::new().octets(payload);
    Stamp { direction: Direction::Answer, ..stamp }.write(payload);
    let after = Sum::new().octets(payload);
    if header.has_checksum() {
        let field = gre_octets.get_mut(gre::BASE_BYTES..)?.first_chunk_mut::<2>()?;
        *field = update(u16::from_be_bytes(*field), before, after).to_be_bytes();
    }
    Some(Shape::between(source, destination).enclose(&gre_octets))
}

fn destination_v4(packet: &[u8]) -> IpAddr {
    let octets = packet.get(wire::ipv4::field::DESTINATION..).and_then(<[u8]>::first_chunk);
    IpAddr::from(Address::v4(octets.copied().unwrap_or_default()))
}

impl Report {
    fn render(&self, json: bool) -> io::Result<String> {
        if json {
            return serde_json::to_string(self).map_err(io::Error::other);
        }
        let mut text = format!(
            "received {} packets, {} bytes, {} flows; malformed {}, checksum errors {}, \
             payload errors {}, foreign {}, queue drops {}, answered {}, refused {}",
            self.packets,
            self.bytes,
            self.flows.len(),
            self.malformed,
            self.checksum_errors,
            self.payload_errors,
            self.foreign,
            self.queue_drops,
            self.answered,
            self.refused
        );
        for flow in &self.flows {
            let key = flow.key.map_or_else(|| "-".to_owned(), |key| key.to_string());
            text.push_str(&format!(
                "\n  {} key {key}: {} packets, sequence {}..{}, missing {}, late {}",
                flow.source, flow.packets, flow.first, flow.last, flow.missing, flow.late
            ));
        }
        Ok(text)
    }
}
