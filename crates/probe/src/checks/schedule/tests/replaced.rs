//! A set of checks that takes the place of another.

use super::super::super::MAX_CHECKS;
use super::*;

#[test]
fn new_set_leaves_what_stays_and_cancels_what_is_gone_or_changed() {
    let mut bench = Bench::new(MAX_IN_FLIGHT, checks(4));
    let starts = bench.run(ms(40));
    assert_eq!(starts.len(), 4);
    let flight_of = |last| {
        starts.iter().find_map(|(_, action)| match action {
            Action::Start(flight, started) if **started == check(last) => Some(*flight),
            Action::Start(..) | Action::Cancel(_) => None,
        })
    };
    let [kept, gone, changed] = [0, 1, 2].map(|last| flight_of(last).unwrap());
    let mut set = checks(4);
    set.remove(1);
    set[1].1.port = 8080;
    bench.set(set.clone());
    let mut actions = bench.actions();
    actions.sort_by_key(|action| format!("{action:?}"));
    assert_eq!(actions, [gone, changed].map(Action::Cancel));
    for flight in [kept, gone, changed] {
        bench.finish(flight, Outcome::Success);
    }
    assert_eq!(bench.states(), [(0, State::Up)]);
    assert!(bench.schedule.status(CheckId(1)).is_none());
    bench.set(set);
    assert_eq!(bench.actions(), [], "the same set again changes nothing");
    bench.set(Vec::new());
    assert_eq!((bench.actions().len(), bench.schedule.poll_timeout()), (1, None));
    assert!(bench.schedule.flights.is_empty() && bench.schedule.starts.is_empty());
}

#[test]
fn edited_check_keeps_the_state_of_its_backend() {
    let up = check(0);
    let slower = Check { policy: Policy { interval: ms(3000), ..policy(1, 2) }, ..up.clone() };
    let other_port = Check { port: 81, ..up.clone() };
    for (name, edited, state, successes) in [
        ("policy", slower, State::Up, 1),
        ("port", other_port, State::Up, 0),
        ("kind", Check { port: 0, kind: Kind::Icmp, ..up.clone() }, State::Up, 0),
        ("address", check(9), State::Unproven, 0),
    ] {
        let (mut bench, flight) = Bench::probing(up.clone());
        bench.finish(flight, Outcome::Success);
        // Another name keeps the old check, so that its machine is still there.
        bench.set(vec![(CheckId(0), edited.clone()), (CheckId(1), up.clone())]);
        let status = bench.status(0);
        assert_eq!((status.state, status.successes), (state, successes), "{name}");
        assert_eq!(bench.status(1).state, State::Up, "{name}: it joined the old check");
        assert_eq!(bench.actions(), [], "{name}");
        let first = bench.run(ms(10));
        let (_, Action::Start(_, probed)) = &first[0] else { panic!("{first:?}") };
        assert_eq!(**probed, edited, "{name}: the new check starts soon");
    }
}

#[test]
fn change_that_waits_is_dropped_when_its_check_is_no_more() {
    let mut bench = Bench::new(MAX_IN_FLIGHT, checks(3));
    for (_, action) in bench.run(ms(30)) {
        let Action::Start(flight, _) = action else { panic!("{action:?}") };
        bench.finish(flight, Outcome::Success);
    }
    let mut set = checks(2);
    set[0].1.port = 8080;
    bench.set(set);
    assert_eq!(bench.states(), [(1, State::Up)]);
}

#[test]
fn set_is_refused_whole_for_the_first_check_that_is_wrong() {
    let (mut bench, _) = Bench::probing(check(0));
    let zero = Policy { timeout: ms(0), ..policy(1, 1) };
    let too_many = u32::try_from(MAX_CHECKS).unwrap() + 1;
    for (wrong, text) in [
        ([checks(1), checks(1)].concat(), "check 0 is there twice"),
        (vec![(CheckId(4), Check { port: 0, ..check(4) })], "check 4: port 0 cannot be probed"),
        (
            vec![(CheckId(4), Check { policy: zero, ..check(4) })],
            "check 4: a timeout of zero fails every probe",
        ),
        (checks(too_many), "65537 checks are more than 65536"),
    ] {
        let error = bench.schedule.replace(wrong, bench.now).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!((bench.schedule.ids.len(), bench.actions()), (1, vec![]));
    }
    bench.set(vec![(CheckId(0), Check { port: 0, kind: Kind::Icmp, ..check(0) })]);
    bench.set(checks(too_many - 1));
    assert_eq!(bench.schedule.starts.len(), MAX_CHECKS);
}
