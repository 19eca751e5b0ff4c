//! The kernel's build and the host's build of the packet core, held against each other.
//!
//! The same frames go through the programs in the kernel (`BPF_PROG_TEST_RUN`) and through the same
//! source on the host, with equal tables: verdict, octets and the counter of the drop reason must be
//! equal after every frame; verdict counters, traffic, sessions and the words of the index after
//! every round. Frames come from a fixed seed; every cell of (stage, verdict, reason) that can be
//! reached must have seen a thousand of them.
//!
//! Not compared: where the kernel redirects to, but for the Ethernet addresses; a session's time of
//! last use, which is of two clocks.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod cells;
mod generator;
mod lab;
mod packets;
mod scenarios;
mod world;

use cells::Cells;
use datapath::SliceFrame;
use datapath::lb::host::HostTables;
use datapath::lb::layout::{Hop, Row, Session, Traffic, backend_flag, session_state};
use datapath::lb::{self, DropReason, Next, Scratch, Stage, Verdict};
use generator::{Generator, Ports, Sent};
use lab::Node;
use std::collections::HashMap;
use testkit::lab::Lab;
use wire::Address;
use wire::protocol::{TCP, UDP};
use world::{Both, Round, SIZES, VIPS, port};
use xdp::Core;

const SEED: u64 = 0xca57_e110;
const FRAMES_A_ROUND: u32 = 10_000;
const ROUNDS: u32 = 64;
/// Room before a frame, as the kernel's test run gives it.
const HEADROOM: usize = 256;

#[test]
fn the_kernels_build_and_the_hosts_do_the_same() {
    let Some(lab) = Lab::or_skip("differential") else { return };
    let node = Node::new(&lab).unwrap();
    let faults = node.host.run(|| {
        let mut comparison = Comparison::new(&node);
        for number in 0..ROUNDS {
            comparison.round(round(number));
        }
        println!("{} frames, seed {SEED:#x}", FRAMES_A_ROUND * ROUNDS);
        comparison.cells.report()
    });
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Rounds with room enough; with few half-open sessions; with few sessions; with a full index.
fn round(number: u32) -> Round {
    let roomy = Round { number, free: SIZES.sessions - 1, taken: 0, half_open_limit: u32::MAX };
    match number % 8 {
        1 => Round { half_open_limit: 100, ..roomy },
        3 => Round { free: 40, ..roomy },
        5 => Round { taken: 7, ..roomy },
        7 => Round { taken: 8, ..roomy },
        _ => roomy,
    }
}

/// Both builds, and what they have counted.
struct Comparison<'a> {
    node: &'a Node,
    core: Core,
    scratch: Scratch,
    generator: Generator,
    cells: Cells,
    verdicts: [u64; 4],
    drops: HashMap<usize, u64>,
    /// What the host's build has counted in the rounds before.
    traffic: Vec<Traffic>,
}

impl<'a> Comparison<'a> {
    fn new(node: &'a Node) -> Self {
        let Node { front, back, dim, .. } = node;
        let ports = Ports { front: front.clone(), back: back.clone(), dim: dim.clone() };
        Self {
            node,
            core: Core::load(&SIZES, None).unwrap(),
            scratch: Scratch::EMPTY,
            generator: Generator::new(SEED, ports),
            cells: Cells::default(),
            verdicts: [0; 4],
            drops: HashMap::new(),
            traffic: vec![Traffic::default(); 64],
        }
    }

    fn round(&mut self, round: Round) {
        let mut tables = world::tables(self.node, round);
        lab::neighbour(lab::NEAR4[0], &self.node.back.name, lab::BACKEND_MAC).unwrap();
        world::copy(&tables, &mut self.core);
        self.generator.forget();
        // By the interface that does not forward, there is no way to anywhere.
        let mut dimmed: Routes = tables.routes.keys().map(|to| (*to, NO_FORWARDING)).collect();
        for number in 0..FRAMES_A_ROUND {
            self.change(&mut tables, number);
            let sent = self.generator.next();
            let is_dim = sent.port.index == self.node.dim.index;
            if is_dim {
                std::mem::swap(&mut tables.routes, &mut dimmed);
            }
            self.frame(&mut tables, &sent);
            if is_dim {
                std::mem::swap(&mut tables.routes, &mut dimmed);
            }
        }
        self.compare_tables(&tables);
        self.compare_counters(&tables);
    }

