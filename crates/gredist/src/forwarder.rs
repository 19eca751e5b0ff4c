//! One turn of the packet thread: a batch in, a decision per packet, batches out.
//!
//! ```text
//! recvmmsg -> assemble -> gre::process -> Outbox -> sendmmsg -> counters
//! ```

use crate::host::{Host, View};
use crate::outbox::Outbox;
use crate::ports::{Ports, Receiver};
use crate::snapshot::Snapshot;
use crate::statistics::Statistics;
use config::live::Live;
use datapath::{DropReason, Frame, SliceFrame, Verdict, gre};
use netio::batch::{BATCH, Batch, Outgoing, Received};
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use wire::{Address, Family, ipv4, ipv6};

/// Everything that the packet thread owns.
#[derive(Debug)]
pub struct Forwarder {
    /// The sockets.
    pub ports: Ports,
    /// State behind the tables.
    pub host: Host,
    live: Arc<Live<Snapshot>>,
    statistics: Arc<Statistics>,
    batch: Batch,
    outbox: Outbox,
    copies: Batch,
    /// Packets of the batch at hand that every backend gets a copy of.
    for_everyone: Vec<Vec<u8>>,
}

impl Forwarder {
    /// A forwarder that reads snapshots from `live` and counts into `statistics`.
    pub fn new(
        ports: Ports,
        host: Host,
        live: Arc<Live<Snapshot>>,
        statistics: Arc<Statistics>,
    ) -> Self {
        Self {
            ports,
            host,
            live,
            statistics,
            batch: Batch::default(),
            outbox: Outbox::default(),
            copies: Batch::default(),
            for_everyone: Vec::new(),
        }
    }

    /// Reads one batch from the receiver of this number, decides and sends. Returns how many
    /// packets were read.
    ///
    /// # Errors
    /// If the receiver fails; a packet's own trouble is counted instead.
    pub fn turn(&mut self, receiver: usize, now: Instant) -> io::Result<usize> {
        self.host.now = now;
        self.host.clients.handle_time(now);
        let Some(receiver) = self.ports.receivers.get_mut(receiver) else { return Ok(0) };
        let count = self.batch.receive(&receiver.socket)?;
        let snapshot = self.live.load();
        for slot in 0..count {
            let Some((octets, place, received)) = self.batch.slot(slot) else { continue };
            let length = place.len();
            note_queue_drops(receiver, &received, &self.statistics);
            let whole = match assemble(octets, place, &received, receiver) {
                Ok(whole) => whole,
                Err(reason) => {
                    self.statistics.received.count(length);
                    self.statistics.dropped(reason, 1);
                    continue;
                }
            };
            self.statistics.received.count(whole.len());
            let Some(mut frame) = SliceFrame::new(octets, whole.start, whole.end) else { continue };
            let mut view = View { snapshot: &snapshot, host: &mut self.host };
            match gre::process(&mut frame, &mut view) {
                Verdict::Everyone => self.for_everyone.push(frame.octets().to_vec()),
                verdict => self.outbox.take(verdict, outgoing(&frame, slot), &self.statistics),
            }
        }
        let Self { batch, outbox, ports, host, statistics, .. } = self;
        outbox.send(batch, ports, &snapshot, host, statistics);
        for packet in std::mem::take(&mut self.for_everyone) {
            self.send_to_everyone(&packet, &snapshot);
        }
        Ok(count)
    }

    /// Uses these sockets from now on. What waits in sockets that are no longer used is handled.
    ///
    /// # Errors
    /// If a receiver fails.
    pub fn replace_ports(&mut self, ports: Ports, now: Instant) -> io::Result<()> {
        for number in 0..self.ports.receivers.len() {
            let Some(old) = self.ports.receivers.get(number) else { continue };
            if ports.receiver(old.purpose).is_none() {
                self.drain(number, now)?;
            }
        }
        let old = std::mem::replace(&mut self.ports, ports);
        for receiver in &mut self.ports.receivers {
            let kept = old.receiver(receiver.purpose);
            if let Some(kept) = kept.filter(|kept| Arc::ptr_eq(&kept.socket, &receiver.socket)) {
                receiver.queue_drops = kept.queue_drops;
            }
        }
        Ok(())
    }

