//! Echo requests of ICMP checks, and the replies that they wait for (RFC 792 p. 14, RFC 4443 4).

use std::collections::HashMap;
use std::net::IpAddr;

use netio::icmp::EchoReply;

use super::connection::outcome_of;
use super::schedule::{FlightId, Outcome};
use crate::sockets::{Nonce, Watched, secrets};

/// Outstanding requests of all ICMP checks, never more than there are flights.
pub(super) struct Pings {
    sockets: Watched,
    nonces: Box<dyn FnMut() -> Nonce + Send>,
    waiting: Waiting,
}

impl Pings {
    pub(super) fn new(sockets: Watched) -> Self {
        let (id, nonces) = secrets();
        Self { sockets, nonces: Box::new(nonces), waiting: Waiting { id, ..Waiting::default() } }
    }

    /// Sends a request; fails with what the attempt says about the backend.
    pub(super) fn start(&mut self, flight: FlightId, to: IpAddr) -> Result<(), Outcome> {
        let nonce = (self.nonces)();
        let seq = self.waiting.add(flight, to, nonce);
        let sent = self.sockets.send(to, self.waiting.id, seq, nonce);
        sent.map_err(|error| {
            self.waiting.cancel(flight);
            outcome_of(&error)
        })
    }

    /// Nobody waits for this reply any more. Ignored if it has come.
    pub(super) fn cancel(&mut self, flight: FlightId) {
        self.waiting.cancel(flight);
    }

    /// Waits for replies. Cancel-safe.
    pub(super) async fn replies(&mut self) -> Vec<FlightId> {
        let Self { sockets, waiting, .. } = self;
        let mut answered = Vec::new();
        sockets.replies(|reply| answered.extend(waiting.handle_reply(reply))).await;
        answered
    }

    /// Those that are there already.
    pub(super) fn replies_now(&mut self) -> Vec<FlightId> {
        let Self { sockets, waiting, .. } = self;
        let mut answered = Vec::new();
        sockets.replies_now(|reply| answered.extend(waiting.handle_reply(reply)));
        answered
    }
}

/// Which flight waits for which reply.
#[derive(Debug, Default)]
struct Waiting {
    id: u16,
    next_seq: u16,
    flights: HashMap<(IpAddr, Nonce), (FlightId, u16)>,
    nonces: HashMap<FlightId, (IpAddr, Nonce)>,
}

impl Waiting {
    /// Waits for a reply with this nonce and the sequence number that is returned.
    fn add(&mut self, flight: FlightId, to: IpAddr, nonce: Nonce) -> u16 {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        self.flights.insert((to, nonce), (flight, seq));
        self.nonces.insert(flight, (to, nonce));
        seq
    }

    fn cancel(&mut self, flight: FlightId) {
        if let Some(key) = self.nonces.remove(&flight) {
            self.flights.remove(&key);
        }
    }

    /// The flight whose request this answers: address, identifier, sequence and nonce agree.
    fn handle_reply(&mut self, reply: &EchoReply<'_>) -> Option<FlightId> {
        let nonce = Nonce::try_from(reply.payload).ok()?;
        let &(flight, seq) = self.flights.get(&(reply.from, nonce))?;
        if (reply.id, reply.seq) != (self.id, seq) {
            return None;
        }
        self.cancel(flight);
        Some(flight)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn reply_counts_once_and_only_when_everything_in_it_agrees() {
        let backend = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        let flight = FlightId(7);
        let mut waiting = Waiting { id: 0xbeef, ..Waiting::default() };
        let seq = waiting.add(flight, backend, [1; 8]);
        waiting.add(FlightId(8), other, [2; 8]);
        let right = EchoReply { from: backend, id: 0xbeef, seq, payload: &[1; 8] };
        for (name, wrong) in [
            ("another address", EchoReply { from: other, ..right }),
            ("another identifier", EchoReply { id: 1, ..right }),
            ("another sequence", EchoReply { seq: seq ^ 1, ..right }),
            ("another's nonce", EchoReply { payload: &[2; 8], ..right }),
            ("a longer payload", EchoReply { payload: &[1; 9], ..right }),
        ] {
            assert_eq!(waiting.handle_reply(&wrong), None, "{name}");
        }
        assert_eq!(waiting.handle_reply(&right), Some(flight));
        assert_eq!(waiting.handle_reply(&right), None, "twice");
    }

    #[test]
    fn cancelled_request_waits_for_nothing() {
        let backend = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut waiting = Waiting::default();
        let seq = waiting.add(FlightId(1), backend, [1; 8]);
        waiting.cancel(FlightId(1));
        let reply = EchoReply { from: backend, id: 0, seq, payload: &[1; 8] };
        assert_eq!(waiting.handle_reply(&reply), None);
        assert!(waiting.flights.is_empty() && waiting.nonces.is_empty());
    }
}