    /// What happens to the tables between two frames.
    fn change(&mut self, tables: &mut HostTables, number: u32) {
        let mut both = Both { tables, core: &mut self.core };
        match number % 1000 {
            // The first backend of either family leaves, and comes back.
            200 => {
                set_rows(&mut both, Row::new(1, 0, true));
                let flags = [backend_flag::GONE, backend_flag::GONE | backend_flag::RESET];
                let flags = flags[usize::from(number % 2000 > 1000)];
                (0..4).step_by(2).for_each(|id| both.set_flags(id, flags));
            }
            500 => {
                (0..4).step_by(2).for_each(|id| both.set_flags(id, 0));
                set_rows(&mut both, Row::new(0, 1, true));
            }
            800 => set_rows(&mut both, Row::new(0, 1, false)),
            900 => both.routes_changed(),
            _ => {}
        }
        if number == FRAMES_A_ROUND / 2 {
            let back = &self.node.back;
            let moved = [2, 0, 0, 0, 0, 0x22];
            lab::neighbour(lab::NEAR4[1], &back.name, moved).unwrap();
            let to = lab::address(lab::NEAR4[1]);
            both.tables.routes.insert(to, Ok(lab::hop(back, moved)));
            both.routes_changed();
        }
        if number == FRAMES_A_ROUND / 4 * 3 {
            lab::forget(lab::NEAR4[0], &self.node.back.name).unwrap();
            lab::neighbour(lab::NEAR4[1], &self.node.back.name, lab::BACKEND_MAC).unwrap();
            let routes = &mut both.tables.routes;
            routes.insert(lab::address(lab::NEAR4[0]), Err(DropReason::NoNeighbour));
            let again = Ok(lab::hop(&self.node.back, lab::BACKEND_MAC));
            routes.insert(lab::address(lab::NEAR4[1]), again);
            both.routes_changed();
        }
    }

    /// One frame through both builds.
    fn frame(&mut self, tables: &mut HostTables, sent: &Sent) {
        tables.ingress = sent.port.index;
        let (action, kernel) = self.core.test_run(&sent.frame, sent.port.index).unwrap();
        let mut buffer = vec![0; HEADROOM];
        buffer.extend(&sent.frame);
        let end = buffer.len();
        let mut frame = SliceFrame::new(&mut buffer, HEADROOM, end).unwrap();
        let (stage, verdict) = decide(&mut frame, tables, &mut self.scratch);
        let host = frame.octets();
        let what = || format!("{:02x?}\nby {} in {stage:?}", sent.frame, sent.port.name);
        let is_equal = action == action_of(verdict);
        assert!(is_equal, "{verdict:?}, kernel {action}, {:?}, of {}", self.differing(), what());
        assert_eq!(kernel, host, "{verdict:?} of {}", what());
        self.cells.count(stage, verdict);
        self.verdicts[place_of(verdict)] += 1;
        match verdict {
            Verdict::Drop(reason) | Verdict::Answer(reason) => {
                let count = self.drops.entry(reason.index()).or_default();
                *count += 1;
                let is_counted = self.core.drops(reason).unwrap() == *count;
                assert!(is_counted, "{reason:?}, {:?}, of {}", self.differing(), what());
            }
            Verdict::Transmit | Verdict::Redirect(_) => self.generator.went_on(host),
            Verdict::Pass => {}
        }
    }

    /// Every reason that the two builds have counted differently: the kernel's count, the host's.
    fn differing(&self) -> Vec<(DropReason, u64, u64)> {
        let counts = DropReason::ALL.iter().map(|reason| {
            let host = self.drops.get(&reason.index()).copied().unwrap_or(0);
            (*reason, self.core.drops(*reason).unwrap(), host)
        });
        counts.filter(|(_, kernel, host)| kernel != host).collect()
    }

