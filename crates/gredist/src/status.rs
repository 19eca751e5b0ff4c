//! What the daemon shows of itself: readiness, metrics, status, the log of statistics.

use crate::snapshot::Snapshot;
use crate::statistics::{BackendCounters, Statistics};
use balance::hash::HASH_VERSION;
use balance::rendezvous::Rows;
use config::live::Live;
use daemon::metrics::Exposition;
use daemon::ops::Source;
use health::State;
use serde_json::{Value, json};
use std::sync::Arc;
use tracing::info;

/// The newest picture of the control side, with the packet thread's counters.
pub struct Status {
    statistics: Arc<Statistics>,
    picture: Live<Picture>,
}

/// A backend as the control side sees it.
#[derive(Clone, Debug)]
pub struct BackendState {
    /// Its health.
    pub state: State,
    /// Its share.
    pub weight: u8,
    /// Why the last check failed, if it did.
    pub cause: Option<String>,
}

#[derive(Default)]
struct Picture {
    frontend: String,
    backends: Vec<Shown>,
}

struct Shown {
    address: String,
    state: BackendState,
    rows: usize,
    counters: Arc<BackendCounters>,
}

impl Status {
    /// Nothing is known yet but the counters.
    pub fn new(statistics: Arc<Statistics>) -> Self {
        Self { statistics, picture: Live::new(Arc::new(Picture::default())) }
    }

    /// Replaces the picture. `states` are in the order of the snapshot's backends.
    pub fn publish(&self, snapshot: Arc<Snapshot>, states: Vec<BackendState>, rows: &Rows) {
        let backends = snapshot.backends.iter().zip(states).zip(rows.shares());
        let backends = backends.map(|((backend, state), rows)| Shown {
            address: backend.address.to_string(),
            state,
            rows,
            counters: Arc::clone(&backend.counters),
        });
        let frontend = snapshot.service.frontend.to_string();
        self.picture.publish(Arc::new(Picture { frontend, backends: backends.collect() }));
    }

    /// Writes all statistics to the log: one line for the whole, one per backend, one per reason
    /// that has dropped something.
    pub fn log(&self) {
        let s = &self.statistics;
        info!(
            received_packets = s.received.packets.get(),
            received_bytes = s.received.bytes.get(),
            answered = s.answered.get(),
            fanned_out = s.fanned_out.get(),
            passed = s.passed.get(),
            dropped = s.drops().map(|(_, count)| count).sum::<u64>(),
            "statistics"
        );
        for backend in &self.picture.load().backends {
            info!(
                backend = %backend.address,
                state = %backend.state.state,
                rows = backend.rows,
                packets = backend.counters.forwarded.packets.get(),
                bytes = backend.counters.forwarded.bytes.get(),
                returned_packets = backend.counters.returned.packets.get(),
                returned_bytes = backend.counters.returned.bytes.get(),
                "statistics of a backend"
            );
        }
        for (reason, count) in s.drops().filter(|(_, count)| *count > 0) {
            info!(reason = %reason.name(), count, "statistics of drops");
        }
    }
}

impl Source for Status {
    fn ready(&self) -> Result<(), String> {
        let picture = self.picture.load();
        match picture.backends.iter().any(|backend| backend.state.state == State::Up) {
            true => Ok(()),
            false => Err("no backend is healthy".into()),
        }
    }

    fn metrics(&self, out: &mut Exposition) {
        let s = &self.statistics;
        out.counter("gredist_received_packets_total", "Packets read from the sockets.")
            .sample(&[], s.received.packets.get());
        out.counter("gredist_received_bytes_total", "Octets of the packets read.")
            .sample(&[], s.received.bytes.get());
        out.counter(
            "gredist_answered_packets_total",
            "ICMP errors sent to the sources of packets.",
        )
        .sample(&[], s.answered.get());
        out.counter("gredist_fanned_out_packets_total", "ICMP errors copied to every backend.")
            .sample(&[], s.fanned_out.get());
        out.counter("gredist_passed_packets_total", "Packets left to the host.")
            .sample(&[], s.passed.get());
        for (reason, count) in s.drops() {
            out.counter("gredist_dropped_packets_total", "Packets dropped, by reason.")
                .sample(&[("reason", reason.name())], count);
        }
        out.gauge("gredist_hash_version", "Version of the selection hash; equal in a fleet.")
            .sample(&[], u64::from(HASH_VERSION));
        for backend in &self.picture.load().backends {
            let labels = [("backend", backend.address.as_str())];
            let up = u64::from(backend.state.state == State::Up);
            out.gauge("gredist_backend_up", "Whether the backend is healthy.").sample(&labels, up);
            out.gauge("gredist_backend_weight", "The backend's configured weight.")
                .sample(&labels, u64::from(backend.state.weight));
            out.gauge("gredist_backend_rows", "Rows, of 65536, that the backend has won.")
                .sample(&labels, backend.rows as u64);
            let (sent, back) = (&backend.counters.forwarded, &backend.counters.returned);
            out.counter("gredist_backend_packets_total", "Packets sent to the backend.")
                .sample(&labels, sent.packets.get());
            out.counter("gredist_backend_bytes_total", "Octets sent to the backend.")
                .sample(&labels, sent.bytes.get());
            out.counter(
                "gredist_backend_returned_packets_total",
                "Replies of the backend sent on to clients of the other family.",
            )
            .sample(&labels, back.packets.get());
            out.counter("gredist_backend_returned_bytes_total", "Octets of these replies.")
                .sample(&labels, back.bytes.get());
        }
    }

    fn status(&self) -> Value {
        let s = &self.statistics;
        let picture = self.picture.load();
        let backends: Vec<Value> = picture
            .backends
            .iter()
            .map(|backend| {
                let (sent, back) = (&backend.counters.forwarded, &backend.counters.returned);
                json!({
                    "backend": backend.address,
                    "state": backend.state.state.to_string(),
                    "lastFailure": backend.state.cause,
                    "weight": backend.state.weight,
                    "rows": backend.rows,
                    "packets": sent.packets.get(),
                    "bytes": sent.bytes.get(),
                    "returnedPackets": back.packets.get(),
                    "returnedBytes": back.bytes.get(),
                })
            })
            .collect();
        let drops: serde_json::Map<String, Value> =
            s.drops().map(|(reason, count)| (reason.name().into(), count.into())).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "hashVersion": HASH_VERSION,
            "frontend": picture.frontend,
            "backends": backends,
            "receivedPackets": s.received.packets.get(),
            "receivedBytes": s.received.bytes.get(),
            "answeredPackets": s.answered.get(),
            "fannedOutPackets": s.fanned_out.get(),
            "passedPackets": s.passed.get(),
            "droppedPackets": drops,
        })
    }
}
