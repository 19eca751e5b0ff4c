//! The control side: one loop over health, resources, routes, time and signals.
//!
//! ```text
//! resources ─┐
//! checks ────┼─> plan ──> kernel (maps)
//! routes ────┘              ^
//! monitor ──> generation ───┘       sweeper ──> census ──> status
//! ```

use crate::config::Config;
use crate::kernel::Kernel;
use crate::plan::{self, Plan, World};
use crate::resources::{Error, Files};
use crate::status::{BackendPicture, Picture, ServicePicture, Status};
use crate::sweeper::Census;
use crate::vitality::Vitality;
use datapath::lb::DropReason;
use datapath::lb::layout::Settings;
use lb_api::{Backend, NatLbMapping, NodeView, Resources};
use netio::links::Link;
use netio::netlink::Netlink;
use probe::checks::{Change, Checks, Event};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tracing::{error, info, warn};
use wire::Address;

/// What the control loop owns.
pub struct Controller {
    config: Config,
    resources: Resources,
    checks: Checks,
    vitality: Vitality,
    kernel: Kernel,
    netlink: Netlink,
    links: Vec<Link>,
    plan: Plan,
    census: Arc<Census>,
    status: Arc<Status>,
    configuration_good: bool,
    /// The plan that the packet core has not taken whole.
    behind: Option<Plan>,
}

impl Controller {
    /// A node that serves nothing yet.
    pub fn new(
        config: Config,
        checks: Checks,
        kernel: Kernel,
        netlink: Netlink,
        links: Vec<Link>,
        status: Arc<Status>,
    ) -> Self {
        Self {
            config,
            resources: Resources::default(),
            checks,
            vitality: Vitality::default(),
            kernel,
            netlink,
            links,
            plan: Plan::default(),
            census: Arc::default(),
            status,
            configuration_good: false,
            behind: None,
        }
    }

    /// Reads the directory of resources. All of it takes effect, or nothing does and the log says
    /// why.
    pub fn reload(&mut self) {
        let directory = self.config.resources.clone();
        let read =
            Files::read(&directory).and_then(|files| Ok((self.resources_of(&files)?, files)));
        match read {
            Ok((resources, files)) => {
                if let Some(state) = &self.config.state
                    && let Err(cause) = files.keep(state)
                {
                    warn!(state = %state.display(), %cause, "the last good resources are not kept");
                }
                self.adopt(resources);
                let (mappings, files) = (self.resources.placed().len(), files.len());
                info!(directory = %directory.display(), files, mappings, "resources read");
            }
            Err(refused) => {
                log_refusal(&refused);
                self.configuration_good = false;
                error!(
                    directory = %directory.display(),
                    "resources refused: what was in force stays"
                );
                self.publish();
            }
        }
    }

    /// At the start: reads the directory, or what was kept of it where it cannot be read.
    pub fn start(&mut self) {
        self.reload();
        let Some(state) = self.config.state.clone().filter(|_| !self.configuration_good) else {
            return;
        };
        match Files::kept(&state).and_then(|files| self.resources_of(&files)) {
            Ok(resources) => {
                warn!(state = %state.display(), "serving the last good resources");
                self.adopt(resources);
                self.configuration_good = false;
            }
            Err(cause) => log_refusal(&cause),
        }
        self.publish();
    }

    fn resources_of(&self, files: &Files) -> Result<Resources, Error> {
        let pools: Vec<_> = self.config.pools.iter().map(|pool| pool.addresses.clone()).collect();
        files.resources(&NodeView { pools: &pools })
    }

    /// Puts resources that are right into force.
    fn adopt(&mut self, resources: Resources) {
        self.resources = resources;
        self.configuration_good = true;
        if let Err(cause) = self.vitality.check(self.resources.mappings(), &mut self.checks) {
            error!(%cause, "backends are not checked");
        }
        self.warn_of_kernel_addresses();
        self.manage_neighbours();
        self.update();
    }

    /// Says which virtual addresses the host has, too: it would answer for them itself.
    fn warn_of_kernel_addresses(&mut self) {
        for mapping in self.resources.mappings() {
            let vip = mapping.spec.service.vip.get();
            if matches!(self.netlink.way(vip), Ok(Some(way)) if way.local) {
                warn!(
                    mapping = mapping.name(), %vip,
                    "the virtual address is an address of this host: take it off its interface"
                );
            }
        }
    }

