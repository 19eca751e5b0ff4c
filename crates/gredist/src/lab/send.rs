//! gre-send(1): generates GRE flows, and counts the answers.

use super::packet::{Fault, Shape, parse};
use super::stamp::{self, Direction, Stamp};
use super::{now, pause};
use ::config::value;
use clap::{Parser, ValueEnum};
use netio::batch::{BATCH, Batch, Outgoing};
use netio::socket::RawSocket;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Address, protocol};

/// Send GRE packets of one or many flows, for labs and tests.
#[derive(Debug, Parser)]
#[command(name = "gre-send", version)]
pub struct Args {
    /// Where to send: the frontend, or a backend
    pub destination: IpAddr,

    /// Outer source (default: the address that the route to the destination has)
    #[arg(long, value_name = "ADDRESS")]
    pub source: Option<IpAddr>,

    /// GRE key of the first flow; further flows count up from it
    #[arg(long, value_name = "N", value_parser = value::hex_or_decimal)]
    pub key: Option<u32>,

    /// Number of flows. With --key they differ in the key, without in the source address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub flows: u32,

    /// Packets in all, spread evenly over the flows; 0 sends until a signal
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub count: u64,

    /// Packets a second; 0 sends as fast as the host can
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub rate: u64,

    /// Octets of payload behind the GRE header, at least 24
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(24..=65_000))]
    pub size: u32,

    /// Write the GRE checksum
    #[arg(long)]
    pub checksum: bool,

    /// Write the GRE sequence number
    #[arg(long)]
    pub sequence: bool,

    /// TTL or hop limit
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub ttl: u8,

    /// DSCP and ECN octet
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tos: u8,

    /// Allow fragmentation: clear IPv4's DF
    #[arg(long)]
    pub no_df: bool,

    /// Send malformed packets
    #[arg(long, value_enum, value_name = "MODE")]
    pub malformed: Option<Malformed>,

    /// With --malformed truncated: octets of GRE to send
    #[arg(long, value_name = "BYTES", default_value_t = 3, requires = "malformed")]
    pub truncate_at: usize,

    /// After the last packet wait so long for answers, and report them (such as 500ms or 2s)
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub answers: Option<Duration>,

    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Kinds of malformed packets; each is dropped by gredist under the counter named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Malformed {
    /// Version 1, as PPTP has it: gre_version
    Version,
    /// Routing bit: gre_routing
    Routing,
    /// Strict source route bit: gre_strict_source_route
    StrictSourceRoute,
    /// Recursion control: gre_recursion
    Recursion,
    /// Cut short: gre_truncated
    Truncated,
    /// A wrong checksum: forwarded as it is, the receiver's to judge
    Checksum,
}

/// What was sent and what came back.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Packets handed to the kernel.
    pub sent: u64,
    /// Packets that the kernel refused, and its last reason.
    pub refused: u64,
    /// The kernel's last reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Flows.
    pub flows: u32,
    /// Seconds from the first to the last packet.
    pub seconds: f64,
    /// Different packets that were answered from the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// Answers whose payload or checksum was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged_answers: Option<u64>,
}

/// The program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    super::run("gre-send", args, |args: Args| {
        let json = args.json;
        let report = Sender::open(args)?.run()?;
        if let (0, Some(refusal)) = (report.sent, &report.refusal) {
            return Err(format!("the kernel refused every packet: {refusal}").into());
        }
        Ok(if json { serde_json::to_string(&report)? } else { report.to_string() })
    })
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sent {} packets of {} flows in {:.3} s", self.sent, self.flows, self.seconds)?;
        if let Some(refusal) = &self.refusal {
            write!(f, "; the kernel refused {} (last: {refusal})", self.refused)?;
        }
        if let Some(answered) = self.answered {
            write!(f, "; {answered} were answered")?;
        }
        match self.damaged_answers {
            Some(damaged) if damaged > 0 => write!(f, "; {damaged} answers were damaged"),
            _ => Ok(()),
        }
    }
}

struct Sender {
    args: Args,
    source: IpAddr,
    run: u32,
    socket: RawSocket,
    answers: Option<RawSocket>,
    answered: HashSet<(u32, u64)>,
    report: Report,
    batch: Batch,
    inbox: Batch,
    stop: Arc<AtomicBool>,
}

