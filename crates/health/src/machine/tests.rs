//! Every state against every input, the schedule, and what must hold for any history.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Somewhere to count virtual time from.
#[expect(clippy::disallowed_methods, reason = "an origin; no test depends on its value")]
fn origin() -> Instant {
    Instant::now()
}

fn policy(rise: u32, fall: u32) -> Policy {
    let count = |n| NonZeroU32::new(n).unwrap();
    Policy { interval: ms(2000), timeout: ms(1000), rise: count(rise), fall: count(fall) }
}

/// A machine, the virtual clock, and the actions it asked for.
struct Bench {
    machine: Machine,
    now: Instant,
    start: Instant,
}

impl Bench {
    fn new(policy: Policy) -> Self {
        let start = origin();
        Self { machine: Machine::new(policy, start), now: start, start }
    }

    /// A bench in `state` with a probe outstanding and the counters that led there.
    fn in_state(state: State) -> (Self, ProbeId) {
        let mut bench = Self::new(policy(2, 2));
        let mut probe = bench.run_to_probe();
        for _ in 0..2 {
            match state {
                State::Unproven => {}
                State::Up => bench.machine.handle_success(probe, bench.now),
                State::Down => bench.machine.handle_failure(probe, refused(), bench.now),
            }
            if state != State::Unproven {
                bench.drain();
                probe = bench.run_to_probe();
            }
        }
        assert_eq!(bench.machine.state(), state);
        (bench, probe)
    }

