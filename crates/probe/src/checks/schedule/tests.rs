//! Sharing, spread, bounds and stalls; virtual time.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use health::{Policy, State, Transition};
use proptest::prelude::*;

use super::super::{Kind, MAX_IN_FLIGHT};
use super::*;

mod replaced;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Somewhere to count virtual time from.
#[expect(clippy::disallowed_methods, reason = "an origin; no test depends on its value")]
fn origin() -> Instant {
    Instant::now()
}

/// Every 2 s, 1 s to answer.
fn policy(rise: u32, fall: u32) -> Policy {
    let count = |n| NonZeroU32::new(n).unwrap();
    Policy { interval: ms(2000), timeout: ms(1000), rise: count(rise), fall: count(fall) }
}

fn check(last: u32) -> Check {
    let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + last));
    Check { address, port: 80, kind: Kind::Tcp, policy: policy(1, 1) }
}

fn checks(count: u32) -> Vec<(CheckId, Check)> {
    (0..count).map(|i| (CheckId(i.into()), check(i))).collect()
}

fn answer() -> Outcome {
    Outcome::Failure(Cause::Answer("connection refused".into()))
}

fn silence() -> Outcome {
    Outcome::Failure(Cause::Error("no route to host".into()))
}

/// A schedule and the virtual clock.
struct Bench {
    schedule: Schedule,
    now: Instant,
    start: Instant,
}

impl Bench {
    fn new(limit: usize, checks: Vec<(CheckId, Check)>) -> Self {
        let start = origin();
        let mut bench = Self { schedule: Schedule::new(limit), now: start, start };
        bench.set(checks);
        bench
    }

    /// One check whose first probe is out.
    fn probing(check: Check) -> (Self, FlightId) {
        let mut bench = Self::new(MAX_IN_FLIGHT, vec![(CheckId(0), check)]);
        let flight = bench.run_to_start();
        (bench, flight)
    }

    fn set(&mut self, checks: Vec<(CheckId, Check)>) {
        self.schedule.replace(checks, self.now).unwrap();
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.schedule.poll_action()).collect()
    }

    fn changes(&mut self) -> Vec<(u64, Event)> {
        std::iter::from_fn(|| self.schedule.poll_change()).map(|c| (c.id.0, c.event)).collect()
    }

    /// States that were entered.
    fn states(&mut self) -> Vec<(u64, State)> {
        let to = |(id, event)| match event {
            Event::State(Transition { to, .. }) => Some((id, to)),
            Event::Silent | Event::Answering => None,
        };
        self.changes().into_iter().filter_map(to).collect()
    }

    /// Fires the next timer on time.
    fn advance(&mut self) -> Vec<Action> {
        self.now = self.schedule.poll_timeout().unwrap().max(self.now);
        self.schedule.handle_timeout(self.now);
        self.actions()
    }

    /// Fires all timers up to then on time; the actions with their times.
    fn run(&mut self, duration: Duration) -> Vec<(Duration, Action)> {
        let end = self.now + duration;
        let mut taken = Vec::new();
        while self.schedule.poll_timeout().is_some_and(|due| due <= end) {
            let actions = self.advance();
            taken.extend(actions.into_iter().map(|action| (self.now - self.start, action)));
        }
        self.now = end;
        taken
    }

    /// Nothing runs for so long.
    fn stall(&mut self, duration: Duration) {
        self.now += duration;
        self.schedule.handle_timeout(self.now);
    }

    fn run_to_start(&mut self) -> FlightId {
        loop {
            let starts = started(&self.advance());
            if let [flight] = starts[..] {
                return flight;
            }
            assert!(starts.is_empty(), "one check at a time");
        }
    }

    fn report(&mut self, flight: FlightId, report: Report) {
        self.schedule.handle_report(flight, report, self.now);
    }

    fn finish(&mut self, flight: FlightId, outcome: Outcome) {
        self.report(flight, Report::Settled(outcome));
        self.report(flight, Report::Closed);
    }

    fn status(&self, id: u64) -> Status<'_> {
        self.schedule.status(CheckId(id)).unwrap()
    }

    fn cause(&self, id: u64) -> String {
        self.status(id).last_cause.map(ToString::to_string).unwrap_or_default()
    }
}