impl Sender {
    fn open(args: Args) -> io::Result<Self> {
        let source = match args.source {
            Some(source) => source,
            None => route_source(args.destination).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", args.destination))
            })?,
        };
        if source.is_ipv4() != args.destination.is_ipv4() {
            return Err(io::Error::other("source and destination are of different families"));
        }
        let family = Address::from(args.destination).family();
        let answers = args.answers.map(|_| RawSocket::any(family, protocol::GRE)).transpose()?;
        if let Some(answers) = &answers {
            answers.set_receive_queue(super::QUEUE_BYTES)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self {
            socket: RawSocket::sender(family)?,
            run: std::process::id(),
            report: Report { flows: args.flows, ..Report::default() },
            args,
            source,
            answers,
            answered: HashSet::new(),
            batch: Batch::default(),
            inbox: Batch::default(),
            stop,
        })
    }

    fn run(mut self) -> io::Result<Report> {
        let start = now();
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed)
            && (self.args.count == 0 || number < self.args.count)
        {
            let due = self.due(start, number);
            if due == 0 {
                pause(self.until_next(start, number));
            } else {
                self.send(number, due);
                number += due;
            }
            self.read_answers()?;
        }
        self.report.seconds = now().duration_since(start).as_secs_f64();
        if let Some(wait) = self.args.answers {
            let until = now() + wait;
            while now() < until
                && !self.stop.load(Ordering::Relaxed)
                && self.answered.len() as u64 != self.report.sent
            {
                pause(Duration::from_millis(1));
                self.read_answers()?;
            }
            self.report.answered = Some(self.answered.len() as u64);
            self.report.damaged_answers.get_or_insert(0);
        }
        Ok(self.report)
    }

    /// How many packets the rate allows now, at most a batch.
    fn due(&self, start: Instant, number: u64) -> u64 {
        let left = match self.args.count {
            0 => BATCH as u64,
            count => (count - number).min(BATCH as u64),
        };
        if self.args.rate == 0 {
            return left;
        }
        let elapsed = now().duration_since(start).as_nanos();
        let allowed = elapsed * u128::from(self.args.rate) / 1_000_000_000 + 1;
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        allowed.saturating_sub(number).min(left)
    }

    fn until_next(&self, start: Instant, number: u64) -> Duration {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.args.rate.max(1));
        let at = start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        at.saturating_duration_since(now())
    }

    fn send(&mut self, first: u64, count: u64) {
        let mut outgoing = Vec::with_capacity(BATCH);
        for (slot, number) in (first..first + count).enumerate() {
            let packet = self.packet(number);
            if let Some((_, place)) = self.batch.put(slot, &packet) {
                outgoing.push(Outgoing::new(slot, place, self.args.destination));
            }
        }
        let report = &mut self.report;
        report.sent += outgoing.len() as u64;
        self.batch.send(&self.socket, &outgoing, |_, error| {
            report.sent -= 1;
            report.refused += 1;
            report.refusal = Some(error.to_string());
        });
    }

    fn packet(&self, number: u64) -> Vec<u8> {
        let flows = u64::from(self.args.flows);
        let flow = u32::try_from(number % flows).unwrap_or(0);
        let sequence = number / flows;
        let stamp = Stamp { direction: Direction::Request, flow, run: self.run, sequence };
        let source = if self.args.key.is_some() { self.source } else { plus(self.source, flow) };
        #[expect(clippy::cast_possible_truncation, reason = "the sequence number wraps (RFC 2890)")]
        let wrapped = sequence as u32;
        Shape {
            source,
            destination: self.args.destination,
            key: self.args.key.map(|key| key.wrapping_add(flow)),
            checksum: self.args.checksum || self.args.malformed == Some(Malformed::Checksum),
            sequence: self.args.sequence.then_some(wrapped),
            size: usize::try_from(self.args.size).unwrap_or(stamp::BYTES),
            ttl: self.args.ttl,
            tos: self.args.tos,
            dont_fragment: !self.args.no_df,
            fault: self.args.malformed.map(|malformed| match malformed {
                Malformed::Version => Fault::Flags(1),
                Malformed::Routing => Fault::Flags(wire::gre::ROUTING_PRESENT),
                Malformed::StrictSourceRoute => Fault::Flags(wire::gre::STRICT_SOURCE_ROUTE),
                Malformed::Recursion => Fault::Flags(wire::gre::RECURSION),
                Malformed::Truncated => Fault::Truncated(self.args.truncate_at),
                Malformed::Checksum => Fault::Checksum,
            }),
        }
        .build(&stamp)
    }

    fn read_answers(&mut self) -> io::Result<()> {
        let Some(socket) = &self.answers else { return Ok(()) };
        while self.inbox.receive(socket)? > 0 {
            for slot in 0..self.inbox.len() {
                let Some((octets, place, received)) = self.inbox.slot(slot) else { continue };
                if received.source != self.args.destination {
                    continue;
                }
                let packet = octets.get(place).unwrap_or_default();
                let Some(parsed) = super::gre_part(packet, received.source).and_then(parse) else {
                    continue;
                };
                let Some((stamp, intact)) = Stamp::read(parsed.payload) else { continue };
                if stamp.direction != Direction::Answer || stamp.run != self.run {
                    continue;
                }
                if !intact || parsed.checksum == Some(false) {
                    *self.report.damaged_answers.get_or_insert(0) += 1;
                } else {
                    self.answered.insert((stamp.flow, stamp.sequence));
                }
            }
        }
        Ok(())
    }
}

/// The source that the kernel would use towards a destination.
fn route_source(destination: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(SocketAddr::new(destination, 9))?;
    Ok(socket.local_addr()?.ip())
}

fn plus(address: IpAddr, count: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits().wrapping_add(count)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits().wrapping_add(count.into())).into(),
    }
}
