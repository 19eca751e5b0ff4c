//! What the node shows of itself: readiness, metrics, status.

use config::live::Live;
use daemon::metrics::Exposition;
use daemon::ops::Source;
use datapath::lb::DropReason;
use datapath::lb::layout::Traffic;
use serde_json::{Value, json};
use std::sync::Arc;
use tracing::info;

/// The newest picture of the node.
pub struct Status(Live<Picture>);

/// The node at one moment.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// The services.
    pub services: Vec<ServicePicture>,
    /// Packets dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// Packets passed, transmitted, redirected, dropped.
    pub verdicts: [u64; 4],
    /// Sessions in use, half-open ones among them, and how many there can be.
    pub sessions: (u32, u32, u32),
    /// Whether the last reload took effect.
    pub configuration_good: bool,
}

/// One service.
#[derive(Clone, Debug, Default)]
pub struct ServicePicture {
    /// The mapping's name.
    pub mapping: String,
    /// Address, port and protocol.
    pub service: String,
    /// SHA-256 of its table, in hexadecimal.
    pub digest: String,
    /// Its backends.
    pub backends: Vec<BackendPicture>,
}

/// One backend of a service.
#[derive(Clone, Debug, Default)]
pub struct BackendPicture {
    /// Its name.
    pub name: String,
    /// Its address and port.
    pub address: String,
    /// Whether it takes new flows.
    pub alive: bool,
    /// Why not, if it is known.
    pub cause: Option<String>,
    /// Its counters.
    pub traffic: Traffic,
    /// Its sessions in use.
    pub sessions: u32,
}

impl Status {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self(Live::new(Arc::new(Picture::default())))
    }

    /// Replaces the picture.
    pub fn publish(&self, picture: Picture) {
        self.0.publish(Arc::new(picture));
    }

    /// Writes all statistics to the log: one line for the whole, one per backend, one per reason
    /// that has dropped something.
    pub fn log(&self) {
        let picture = self.picture();
        let ([passed, transmitted, redirected, dropped], (sessions, half_open, _)) =
            (picture.verdicts, picture.sessions);
        info!(passed, transmitted, redirected, dropped, sessions, half_open, "statistics");
        for service in &picture.services {
            for backend in &service.backends {
                info!(
                    mapping = service.mapping,
                    backend = backend.name,
                    up = backend.alive,
                    sessions = backend.sessions,
                    new_sessions = backend.traffic.sessions,
                    packets_in = backend.traffic.packets_in,
                    packets_out = backend.traffic.packets_out,
                    "statistics of a backend"
                );
            }
        }
        for (reason, count) in picture.drops.iter().filter(|(_, count)| *count > 0) {
            info!(reason = reason.name(), count, "statistics of drops");
        }
    }

    /// The picture.
    pub fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.0.load())
    }
}

impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

impl Source for Status {
    fn ready(&self) -> Result<(), String> {
        let picture = self.picture();
        if !picture.configuration_good && picture.services.is_empty() {
            return Err("no resources could be read".into());
        }
        let serves = |s: &ServicePicture| s.backends.iter().any(|backend| backend.alive);
        match picture.services.iter().any(serves) || picture.services.is_empty() {
            true => Ok(()),
            false => Err("no service has a backend that takes new flows".into()),
        }
    }

    fn metrics(&self, out: &mut Exposition) {
        let picture = self.picture();
        let (sessions, half_open, capacity) = picture.sessions;
        out.gauge("lb_sessions", "Sessions in use.").sample(&[], u64::from(sessions));
        out.gauge("lb_half_open_sessions", "Half-open TCP sessions.")
            .sample(&[], u64::from(half_open));
        out.gauge("lb_sessions_limit", "Sessions that can be in use.")
            .sample(&[], u64::from(capacity));
        out.gauge("lb_configuration_good", "Whether the last reading of resources took effect.")
            .sample(&[], u64::from(picture.configuration_good));
        for (verdict, count) in VERDICTS.into_iter().zip(picture.verdicts) {
            out.counter("lb_packets_total", "Packets, by what became of them.")
                .sample(&[("verdict", verdict)], count);
        }
        for (reason, count) in &picture.drops {
            out.counter("lb_dropped_packets_total", "Packets dropped, by reason.")
                .sample(&[("reason", reason.name())], *count);
        }
        for service in &picture.services {
            let labels = [("mapping", service.mapping.as_str()), ("digest", &service.digest)];
            out.gauge("lb_table_digest", "1 for the SHA-256 of the mapping's selection table.")
                .sample(&labels, 1u64);
            for backend in &service.backends {
                backend_metrics(out, &service.mapping, backend);
            }
        }
    }

    fn status(&self) -> Value {
        let picture = self.picture();
        let drops: serde_json::Map<String, Value> = picture
            .drops
            .iter()
            .map(|(reason, count)| (reason.name().to_owned(), (*count).into()))
            .collect();
        let verdicts: serde_json::Map<String, Value> = VERDICTS
            .into_iter()
            .zip(picture.verdicts)
            .map(|(verdict, count)| (verdict.to_owned(), count.into()))
            .collect();
        let (sessions, half_open, limit) = picture.sessions;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "hashVersion": balance::hash::HASH_VERSION,
            "configurationGood": picture.configuration_good,
            "sessions": { "inUse": sessions, "halfOpen": half_open, "limit": limit },
            "packets": verdicts,
            "droppedPackets": drops,
            "mappings": picture.services.iter().map(service_status).collect::<Vec<_>>(),
        })
    }
}

/// What can become of a packet, in the order of the counters.
const VERDICTS: [&str; 4] = ["passed", "transmitted", "redirected", "dropped"];

fn backend_metrics(out: &mut Exposition, mapping: &str, backend: &BackendPicture) {
    let labels = [("mapping", mapping), ("backend", &backend.name)];
    out.gauge("lb_backend_up", "Whether the backend takes new flows.")
        .sample(&labels, u64::from(backend.alive));
    out.gauge("lb_backend_sessions", "The backend's sessions in use.")
        .sample(&labels, u64::from(backend.sessions));
    let traffic = &backend.traffic;
    out.counter("lb_backend_sessions_total", "Sessions opened with the backend.")
        .sample(&labels, traffic.sessions);
    for (direction, packets, octets) in [
        ("in", traffic.packets_in, traffic.octets_in),
        ("out", traffic.packets_out, traffic.octets_out),
    ] {
        let labels = [("mapping", mapping), ("backend", &backend.name), ("direction", direction)];
        out.counter("lb_backend_packets_total", "Packets to the backend, and from it.")
            .sample(&labels, packets);
        out.counter("lb_backend_bytes_total", "Octets of IP to the backend, and from it.")
            .sample(&labels, octets);
    }
}

fn service_status(service: &ServicePicture) -> Value {
    let backends: Vec<Value> = service
        .backends
        .iter()
        .map(|backend| {
            json!({
                "name": backend.name,
                "address": backend.address,
                "up": backend.alive,
                "lastFailure": backend.cause,
                "sessions": backend.sessions,
                "newSessions": backend.traffic.sessions,
                "packetsIn": backend.traffic.packets_in,
                "bytesIn": backend.traffic.octets_in,
                "packetsOut": backend.traffic.packets_out,
                "bytesOut": backend.traffic.octets_out,
            })
        })
        .collect();
    json!({
        "mapping": service.mapping,
        "service": service.service,
        "tableDigest": service.digest,
        "backends": backends,
    })
}