    /// Handles what waits in a receiver, a large queue's worth at most.
    ///
    /// # Errors
    /// If the receiver fails.
    pub fn drain(&mut self, receiver: usize, now: Instant) -> io::Result<()> {
        const MAX_TURNS: usize = 4_096;
        for _ in 0..MAX_TURNS {
            if self.turn(receiver, now)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Gives every healthy backend its copy of an ICMP error.
    fn send_to_everyone(&mut self, packet: &[u8], snapshot: &Snapshot) {
        if snapshot.up.is_empty() {
            return self.statistics.dropped(DropReason::NoHealthyBackend, 1);
        }
        self.statistics.fanned_out.add(1);
        for backends in snapshot.up.chunks(BATCH) {
            for (slot, backend) in backends.iter().enumerate() {
                let Some((octets, place)) = self.copies.put(slot, packet) else { continue };
                let Some(mut frame) = SliceFrame::new(octets, place.start, place.end) else {
                    continue;
                };
                let mut view = View { snapshot, host: &mut self.host };
                let verdict = gre::error_to(&mut frame, *backend, &mut view);
                self.outbox.take(verdict, outgoing(&frame, slot), &self.statistics);
            }
            let Self { copies, outbox, ports, host, statistics, .. } = self;
            outbox.send(copies, ports, snapshot, host, statistics);
        }
    }
}

/// Counts what a full receive queue has dropped since the last packet.
fn note_queue_drops(receiver: &mut Receiver, received: &Received, statistics: &Statistics) {
    if let Some(total) = received.queue_drops {
        let new = total.wrapping_sub(receiver.queue_drops);
        receiver.queue_drops = total;
        if new > 0 {
            statistics.dropped(DropReason::ReceiveQueueFull, u64::from(new));
        }
    }
}

/// Makes a whole IP packet of what the kernel handed over: an IPv6 socket gives no IPv6 header,
/// but its fields. Extension headers, if any, are gone by then.
fn assemble(
    octets: &mut [u8],
    place: Range<usize>,
    received: &Received,
    receiver: &Receiver,
) -> Result<Range<usize>, DropReason> {
    if received.truncated {
        return Err(DropReason::ReceiveOversize);
    }
    if received.reassembled {
        return Err(DropReason::OuterFragment);
    }
    let (IpAddr::V6(source), Family::V6) = (received.source, receiver.socket.family()) else {
        return Ok(place);
    };
    let destination = received.destination.ok_or(DropReason::OuterTruncated)?;
    let header = ipv6::Header {
        traffic_class: received.traffic_class,
        flow_label: received.flow_label,
        payload_length: u16::try_from(place.len()).map_err(|_| DropReason::ReceiveOversize)?,
        next_header: receiver.purpose.protocol(),
        hop_limit: received.hop_limit,
        source: source.octets(),
        destination: destination.octets(),
    };
    let start = place.start.checked_sub(ipv6::HEADER_BYTES).ok_or(DropReason::NoHeadroom)?;
    let room = octets.get_mut(start..).and_then(<[u8]>::first_chunk_mut);
    *room.ok_or(DropReason::NoHeadroom)? = header.emit();
    Ok(start..place.end)
}

/// The frame as a packet to send, by its own destination address.
fn outgoing(frame: &SliceFrame<'_>, slot: usize) -> Outgoing {
    let destination = match frame.read::<1>(0) {
        Some([first]) if first >> 4 == 6 => frame.read(ipv6::field::DESTINATION).map(Address::v6),
        _ => frame.read(ipv4::field::DESTINATION).map(Address::v4),
    };
    let destination = destination.unwrap_or(Address::v4([0; 4]));
    Outgoing::new(slot, frame.range(), IpAddr::from(destination))
}
