//! Packets that are decided and ready: sent in order, counted by what became of them.

use crate::host::Host;
use crate::ports::Ports;
use crate::snapshot::Snapshot;
use crate::statistics::Statistics;
use datapath::{DropReason, Verdict};
use netio::batch::{Batch, Outgoing};
use netio::socket::RawSocket;
use std::io;
use wire::Address;

/// The packets of one batch, by family.
#[derive(Debug, Default)]
pub struct Outbox {
    v4: Queue,
    v6: Queue,
}

#[derive(Debug, Default)]
struct Queue {
    packets: Vec<Outgoing>,
    purposes: Vec<Purpose>,
    refused: Vec<usize>,
}

/// Whom a sent packet counts for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Backend(u16),
    Client(u16),
    Answer,
}

impl Outbox {
    /// Takes a packet in, or counts why there is none.
    pub fn take(&mut self, verdict: Verdict, packet: Outgoing, statistics: &Statistics) {
        let purpose = match verdict {
            Verdict::ToBackend(index) => Purpose::Backend(index),
            Verdict::ToClient(index) => Purpose::Client(index),
            Verdict::Answer(reason) => {
                statistics.dropped(reason, 1);
                Purpose::Answer
            }
            Verdict::Drop(reason) => return statistics.dropped(reason, 1),
            // `Everyone` is resolved before; a copy of it is never another.
            Verdict::Pass | Verdict::Everyone => return statistics.passed.add(1),
        };
        let queue = if packet.destination().is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        queue.packets.push(packet);
        queue.purposes.push(purpose);
    }

    /// Sends everything out of `batch` and leaves the outbox empty.
    pub fn send(
        &mut self,
        batch: &Batch,
        ports: &Ports,
        snapshot: &Snapshot,
        host: &mut Host,
        statistics: &Statistics,
    ) {
        self.v4.send(batch, ports.v4.as_deref(), snapshot, host, statistics);
        self.v6.send(batch, ports.v6.as_deref(), snapshot, host, statistics);
    }
}

impl Queue {
    fn send(
        &mut self,
        batch: &Batch,
        socket: Option<&RawSocket>,
        snapshot: &Snapshot,
        host: &mut Host,
        statistics: &Statistics,
    ) {
        if self.packets.is_empty() {
            return;
        }
        let Self { packets, purposes, refused } = self;
        let mut refuse = |index: usize, error: &io::Error| {
            let reason = reason_of(error);
            refused.push(index);
            // An answer is no packet of anybody's; the one that it answers is counted already.
            if !matches!(purposes.get(index), Some(Purpose::Answer)) {
                statistics.dropped(reason, 1);
            }
            if reason == DropReason::TooBig
                && let Some(packet) = packets.get(index)
            {
                host.forget_path(Address::from(packet.destination()));
            }
        };
        match socket {
            Some(socket) => batch.send(socket, packets, |index, error| refuse(index, &error)),
            None => {
                let missing = io::ErrorKind::NetworkUnreachable.into();
                (0..packets.len()).for_each(|index| refuse(index, &missing));
            }
        }
        let mut refused = refused.drain(..).peekable();
        for (index, (packet, purpose)) in packets.drain(..).zip(purposes.drain(..)).enumerate() {
            if refused.next_if_eq(&index).is_some() {
                continue;
            }
            let counters = |backend: u16| snapshot.backends.get(usize::from(backend));
            match purpose {
                Purpose::Backend(backend) => {
                    if let Some(backend) = counters(backend) {
                        backend.counters.forwarded.count(packet.length());
                    }
                }
                Purpose::Client(backend) => {
                    if let Some(backend) = counters(backend) {
                        backend.counters.returned.count(packet.length());
                    }
                }
                Purpose::Answer => statistics.answered.add(1),
            }
        }
    }
}

/// Which counter a refusal of the kernel belongs to.
fn reason_of(error: &io::Error) -> DropReason {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::MSGSIZE) => DropReason::TooBig,
        Some(Errno::AGAIN | Errno::NOBUFS) => DropReason::SendQueueFull,
        Some(Errno::PERM | Errno::ACCESS) => DropReason::SendRefused,
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => DropReason::NoRoute,
        _ => DropReason::SendFailed,
    }
}