fn started(actions: &[Action]) -> Vec<FlightId> {
    let flight = |action: &Action| match action {
        Action::Start(flight, _) => Some(*flight),
        Action::Cancel(_) => None,
    };
    actions.iter().filter_map(flight).collect()
}

#[test]
fn thresholds_in_a_row_decide() {
    let (mut bench, mut flight) = Bench::probing(Check { policy: policy(3, 2), ..check(0) });
    for (outcome, state) in [
        (Outcome::Success, State::Unproven),
        (Outcome::Success, State::Unproven),
        (answer(), State::Unproven),
        (Outcome::Success, State::Unproven),
        (Outcome::Success, State::Unproven),
        (Outcome::Success, State::Up),
        (silence(), State::Up),
        (Outcome::Success, State::Up),
        (silence(), State::Up),
        (answer(), State::Down),
    ] {
        bench.finish(flight, outcome);
        assert_eq!(bench.status(0).state, state);
        flight = bench.run_to_start();
    }
    assert_eq!(bench.states(), [(0, State::Up), (0, State::Down)]);
    assert_eq!(bench.status(0).last_probe, Some(bench.now));
}

#[test]
fn equal_checks_share_one_probe_and_all_names_get_the_change() {
    // An echo has no port, so these two are one check.
    let icmp = |port| Check { port, kind: Kind::Icmp, ..check(0) };
    let (other, same) = (icmp(81), icmp(82));
    let ids = [7, 3, 5, 6].map(CheckId);
    let set = ids.into_iter().zip([check(0), check(0), other, same]).collect();
    let mut bench = Bench::new(MAX_IN_FLIGHT, set);
    let flights = bench.run(ms(100)).into_iter().map(|(_, action)| action).collect::<Vec<_>>();
    let flights = started(&flights);
    assert_eq!(flights.len(), 2, "four names, two checks");
    for flight in flights {
        bench.finish(flight, Outcome::Success);
    }
    let mut states = bench.states();
    states.sort_by_key(|(id, _)| *id);
    assert_eq!(states, [3, 5, 6, 7].map(|id| (id, State::Up)));
    assert_eq!(bench.schedule.statuses().count(), 4);
}

#[test]
fn timeout_tells_whether_a_handshake_was_an_answer() {
    for (connected, cause, silent) in
        [(false, "timeout after 1s", true), (true, "timeout after 1s, though connected", false)]
    {
        let (mut bench, flight) = Bench::probing(check(0));
        if connected {
            bench.report(flight, Report::Connected);
        }
        let actions = bench.run(ms(1000));
        assert_eq!(actions, [(bench.now - bench.start, Action::Cancel(flight))]);
        assert_eq!((bench.cause(0).as_str(), bench.status(0).silent), (cause, silent));
        bench.finish(flight, Outcome::Success);
        assert_eq!(bench.status(0).successes, 0, "too late");
    }
}

#[test]
fn silence_and_its_end_are_told_without_a_change_of_state() {
    let (mut bench, mut flight) = Bench::probing(check(0));
    for (outcome, events) in [
        (answer(), 1),
        (silence(), 1),
        (silence(), 0),
        (answer(), 1),
        (silence(), 1),
        (Outcome::Success, 2),
        (silence(), 2),
        (Outcome::Void, 0),
    ] {
        bench.finish(flight, outcome.clone());
        let changes = bench.changes();
        assert_eq!(changes.len(), events, "{outcome:?}: {changes:?}");
        flight = bench.run_to_start();
    }
    assert!(bench.status(0).silent, "a void probe tells nothing");
}

#[test]
fn flight_that_drains_is_cut_off_at_its_deadline_and_counted_once() {
    let (mut bench, flight) = Bench::probing(check(0));
    bench.report(flight, Report::Settled(Outcome::Success));
    bench.report(flight, Report::Settled(answer()));
    assert_eq!(bench.run(ms(1000)).len(), 1, "the socket is closed");
    assert_eq!(bench.states(), [(0, State::Up)]);
    assert_eq!((bench.status(0).successes, bench.schedule.flights.len()), (1, 0));
    assert!(bench.schedule.deadlines.is_empty());
}