    /// Sessions, index and levels.
    fn compare_tables(&self, tables: &HostTables) {
        let kernel = (0..SIZES.sessions).filter_map(|at| self.core.shared.sessions.load(at));
        let kernel: Vec<Session> = kernel
            .filter(|session| session.state & session_state::LIVE != 0)
            .map(without_time)
            .collect();
        let host: Vec<Session> = tables.sessions().into_iter().map(without_time).collect();
        assert_eq!(kernel.len(), host.len());
        for (kernel, host) in kernel.iter().zip(&host) {
            assert_eq!(kernel, host);
        }
        for (host, at) in tables.index().into_iter().zip(0..) {
            assert_eq!(self.core.shared.index.load(at), Some(host), "bucket {at}");
        }
        let levels = self.core.shared.levels.load(0).unwrap();
        assert_eq!(levels.half_open, tables.half_open());
        assert_eq!(levels.freed - levels.taken, u64::try_from(tables.free()).unwrap());
    }

    /// Verdicts, drops of every reason, and traffic of every backend.
    fn compare_counters(&mut self, tables: &HostTables) {
        assert_eq!(self.core.verdicts().unwrap(), self.verdicts);
        for reason in DropReason::ALL {
            let host = self.drops.get(&reason.index()).copied().unwrap_or(0);
            assert_eq!(self.core.drops(*reason).unwrap(), host, "{reason:?}");
        }
        for (sum, id) in self.traffic.iter_mut().zip(0..) {
            let now = tables.traffic(id);
            sum.packets_in += now.packets_in;
            sum.octets_in += now.octets_in;
            sum.packets_out += now.packets_out;
            sum.octets_out += now.octets_out;
            sum.sessions += now.sessions;
            let kernel = self.core.traffic.get(&u32::from(id), 0).unwrap();
            let total = |of: fn(&Traffic) -> u64| kernel.iter().map(|one| of(&one.0)).sum();
            let kernel = Traffic {
                packets_in: total(|traffic| traffic.packets_in),
                octets_in: total(|traffic| traffic.octets_in),
                packets_out: total(|traffic| traffic.packets_out),
                octets_out: total(|traffic| traffic.octets_out),
                sessions: total(|traffic| traffic.sessions),
            };
            assert_eq!(kernel, *sum, "backend {id}");
        }
    }
}

type Routes = HashMap<Address, Result<Hop, DropReason>>;

const NO_FORWARDING: Result<Hop, DropReason> = Err(DropReason::ForwardingDisabled);

/// Rows of all services that change.
fn set_rows(both: &mut Both<'_>, row: Row) {
    for vip in VIPS {
        for protocol in [TCP, UDP] {
            for port in [port::MOVING, port::MOVING_TWICE] {
                both.set_rows(&world::key(vip, port, protocol), row);
            }
        }
    }
}

/// The host's shell, which also tells the last stage.
fn decide(frame: &mut SliceFrame, tables: &HostTables, scratch: &mut Scratch) -> (Stage, Verdict) {
    let mut stage = Stage::Enter;
    for _ in 0..=lb::MAX_STAGES {
        match lb::run(stage, frame, tables, scratch) {
            Next::Done(verdict) => return (stage, verdict),
            Next::Stage(next) => stage = next,
        }
    }
    (stage, Verdict::Drop(DropReason::Internal))
}

/// The kernel's name for the verdict (`enum xdp_action`).
fn action_of(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Drop(_) => 1,
        Verdict::Pass => 2,
        Verdict::Transmit | Verdict::Answer(_) => 3,
        Verdict::Redirect(_) => 4,
    }
}

/// The place of the verdict's counter.
fn place_of(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Transmit | Verdict::Answer(_) => 1,
        Verdict::Redirect(_) => 2,
        Verdict::Drop(_) => 3,
    }
}

fn without_time(session: Session) -> Session {
    Session { last: 0, ..session }
}