    fn drain(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.machine.poll_action()).collect()
    }

    fn advance(&mut self) -> Vec<Action> {
        self.now = self.machine.poll_timeout().unwrap();
        self.machine.handle_timeout(self.now);
        self.drain()
    }

    fn run_to_probe(&mut self) -> ProbeId {
        loop {
            for action in self.advance() {
                if let Action::Probe(id) = action {
                    return id;
                }
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.now - self.start
    }
}

fn refused() -> Cause {
    Cause::Error("refused".into())
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Success,
    Failure,
    Silence,
    StaleSuccess,
    StaleFailure,
    EarlyTimer,
}

/// Feeds `input` for one outstanding probe and returns the transitions it caused.
fn feed(bench: &mut Bench, probe: ProbeId, input: Input) -> Vec<Transition> {
    let stale = ProbeId(probe.0.wrapping_sub(1));
    match input {
        Input::Success => bench.machine.handle_success(probe, bench.now),
        Input::Failure => bench.machine.handle_failure(probe, refused(), bench.now),
        Input::Silence => {
            bench.now += ms(1000);
            bench.machine.handle_timeout(bench.now);
        }
        Input::StaleSuccess => bench.machine.handle_success(stale, bench.now),
        Input::StaleFailure => bench.machine.handle_failure(stale, refused(), bench.now),
        Input::EarlyTimer => bench.machine.handle_timeout(bench.now + ms(999)),
    }
    bench.drain().into_iter().filter_map(changed).collect()
}

fn changed(action: Action) -> Option<Transition> {
    match action {
        Action::Changed(transition) => Some(transition),
        Action::Probe(_) => None,
    }
}

#[test]
fn every_state_answers_every_input_as_the_table_says() {
    use Input::*;
    use State::*;
    let down = |from, cause| Some(Transition { from, to: Down, cause: Some(cause) });
    let up = |from| Some(Transition { from, to: Up, cause: None });
    // Each input is given twice in a row, with rise = fall = 2: the first must change nothing.
    let table = [
        (Unproven, Success, up(Unproven)),
        (Unproven, Failure, down(Unproven, refused())),
        (Unproven, Silence, down(Unproven, Cause::Timeout)),
        (Unproven, StaleSuccess, None),
        (Unproven, StaleFailure, None),
        (Unproven, EarlyTimer, None),
        (Up, Success, None),
        (Up, Failure, down(Up, refused())),
        (Up, Silence, down(Up, Cause::Timeout)),
        (Up, StaleSuccess, None),
        (Up, StaleFailure, None),
        (Up, EarlyTimer, None),
        (Down, Success, up(Down)),
        (Down, Failure, None),
        (Down, Silence, None),
        (Down, StaleSuccess, None),
        (Down, StaleFailure, None),
        (Down, EarlyTimer, None),
    ];
    for (state, input, expected) in table {
        let (mut bench, mut probe) = Bench::in_state(state);
        assert_eq!(feed(&mut bench, probe, input), [], "first {input:?} in {state}");
        if matches!(input, Success | Failure | Silence) {
            probe = bench.run_to_probe();
        }
        let changes = feed(&mut bench, probe, input);
        assert_eq!(changes, Vec::from_iter(expected.clone()), "second {input:?} in {state}");
        let ends_in = expected.map_or(state, |transition| transition.to);
        assert_eq!(bench.machine.state(), ends_in, "after two {input:?} in {state}");
    }
}

#[test]
fn failure_between_successes_starts_the_count_again() {
    let mut bench = Bench::new(policy(2, 2));
    for (input, state) in [
        (Input::Success, State::Unproven),
        (Input::Silence, State::Unproven),
        (Input::Success, State::Unproven),
        (Input::Success, State::Up),
        (Input::Silence, State::Up),
        (Input::Success, State::Up),
        (Input::Silence, State::Up),
        (Input::Silence, State::Down),
    ] {
        let probe = bench.run_to_probe();
        feed(&mut bench, probe, input);
        assert_eq!(bench.machine.state(), state, "after {input:?}");
    }
}

#[test]
fn duplicate_and_late_results_are_ignored() {
    let mut bench = Bench::new(policy(2, 2));
    let first = bench.run_to_probe();
    for _ in 0..3 {
        bench.machine.handle_success(first, bench.now);
    }
    assert_eq!(bench.machine.successes(), 1, "the duplicates counted");
    let second = bench.run_to_probe();
    feed(&mut bench, second, Input::Silence);
    bench.machine.handle_success(second, bench.now + ms(1));
    assert_eq!((bench.machine.successes(), bench.machine.failures()), (0, 1));
}

#[test]
fn probes_stay_on_the_grid_whenever_the_answers_come() {
    let mut bench = Bench::new(policy(2, 2));
    let mut starts = Vec::new();
    for answer_after in [0, 999, 1, 500] {
        let probe = bench.run_to_probe();
        starts.push(bench.elapsed());
        bench.machine.handle_success(probe, bench.now + ms(answer_after));
    }
    assert_eq!(starts, [ms(0), ms(2000), ms(4000), ms(6000)]);
}

#[test]
fn stall_is_followed_by_one_probe_and_the_old_grid() {
    let mut bench = Bench::new(policy(2, 3));
    bench.run_to_probe();
    bench.now = bench.start + ms(20_700);
    bench.machine.handle_timeout(bench.now);
    assert_eq!(bench.drain(), [Action::Probe(ProbeId(1))], "no burst");
    assert_eq!(bench.machine.failures(), 1, "one probe was outstanding, so one failed");
    bench.run_to_probe();
    assert_eq!(bench.elapsed(), ms(22_000));
}

#[test]
fn answer_read_before_the_timer_fires_counts_after_a_stall() {
    let mut bench = Bench::new(policy(1, 1));
    let probe = bench.run_to_probe();
    bench.machine.handle_success(probe, bench.now + ms(30_000));
    bench.machine.handle_timeout(bench.now + ms(30_000));
    assert_eq!(bench.machine.state(), State::Up);
    assert_eq!(bench.machine.since(), Some(bench.now + ms(30_000)));
}

#[test]
fn timeout_equal_to_the_interval_fails_the_old_probe_before_the_new_one_starts() {
    let mut bench = Bench::new(Policy { timeout: ms(2000), ..policy(1, 1) });
    bench.run_to_probe();
    let actions = bench.advance();
    let transition =
        Transition { from: State::Unproven, to: State::Down, cause: Some(Cause::Timeout) };
    assert_eq!(actions, [Action::Changed(transition), Action::Probe(ProbeId(1))]);
}

#[test]
fn timeout_over_the_interval_skips_the_slot_and_keeps_one_probe_outstanding() {
    let mut bench = Bench::new(Policy { timeout: ms(3000), ..policy(1, 1) });
    bench.run_to_probe();
    assert_eq!(bench.advance(), [], "slot at 2 s is taken");
    assert_eq!(bench.advance().len(), 1, "timeout at 3 s");
    assert_eq!(bench.machine.state(), State::Down);
    bench.run_to_probe();
    assert_eq!(bench.elapsed(), ms(4000));
}

#[test]
fn shorter_interval_brings_the_next_probe_forward_and_keeps_the_state() {
    let (mut bench, probe) = Bench::in_state(State::Up);
    bench.machine.handle_success(probe, bench.now);
    let changed_at = bench.now + ms(100);
    bench
        .machine
        .set_policy(Policy { interval: ms(500), timeout: ms(500), ..policy(2, 1) }, changed_at);
    assert_eq!(bench.machine.poll_timeout(), Some(changed_at + ms(500)));
    let probe = bench.run_to_probe();
    assert_eq!(bench.machine.state(), State::Up);
    let changes = feed(&mut bench, probe, Input::Failure);
    assert_eq!(changes.len(), 1, "the new fall of one applies");
}

#[test]
fn history_tells_the_last_cause_even_after_recovery() {
    let mut bench = Bench::new(policy(1, 1));
    assert_eq!((bench.machine.since(), bench.machine.last_cause()), (None, None));
    for input in [Input::Failure, Input::Success, Input::Success] {
        let probe = bench.run_to_probe();
        feed(&mut bench, probe, input);
    }
    assert_eq!(bench.machine.last_cause(), Some(&refused()));
    assert_eq!((bench.machine.successes(), bench.machine.failures()), (2, 0));
    assert_eq!(bench.machine.since(), Some(bench.start + ms(2000)), "the first success");
}

#[test]
fn void_probe_counts_neither_way_and_the_grid_goes_on() {
    let mut bench = Bench::new(policy(2, 2));
    for _ in 0..5 {
        let probe = bench.run_to_probe();
        bench.machine.handle_void(ProbeId(probe.0 + 1));
        bench.machine.handle_void(probe);
        bench.machine.handle_failure(probe, refused(), bench.now);
        assert_eq!(bench.machine.answered(), None);
    }
    assert_eq!(bench.machine.state(), State::Unproven);
    assert_eq!(bench.elapsed(), ms(8000));
}

#[test]
fn failure_with_an_answer_is_told_from_silence() {
    let mut bench = Bench::new(policy(2, 2));
    let answer = Some(Cause::Answer("status 503, expected 200".into()));
    for (cause, answered) in [
        (None, true),
        (Some(Cause::Timeout), false),
        (answer.clone(), true),
        (Some(refused()), false),
        (None, true),
        (answer, true),
    ] {
        let probe = bench.run_to_probe();
        match cause.clone() {
            Some(cause) => bench.machine.handle_failure(probe, cause, bench.now),
            None => bench.machine.handle_success(probe, bench.now),
        }
        assert_eq!(bench.machine.answered(), Some(answered), "{cause:?}");
    }
}

#[test]
fn rescheduled_machine_keeps_its_history_and_a_restarted_one_only_its_state() {
    let (mut bench, probe) = Bench::in_state(State::Up);
    bench.machine.handle_failure(probe, refused(), bench.now);
    let outstanding = bench.run_to_probe();
    let (old, first) = (bench.machine.clone(), bench.now + ms(70));
    for (new, failures) in
        [(old.rescheduled(policy(3, 2), first), 1), (old.restarted(policy(3, 2), first), 0)]
    {
        bench.machine = new;
        bench.machine.handle_failure(outstanding, refused(), bench.now);
        assert_eq!((bench.machine.state(), bench.machine.failures()), (State::Up, failures));
        assert_eq!(bench.machine.since(), old.since());
        assert_eq!(bench.machine.poll_timeout(), Some(first));
        assert_eq!(bench.machine.policy(), policy(3, 2));
        assert!(bench.run_to_probe() > outstanding);
    }
}

#[test]
fn zero_interval_neither_hangs_nor_panics() {
    let mut bench = Bench::new(Policy { interval: ms(0), timeout: ms(0), ..policy(1, 1) });
    for _ in 0..3 {
        bench.run_to_probe();
    }
    assert_eq!(bench.machine.state(), State::Down);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Answer { stale_by: u64, works: bool },
    Wait { duration_ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (prop_oneof![4 => Just(0), 1 => 1_u64..4], any::<bool>())
            .prop_map(|(stale_by, works)| Step::Answer { stale_by, works }),
        (1_u64..7000).prop_map(|duration_ms| Step::Wait { duration_ms }),
    ]
}

proptest! {
    /// The model counts only what it can see from outside: answers to the newest probe while
    /// that is unanswered and younger than its timeout, and silence beyond it.
    #[test]
    fn state_changes_only_after_enough_results_in_a_row(
        rise in 1_u32..5,
        fall in 1_u32..5,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut bench = Bench::new(policy(rise, fall));
        let mut newest: Option<(ProbeId, Instant)> = None;
        let (mut works_in_a_row, mut fails_in_a_row) = (0, 0);
        for step in steps {
            match step {
                Step::Answer { stale_by, works } => {
                    let Some((id, _)) = newest else { continue };
                    let named = ProbeId(id.0.wrapping_sub(stale_by));
                    if stale_by == 0 {
                        newest = None;
                        (works_in_a_row, fails_in_a_row) =
                            if works { (works_in_a_row + 1, 0) } else { (0, fails_in_a_row + 1) };
                    }
                    if works {
                        bench.machine.handle_success(named, bench.now);
                    } else {
                        bench.machine.handle_failure(named, refused(), bench.now);
                    }
                }
                Step::Wait { duration_ms } => {
                    bench.now += ms(duration_ms);
                    if newest.is_some_and(|(_, sent)| bench.now - sent >= ms(1000)) {
                        newest = None;
                        (works_in_a_row, fails_in_a_row) = (0, fails_in_a_row + 1);
                    }
                    bench.machine.handle_timeout(bench.now);
                }
            }
            let actions = bench.drain();
            prop_assert!(actions.len() <= 2, "{actions:?}");
            for action in actions {
                match action {
                    Action::Probe(id) => {
                        prop_assert!(newest.is_none(), "two probes outstanding");
                        newest = Some((id, bench.now));
                    }
                    Action::Changed(Transition { from, to, cause }) => match to {
                        State::Up => prop_assert!(works_in_a_row >= rise && cause.is_none()),
                        State::Down => prop_assert!(fails_in_a_row >= fall && cause.is_some()),
                        State::Unproven => prop_assert!(false, "{from} went back to unproven"),
                    },
                }
            }
            // And the other way round: enough in a row always shows in the state.
            if works_in_a_row >= rise {
                prop_assert_eq!(bench.machine.state(), State::Up);
            }
            if fails_in_a_row >= fall {
                prop_assert_eq!(bench.machine.state(), State::Down);
            }
            prop_assert!(bench.machine.poll_timeout().is_some_and(|at| at > bench.now));
        }
    }
}
