//! Documents to change, and what reading them says.

use lb_api::{NatLbMapping, Resources, Source};

/// The example of the documentation.
pub(crate) const EXAMPLE: &str = "\
type: NATLBMappings.lb.siha
metadata: { namespace: lb, id: web }
spec:
  vipAddress: 203.0.113.10
  vipPort: 443
  protocol: tcp            # tcp, udp, icmp, or a raw protocol number
  twiceNat: true           # the backend sees the balancer as the client
  affinityTimeoutSec: 0
  backends:
    - { name: backend-1, address: 10.0.1.11, port: 8443, weight: 10 }
    - { name: backend-2, address: 10.0.1.12, port: 8443, weight: 10 }
  healthCheck: { type: HTTP, port: 8443, httpPath: /healthz, httpExpectedStatus: 200,
                 intervalMs: 5000, timeoutMs: 2000, healthyThreshold: 2, unhealthyThreshold: 3, failOpen: false }
";

/// Reads files of these names and texts.
pub(crate) fn read(files: &[(&str, &str)]) -> Result<Resources, String> {
    let sources: Vec<Source<'_>> =
        files.iter().map(|(file, text)| Source { file, text: text.as_bytes() }).collect();
    Resources::read(&sources).map_err(|problems| problems.to_string())
}

/// The one mapping of a text that is right.
pub(crate) fn mapping(text: &str) -> NatLbMapping {
    let resources = read(&[("web.yaml", text)]).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(resources.mappings().len(), 1);
    resources.mappings().next().unwrap().clone()
}

/// The problems of a text that is wrong, one a line.
pub(crate) fn problems(text: &str) -> String {
    read(&[("web.yaml", text)]).err().unwrap_or_else(|| panic!("no problem: {text}"))
}

/// The example with one part replaced, which must be there once.
pub(crate) fn with(from: &str, to: &str) -> String {
    assert_eq!(EXAMPLE.matches(from).count(), 1, "{from}");
    EXAMPLE.replace(from, to)
}

/// A mapping with as many backends as wanted; `number` makes VIP, id and backends its own.
pub(crate) fn numbered(number: usize, backends: usize) -> String {
    use std::fmt::Write as _;
    let [a, b] = [number / 256, number % 256];
    let mut text = format!(
        "---\ntype: NATLBMappings.lb.siha\nmetadata: {{ namespace: lb, id: m{number} }}\nspec:\n  \
         vipAddress: 198.18.{a}.{b}\n  vipPort: 80\n  protocol: tcp\n  \
         healthCheck: {{ type: DISABLED }}\n  backends:\n"
    );
    for backend in 0..backends {
        let [c, d] = [backend / 256, backend % 256];
        writeln!(text, "  - {{ name: b{backend}, address: 10.0.{c}.{d}, port: 80 }}").unwrap();
    }
    if backends == 0 {
        text.push_str("    []\n");
    }
    text
}

/// Cases: what of the example is replaced by what, and what is said behind `web.yaml:`.
pub(crate) fn check(cases: &[(&str, &str, &str)]) {
    for (from, to, expected) in cases {
        let expected: Vec<String> =
            expected.lines().map(|line| format!("web.yaml:{}", line.trim_start())).collect();
        assert_eq!(problems(&with(from, to)), expected.join("\n"), "{from} -> {to}");
    }
}
