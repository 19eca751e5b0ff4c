//! Replies that count and replies that do not, reloads, and the spread of probes; virtual time.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use health::{Policy, State};

use super::*;

const ID: u16 = 0xbeef;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[expect(clippy::disallowed_methods, reason = "an origin; no test depends on its value")]
fn origin() -> Instant {
    Instant::now()
}

fn once() -> Policy {
    let one = NonZeroU32::MIN;
    Policy { interval: ms(2000), timeout: ms(1000), rise: one, fall: one }
}

fn address(last: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + last))
}

fn checks(count: u32) -> Vec<Check> {
    (0..count).map(|i| Check { backend: address(i), policy: once() }).collect()
}

fn echoes() -> Echoes<impl FnMut() -> Nonce> {
    let mut count = 0_u64;
    Echoes::new(ID, move || {
        count += 1;
        count.to_be_bytes()
    })
}

fn reply(request: &Request) -> EchoReply<'_> {
    let &Request { backend: from, id, seq, .. } = request;
    EchoReply { from, id, seq, payload: &request.nonce }
}

fn requests<N: FnMut() -> Nonce>(echoes: &mut Echoes<N>) -> Vec<Request> {
    std::iter::from_fn(|| echoes.poll_request()).collect()
}

#[test]
fn reply_counts_only_when_source_identifier_sequence_and_nonce_match() {
    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&checks(2), now);
    echoes.handle_timeout(now + ms(10));
    let sent = requests(&mut echoes);
    let right = reply(&sent[0]);
    let long = [sent[0].nonce.as_slice(), &[0]].concat();
    let forgeries = [
        ("another backend's address", EchoReply { from: address(1), ..right }),
        ("an unknown address", EchoReply { from: IpAddr::V6(Ipv6Addr::LOCALHOST), ..right }),
        ("another identifier", EchoReply { id: ID ^ 1, ..right }),
        ("another sequence", EchoReply { seq: right.seq ^ 1, ..right }),
        ("another nonce", EchoReply { payload: &[0; 8], ..right }),
        ("a nonce cut short", EchoReply { payload: &right.payload[..7], ..right }),
        ("a longer payload", EchoReply { payload: &long, ..right }),
        ("no payload", EchoReply { payload: &[], ..right }),
    ];
    for (name, forged) in forgeries {
        echoes.handle_reply(&forged, now + ms(11));
        assert_eq!(echoes.poll_change(), None, "{name} counted");
    }
    echoes.handle_reply(&right, now + ms(12));
    let change = echoes.poll_change().unwrap();
    assert_eq!((change.backend, change.transition.to), (address(0), State::Up));
}

#[test]
fn duplicate_and_late_replies_do_not_count() {
    let now = origin();
    let mut echoes = echoes();
    let mut check = checks(1);
    check[0].policy.rise = NonZeroU32::new(2).unwrap();
    echoes.replace(&check, now);
    echoes.handle_timeout(now);
    let first = requests(&mut echoes)[0];
    echoes.handle_reply(&reply(&first), now);
    echoes.handle_reply(&reply(&first), now);
    assert_eq!(echoes.machine(address(0)).unwrap().successes(), 1);

    echoes.handle_timeout(now + ms(2000));
    let second = requests(&mut echoes)[0];
    echoes.handle_timeout(now + ms(3000));
    echoes.handle_reply(&reply(&second), now + ms(3001));
    assert_eq!(echoes.machine(address(0)).unwrap().successes(), 0);
    assert_eq!(echoes.poll_change().unwrap().transition.cause, Some(Cause::Timeout));
}

#[test]
fn send_error_is_a_failure_with_its_text() {
    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&checks(1), now);
    echoes.handle_timeout(now);
    let request = requests(&mut echoes)[0];
    echoes.handle_send_error(&request, "Network is unreachable".into(), now);
    let transition = echoes.poll_change().unwrap().transition;
    assert_eq!(transition.to, State::Down);
    assert_eq!(transition.cause.unwrap().to_string(), "Network is unreachable");
}

#[test]
fn reload_keeps_known_backends_and_drops_vanished_ones() {
    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&checks(3), now);
    echoes.handle_timeout(now + ms(20));
    for request in requests(&mut echoes) {
        echoes.handle_reply(&reply(&request), now + ms(21));
    }
    // Three changes wait; the reload must not let out the one of a backend that is gone.
    let slower = Policy { fall: NonZeroU32::new(9).unwrap(), ..once() };
    let after = [1, 2, 7].map(|i| Check { backend: address(i), policy: slower });
    echoes.replace(&after, now + ms(30));
    let changed: Vec<_> = std::iter::from_fn(|| echoes.poll_change()).map(|c| c.backend).collect();
    assert_eq!(changed, [address(1), address(2)]);
    assert!(echoes.machine(address(0)).is_none());
    for (i, state) in [(1, State::Up), (2, State::Up), (7, State::Unproven)] {
        let machine = echoes.machine(address(i)).unwrap();
        assert_eq!((machine.state(), machine.policy()), (state, slower));
    }
    assert_eq!(echoes.timeouts.len(), 3);
    echoes.replace(&[], now);
    assert_eq!(echoes.poll_timeout(), None);
}

#[test]
fn repeated_backend_has_one_machine_and_one_timer() {
    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&[checks(1), checks(1)].concat(), now);
    assert_eq!((echoes.backends.len(), echoes.timeouts.len()), (1, 1));
}

#[test]
fn first_probes_are_spread_by_ten_milliseconds_or_over_one_interval() {
    for (count, apart) in [(1, ms(10)), (10, ms(10)), (200, ms(10)), (1000, ms(2))] {
        assert_eq!(stagger(ms(2000), count), apart, "{count} backends");
    }
    assert_eq!(stagger(ms(2000), 0), ms(10));

    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&checks(1000), now);
    for i in 0..1000 {
        let due = echoes.poll_timeout().unwrap();
        assert_eq!(due, now + ms(2) * i);
        echoes.handle_timeout(due);
        let sent = requests(&mut echoes);
        assert_eq!(sent.iter().map(|r| r.backend).collect::<Vec<_>>(), [address(i)]);
        echoes.handle_reply(&reply(&sent[0]), due);
        assert_eq!(echoes.poll_change().unwrap().transition.to, State::Up);
    }
    assert_eq!(echoes.poll_timeout(), Some(now + ms(2000)), "the second round begins");
}

#[test]
fn stall_sends_one_request_to_each_backend() {
    let now = origin();
    let mut echoes = echoes();
    echoes.replace(&checks(100), now);
    echoes.handle_timeout(now + ms(60_000));
    assert_eq!(requests(&mut echoes).len(), 100);
}
