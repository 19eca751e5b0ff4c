//! What services and backends are called: the resources, as the daemon reads them.

use crate::config::Config;
use crate::kernel::identity;
use crate::resources::Files;
use datapath::lb::layout::ServiceKey;
use lb_api::{NatLbMapping, NodeView};
use std::collections::HashMap;
use std::num::NonZeroU16;
use wire::Address;
use xdp::View;

/// A backend of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The mapping; empty if the resources name it no longer.
    pub mapping: String,
    /// Its name; empty as well.
    pub name: String,
    /// Its address, and port unless that is the client's.
    pub address: String,
}

impl Backend {
    /// No backend.
    pub fn nobody() -> Self {
        Self { mapping: String::new(), name: String::new(), address: String::new() }
    }

    /// Mapping and name, or the address of one that has no name any more.
    pub fn full(&self) -> String {
        if self.name.is_empty() {
            return self.address.clone();
        }
        format!("{}/{}", self.mapping, self.name)
    }
}

/// A service as the resources tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The mapping.
    pub mapping: String,
    /// Protocol, address and port.
    pub service: String,
    /// What the packet core knows it by.
    pub key: ServiceKey,
    /// Its backends, and the hashes of their names.
    pub backends: Vec<(u64, Backend)>,
}

/// The names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    services: Vec<Service>,
    backends: HashMap<u64, Backend>,
    /// Why there are none, if there are none.
    pub problem: Option<String>,
}

impl Names {
    /// Reads the resources; the last good ones where they are wrong.
    pub fn read(config: &Config) -> Self {
        let pools: Vec<_> = config.pools.iter().map(|pool| pool.addresses.clone()).collect();
        let node = NodeView { pools: &pools };
        let read = Files::read(&config.resources).and_then(|files| files.resources(&node));
        let kept = || {
            let state = config.state.as_ref()?;
            Files::kept(state).and_then(|files| files.resources(&node)).ok()
        };
        match read {
            Ok(resources) => Self::of(resources.mappings()),
            Err(cause) => {
                let names = kept().map(|resources| Self::of(resources.mappings()));
                Self { problem: Some(cause.to_string()), ..names.unwrap_or_default() }
            }
        }
    }

    /// The names of these mappings.
    pub fn of<'a>(mappings: impl Iterator<Item = &'a NatLbMapping>) -> Self {
        let services: Vec<Service> = mappings.map(service).collect();
        let backends = services.iter().flat_map(|service| service.backends.iter().cloned());
        Self { backends: backends.collect(), services, problem: None }
    }

    /// The services, in the order of their names.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The service of this key.
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.iter().find(|service| service.key == *key)
    }

    /// The service that a client's packet asks for: of its port, else of every port.
    pub fn asked(&self, address: Address, port: [u8; 2], protocol: u8) -> Option<&Service> {
        let key = ServiceKey { address, port, protocol, zero: 0, zero_too: 0 };
        self.service(&key).or_else(|| self.service(&ServiceKey { port: [0; 2], ..key }))
    }

    /// The backend that has this record.
    pub fn backend(&self, view: &View, id: u16) -> Backend {
        let name = view.shared.names.load(u32::from(id)).unwrap_or_default();
        if let Some(backend) = self.backends.get(&name) {
            return backend.clone();
        }
        let record = view.shared.backends.load(u32::from(id));
        let address = record.map(|record| place(record.address, record.port)).unwrap_or_default();
        Backend { mapping: String::new(), name: String::new(), address }
    }
}

fn service(mapping: &NatLbMapping) -> Service {
    let spec = &mapping.spec;
    let vip = spec.service.vip.get();
    let name = mapping.name();
    let mut backends: Vec<_> = spec
        .backends
        .iter()
        .map(|backend| {
            let port = backend.port.map_or(0, NonZeroU16::get);
            let address = Address::from(backend.address.get());
            let called = backend.name.to_string();
            let identity = identity(&name, &called, address, port);
            let address = place(address, port.to_be_bytes());
            (identity, Backend { mapping: name.clone(), name: called, address })
        })
        .collect();
    backends.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    let key = ServiceKey {
        address: Address::from(vip),
        port: spec.service.port.map_or(0, NonZeroU16::get).to_be_bytes(),
        protocol: spec.service.protocol.number(vip),
        zero: 0,
        zero_too: 0,
    };
    Service { mapping: name, service: spec.service.to_string(), key, backends }
}

/// An address and its port; without one, the address alone.
pub fn place(address: Address, port: [u8; 2]) -> String {
    match u16::from_be_bytes(port) {
        0 => address.to_string(),
        port => std::net::SocketAddr::new(address.into(), port).to_string(),
    }
}

/// A protocol's name, or its number.
pub fn protocol(number: u8) -> String {
    match number {
        wire::protocol::TCP => "tcp".to_owned(),
        wire::protocol::UDP => "udp".to_owned(),
        wire::protocol::ICMP => "icmp".to_owned(),
        wire::protocol::ICMPV6 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}
