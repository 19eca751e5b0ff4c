//! Any text is an answer, never a panic; what is written out reads back the same.

use crate::support::{EXAMPLE, read};
use proptest::prelude::*;

/// Words of the schema, so that arbitrary texts come past the first check.
const WORDS: &[&str] = &[
    "type: ",
    "NATLBMappings.lb.siha\n",
    "metadata: ",
    "spec:\n",
    "  vipAddress: ",
    "203.0.113.10",
    "  vipPort: ",
    "443",
    "  protocol: ",
    "tcp",
    "icmp",
    "  backends:\n",
    "    - ",
    "name: a",
    "address: ",
    "10.0.0.1",
    "port: ",
    "  healthCheck: ",
    "HTTP",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "\n",
    "---\n",
    "012",
    "no",
    "~",
    "'",
    "\"",
    "&a ",
    "*a",
    "!!str ",
    "<<: ",
    "? ",
    "| ",
    "\t",
    "999999",
    "-1",
    "tableSize: ",
    "selection: ",
    "maglev",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_text_never_panics(text in r"\PC{0,200}") {
        let _ = read(&[("a.yaml", &text)]);
    }

    #[test]
    fn arbitrary_sequences_of_our_words_never_panic(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..60),
    ) {
        let _ = read(&[("a.yaml", &words.concat())]);
    }

    #[test]
    fn a_damaged_example_is_refused_with_a_place_or_read(
        at in 0..EXAMPLE.len(),
        octet in any::<char>(),
    ) {
        let damaged = format!("{}{octet}{}", &EXAMPLE[..at], &EXAMPLE[at + 1..]);
        if let Err(problems) = read(&[("a.yaml", &damaged)]) {
            for problem in problems.lines() {
                prop_assert!(problem.starts_with("a.yaml:"), "{}", problem);
            }
        }
    }

    #[test]
    fn what_is_written_as_json_reads_back_the_same(mapping in mappings()) {
        let read_back = crate::support::mapping(&mapping);
        let json = serde_json::to_string_pretty(&read_back).unwrap();
        prop_assert_eq!(crate::support::mapping(&json), read_back);
    }
}

prop_compose! {
    /// Documents that are right.
    fn mappings()(
        (protocol, vip_port, port) in prop_oneof![
            (prop::sample::select(&["tcp", "udp"][..]), 1..=u16::MAX, 1..=u16::MAX),
            (prop::sample::select(&["tcp", "udp"][..]), Just(0), 0..=u16::MAX),
            (prop::sample::select(&["icmp", "47", "132"][..]), Just(0), Just(0)),
        ],
        is_v6 in any::<bool>(),
        weights in prop::collection::vec(1..=u8::MAX, 0..5),
        mode in prop::sample::select(&["", "twiceNat: true,", "twiceNat: true, snatPool: edge,"][..]),
        selection in prop::sample::select(&[
            "maglev", "rendezvous", "weightedRandom", "maglev, tableSize: 1021",
        ][..]),
        check in prop::sample::select(&[
            "type: DISABLED",
            "type: ICMP, failOpen: true",
            "type: TCP, port: 7, intervalMs: 10, timeoutMs: 1",
            "type: HTTP, port: 80, httpPath: '/a?b=c', httpHost: '[2001:db8::1]:80'",
            "type: HTTPS, port: 443, httpExpectedStatus: 599, healthyThreshold: 100",
        ][..]),
        affinity in 0..=86_400u32,
        note in "[a-zäöü \"\\\\\n\t:#{}&*!|>'%@`-]{0,40}",
    ) -> String {
        let (vip, net) = if is_v6 { ("2001:db8::1", "fd00::") } else { ("203.0.113.1", "10.0.0.") };
        let backends: Vec<String> = weights.iter().enumerate().map(|(i, weight)| format!(
            "{{name: b{i}, address: '{net}{}', port: {port}, weight: {weight}}}", i + 1
        )).collect();
        let note = serde_json::to_string(&note).unwrap();
        format!(
            "type: NATLBMappings.lb.siha\nmetadata: {{namespace: lb, id: web, annotations: {{n: \
             {note}}}}}\nspec: {{vipAddress: '{vip}', vipPort: {vip_port}, protocol: {protocol},\n  \
             {mode} affinityTimeoutSec: {affinity}, selection: {selection}, healthCheck: {{{check}}},\n  \
             backends: [{}]}}\n", backends.join(", ")
        )
    }
}