    /// Has the kernel know the next hop of every backend at all times.
    fn manage_neighbours(&mut self) {
        let backends = self.resources.mappings().flat_map(|mapping| &mapping.spec.backends);
        let mut addresses: Vec<IpAddr> = backends.map(|backend| backend.address.get()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        for address in addresses {
            match self.netlink.way(address) {
                Ok(Some(way)) if way.local => {
                    warn!(backend = %address, "the backend is an address of this node");
                }
                Ok(Some(way)) => {
                    if !self.links.iter().any(|link| link.index == way.link) {
                        error!(
                            backend = %address,
                            "the backend is reached by an interface that is not among \
                             `interfaces`: its answers would be lost"
                        );
                    }
                    let hop = way.via.unwrap_or(address);
                    if let Err(cause) = self.netlink.manage_neighbour(way.link, hop) {
                        warn!(neighbour = %hop, %cause, "the neighbour is not kept fresh");
                    }
                }
                Ok(None) => warn!(backend = %address, "no route to the backend"),
                Err(cause) => warn!(backend = %address, %cause, "the route is not known"),
            }
        }
    }

    /// The next change of a backend's health. Cancel-safe.
    pub async fn next_change(&mut self) -> Change {
        self.checks.next_change().await
    }

    /// Logs a transition once, and lets the backend take part or takes it away.
    pub fn handle_change(&mut self, change: &Change) {
        if let (Event::State(transition), Some((mapping, backend))) =
            (&change.event, self.vitality.name(change.id))
        {
            let cause = transition.cause.as_ref().map(ToString::to_string);
            match transition.to {
                health::State::Up => info!(mapping, backend, state = "up", "backend came up"),
                state => warn!(mapping, backend, state = %state, cause, "backend went down"),
            }
        }
        self.update();
    }

    /// Compiles the plan anew, and puts it into the kernel where it differs.
    fn update(&mut self) {
        let world = Known {
            vitality: &self.vitality,
            checks: &self.checks,
            kernel: &self.kernel,
            sources: sources(&self.resources, &mut self.netlink),
        };
        let plan = plan::plan(self.resources.mappings(), &self.config, &world);
        if self.behind.is_some() || plan != self.plan {
            log_silenced(self.behind.as_ref().unwrap_or(&self.plan), &plan);
            self.install(plan);
        }
        self.publish();
    }

    /// Looks at the interfaces anew: their Ethernet and IP addresses may be others.
    fn look_at_links(&mut self) {
        for link in &mut self.links {
            let Ok(now) = self.netlink.link(&link.name) else { continue };
            if now.index != link.index {
                error!(
                    interface = link.name,
                    "the interface is another one now: start lb-node anew"
                );
                continue;
            }
            if (now.mac, &now.addresses) == (link.mac, &link.addresses) {
                continue;
            }
            if let Err(cause) = self.kernel.add_interface(&now) {
                error!(interface = link.name, %cause, "the interface is not served");
            }
            *link = now;
        }
    }

    /// Puts a plan into the kernel. One that does not fit is tried again after the next sweep:
    /// tables that it replaces rest for a while before there is room for others.
    fn install(&mut self, plan: Plan) {
        let again = self.behind.is_some();
        match self.kernel.apply(&plan, now()) {
            Ok(()) => {
                if again {
                    info!("the packet core has taken the resources");
                }
                (self.plan, self.behind) = (plan, None);
            }
            Err(cause) => {
                if !again {
                    error!(%cause, "the packet core does not take the resources yet");
                }
                self.behind = Some(plan);
            }
        }
    }

    /// Routes, neighbours or links have changed: the packet core looks them up anew.
    pub fn routes_changed(&mut self) {
        self.look_at_links();
        let generation = std::mem::offset_of!(Settings, generation);
        let shared = Arc::clone(&self.kernel.core().shared);
        if let Some(generation) = shared.settings.half_word(0, generation) {
            // This loop alone writes it; 0 is that of no process.
            let next = generation.load(Ordering::Relaxed).checked_add(1).unwrap_or(1);
            generation.store(next, Ordering::Release);
        }
        self.update();
    }

    /// The packet core needs the next hop towards this destination.
    pub fn want_neighbour(&mut self, destination: Address) {
        let address = IpAddr::from(destination);
        let found = self.netlink.way(address).and_then(|way| match way {
            Some(way) => self.netlink.use_neighbour(way.link, way.via.unwrap_or(address)),
            None => Ok(()),
        });
        if let Err(cause) = found {
            warn!(%destination, %cause, "the next hop is not looked for");
        }
    }

    /// A sweep has ended: ends transitions that are due, and shows what it found.
    pub fn swept(&mut self, census: Arc<Census>) {
        self.kernel.reap(&census, now());
        self.census = census;
        if let Err(cause) = self.kernel.end_transitions(self.config.transition, now()) {
            warn!(%cause, "a transition does not end");
        }
        if let Some(plan) = self.behind.clone() {
            self.install(plan);
        }
        self.publish();
    }

    /// Writes the statistics to the log.
    pub fn log_statistics(&self) {
        self.status.log();
    }

    fn publish(&mut self) {
        let core = self.kernel.core();
        let drops =
            DropReason::ALL.iter().map(|reason| (*reason, core.drops(*reason).unwrap_or(0)));
        let drops = drops.collect();
        let verdicts = core.verdicts().unwrap_or_default();
        let capacity = core.shared.sessions.len().saturating_sub(1);
        let services = self.resources.mappings().filter_map(|mapping| self.picture_of(mapping));
        let picture = Picture {
            services: services.collect(),
            drops,
            verdicts,
            sessions: (self.census.sessions, self.census.half_open, capacity),
            configuration_good: self.configuration_good && self.behind.is_none(),
        };
        self.status.publish(picture);
    }

    fn picture_of(&self, mapping: &NatLbMapping) -> Option<ServicePicture> {
        let name = mapping.name();
        let service = self.plan.services.get(&name)?;
        let backends = service.backends.iter().map(|backend| {
            let id = self.kernel.backend_id(&name, backend);
            let configured =
                mapping.spec.backends.iter().find(|other| other.name.to_string() == backend.name);
            let check = configured.and_then(|backend| self.vitality.id(mapping, backend));
            let status = check.and_then(|id| self.checks.status(id));
            BackendPicture {
                name: backend.name.clone(),
                address: std::net::SocketAddr::new(backend.address.into(), backend.port)
                    .to_string(),
                alive: backend.alive,
                cause: status.and_then(|status| status.last_cause).map(ToString::to_string),
                traffic: id.map(|id| self.kernel.traffic(id)).unwrap_or_default(),
                sessions: id.and_then(|id| self.census.active.get(&id).copied()).unwrap_or(0),
            }
        });
        Some(ServicePicture {
            mapping: name.clone(),
            service: mapping.spec.service.to_string(),
            digest: service.digest.iter().map(|octet| format!("{octet:02x}")).collect(),
            backends: backends.collect(),
        })
    }
}

/// What is known when a plan is made.
struct Known<'a> {
    vitality: &'a Vitality,
    checks: &'a Checks,
    kernel: &'a Kernel,
    sources: HashMap<IpAddr, IpAddr>,
}