#[test]
fn flight_that_closes_without_a_result_is_void() {
    let (mut bench, flight) = Bench::probing(check(0));
    bench.report(flight, Report::Closed);
    assert_eq!((bench.changes(), bench.schedule.voided()), (vec![], 1));
    bench.run_to_start();
    assert!(bench.now > bench.start + ms(2000), "the next slot");
}

#[test]
fn probe_waits_for_a_flight_and_has_its_whole_timeout_then() {
    let mut bench = Bench::new(2, checks(3));
    let actions = bench.run(ms(30));
    assert_eq!(actions.len(), 2, "two flights, two starts");
    // Both are silent until their deadlines; the third starts as the first ends.
    let later = bench.run(ms(1000));
    let (at, Action::Start(third, _)) = &later[1] else { panic!("{later:?}") };
    assert_eq!(*at, actions[0].0 + ms(1000));
    bench.run(ms(900));
    bench.finish(*third, Outcome::Success);
    let mut states: Vec<_> = bench.states().into_iter().map(|(_, state)| state).collect();
    states.sort_by_key(|state| *state == State::Up);
    assert_eq!(states, [State::Down, State::Down, State::Up]);
    assert_eq!((bench.schedule.voided(), bench.schedule.stalled), (0, ms(0)));
}

#[test]
fn backend_that_never_closes_costs_no_other_a_probe() {
    let mut bench = Bench::new(2, checks(3));
    let first = started(&bench.run(ms(30)).into_iter().map(|(_, it)| it).collect::<Vec<_>>());
    bench.report(first[1], Report::Settled(Outcome::Success));
    let next = bench.advance();
    assert_eq!(next[0], Action::Cancel(first[1]));
    assert_eq!((next.len(), bench.schedule.flights.len()), (2, 2));
    bench.report(first[0], Report::Settled(Outcome::Success));
    assert_eq!(bench.states().len(), 2, "the one that was not settled went on");
}

#[test]
fn silent_backends_never_take_more_than_the_limit() {
    let mut bench = Bench::new(MAX_IN_FLIGHT, checks(3 * 4096));
    let mut most = 0;
    let end = bench.start + ms(8000);
    while bench.now < end {
        bench.advance();
        most = most.max(bench.schedule.flights.len());
    }
    assert_eq!(most, MAX_IN_FLIGHT);
    assert_eq!(bench.schedule.groups.values().filter(|g| g.last_probe.is_none()).count(), 0);
}

#[test]
fn stall_of_more_than_half_the_timeout_voids_the_probe() {
    for (stalls, void) in [
        (vec![ms(1300)], true),
        (vec![ms(560)], true),
        (vec![ms(300), ms(400)], true),
        (vec![ms(300)], false),
        (vec![ms(40); 10], false),
    ] {
        let (mut bench, _) = Bench::probing(check(0));
        for stall in &stalls {
            bench.stall(*stall);
        }
        let flights_end = bench.start + ms(1990);
        bench.run(flights_end.saturating_duration_since(bench.now));
        assert_eq!(bench.schedule.voided(), u64::from(void), "{stalls:?}");
        let failed = bench.status(0).state == State::Down;
        assert_eq!(failed, !void, "{stalls:?}");
    }
}

#[test]
fn result_read_before_the_timer_fires_counts_after_a_stall() {
    let (mut bench, flight) = Bench::probing(check(0));
    bench.now += ms(30_000);
    bench.finish(flight, Outcome::Success);
    bench.schedule.handle_timeout(bench.now);
    assert_eq!((bench.states(), bench.schedule.voided()), (vec![(0, State::Up)], 0));
}

#[test]
fn stall_before_a_probe_does_not_excuse_it() {
    let (mut bench, flight) = Bench::probing(check(0));
    bench.finish(flight, Outcome::Success);
    bench.stall(ms(10_000));
    assert_eq!(started(&bench.actions()).len(), 1, "missed slots are skipped");
    bench.run(ms(1000));
    assert_eq!((bench.status(0).state, bench.schedule.voided()), (State::Down, 0));
}