impl World for Known<'_> {
    fn is_alive(&self, mapping: &NatLbMapping, backend: &Backend) -> bool {
        let served = || self.kernel.served(&mapping.name(), backend);
        self.vitality.is_alive(mapping, backend, self.checks, served)
    }

    fn source_towards(&self, backend: IpAddr) -> Option<IpAddr> {
        self.sources.get(&backend).copied()
    }
}

/// The node's own address towards each backend.
fn sources(resources: &Resources, netlink: &mut Netlink) -> HashMap<IpAddr, IpAddr> {
    let mut sources = HashMap::new();
    for backend in resources.mappings().flat_map(|mapping| &mapping.spec.backends) {
        let address = backend.address.get();
        if let std::collections::hash_map::Entry::Vacant(place) = sources.entry(address)
            && let Ok(Some(way)) = netlink.way(address)
            && let Some(source) = way.source
        {
            place.insert(source);
        }
    }
    sources
}

/// Says which services have lost their last backend, or got one back.
fn log_silenced(old: &Plan, new: &Plan) {
    for (name, service) in &new.services {
        let before = old.services.get(name).is_some_and(|service| !service.rows.is_empty());
        match (before, service.rows.is_empty()) {
            (true, true) => error!(mapping = %name, "no backend is left: new flows are dropped"),
            (false, false) => info!(mapping = %name, "serving"),
            _ => {}
        }
    }
}

fn log_refusal(refused: &Error) {
    match refused {
        Error::Problems(problems) => {
            problems.to_string().lines().for_each(|line| error!("{line}"));
        }
        other => error!("{other}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the control loop is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