#[test]
fn starved_prober_changes_no_state() {
    let mut bench = Bench::new(MAX_IN_FLIGHT, checks(100));
    for (_, action) in bench.run(ms(1000)) {
        let Action::Start(flight, _) = action else { panic!("{action:?}") };
        bench.finish(flight, Outcome::Success);
    }
    assert_eq!(bench.states().len(), 100);
    // Two milliseconds in a hundred, ten seconds long, and nothing is answered.
    for _ in 0..100 {
        bench.stall(ms(98));
        bench.stall(ms(2));
    }
    assert_eq!(bench.changes(), []);
    assert!(bench.schedule.voided() >= 300, "{}", bench.schedule.voided());
}

#[test]
fn first_probes_are_spread_over_the_interval_and_always_the_same() {
    let starts = |count| {
        let set: Vec<_> = checks(count)
            .into_iter()
            .map(|(id, mut check)| {
                check.policy.interval = ms(5000);
                (id, check)
            })
            .collect();
        let mut bench = Bench::new(MAX_IN_FLIGHT, set);
        let actions = bench.run(ms(5000)).into_iter();
        let start = |(at, action)| match action {
            Action::Start(_, check) => Some((at, check.address)),
            Action::Cancel(_) => None,
        };
        actions.filter_map(start).collect::<Vec<_>>()
    };
    let first = starts(500);
    assert_eq!(first.len(), 500);
    assert_eq!(first, starts(500));
    let mut bins = [0; 50];
    for (at, _) in first {
        bins[usize::try_from(at.as_millis() / 100).unwrap()] += 1;
    }
    assert!(bins.iter().all(|&count| count <= 25), "no more than 5 % in 100 ms: {bins:?}");
    assert!(starts(4).iter().all(|(at, _)| *at < ms(40)), "a few do not wait");
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Report(u64, Report),
    Set(Vec<(u64, u32)>),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![Just(Outcome::Success), Just(answer()), Just(Outcome::Void)];
    let report = prop_oneof![
        Just(Report::Connected),
        outcome.prop_map(Report::Settled),
        Just(Report::Closed)
    ];
    prop_oneof![
        (0_u64..3000).prop_map(Step::Wait),
        (0_u64..8, report).prop_map(|(back, report)| Step::Report(back, report)),
        proptest::collection::btree_map(0_u64..6, 0_u32..4, 0..6)
            .prop_map(|set| Step::Set(set.into_iter().collect())),
    ]
}

proptest! {
    /// Whatever happens: flights within the limit, one start or probe for each group, timers for
    /// what exists and nothing else.
    #[test]
    fn books_agree_after_any_history(steps in proptest::collection::vec(step(), 1..200)) {
        let mut bench = Bench::new(3, checks(5));
        for step in steps {
            match step {
                Step::Wait(wait_ms) => bench.stall(ms(wait_ms)),
                Step::Report(back, report) => {
                    let id = FlightId(bench.schedule.next_flight.wrapping_sub(back));
                    bench.report(id, report);
                }
                Step::Set(set) => {
                    bench.set(set.into_iter().map(|(id, last)| (CheckId(id), check(last))).collect());
                }
            }
            let schedule = &bench.schedule;
            prop_assert!(schedule.flights.len() <= 3);
            prop_assert_eq!(schedule.flights.len(), schedule.deadlines.len());
            let settled = |id| schedule.groups.values().all(|group| group.probe != Some(id));
            let draining = schedule.flights.keys().copied().filter(|&id| settled(id));
            prop_assert_eq!(draining.collect::<BTreeSet<_>>(), schedule.draining.clone());
            prop_assert_eq!(schedule.groups.len(), schedule.keys.len());
            let waiting = schedule.groups.values().filter(|group| group.start.is_some()).count();
            prop_assert_eq!(schedule.starts.len(), waiting);
            for group in schedule.groups.values() {
                prop_assert!(group.start.is_some() != group.probe.is_some());
                prop_assert!(group.probe.is_none_or(|id| schedule.flights.contains_key(&id)));
            }
            let named: usize = schedule.groups.values().map(|group| group.ids.len()).sum();
            prop_assert_eq!(named, schedule.ids.len());
            prop_assert_eq!(schedule.poll_timeout().is_some(), !schedule.ids.is_empty() || !schedule.flights.is_empty());
            bench.actions();
        }
    }
}
