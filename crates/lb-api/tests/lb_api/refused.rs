//! One wrong document for each rule of frame, metadata and notation, with what it says; and all
//! errors of a file at once.

use crate::support::{check, problems};

#[test]
fn the_frame_of_a_document_is_checked() {
    check(&[
        (
            "type: NATLBMappings.lb.siha\n",
            "\n",
            "2: type: missing: add type: NATLBMappings.lb.siha",
        ),
        (
            "NATLBMappings.lb.siha",
            "NATLBMapping.lb.siha",
            "1: type: `NATLBMapping.lb.siha` is \
            unknown: must be NATLBMappings.lb.siha",
        ),
        (
            "NATLBMappings.lb.siha",
            "Pods",
            "1: type: `Pods` is unknown: must be NATLBMappings.lb.siha",
        ),
        (
            "metadata: {",
            "meta: {",
            "1: metadata: missing: add metadata with namespace and id\n\
            2: meta: unknown field: known are type, metadata, spec",
        ),
        (
            "spec:\n",
            "status: {}\nspec:\n",
            "3: status: set by the node, not by its operator: remove it",
        ),
        (
            "spec:\n",
            "metadata: {}\nspec:\n",
            "3: metadata: already set in line 2: remove one of the two",
        ),
        ("spec:\n", "<<: {}\nspec:\n", "3: <<: merge keys are not supported: write the fields out"),
        ("spec:\n", "? [a]\n: b\nspec:\n", "3: ?: a key must be a word"),
    ]);
    for (text, expected) in [
        ("- a\n", "web.yaml:1: is a list, must be a mapping"),
        ("web\n", "web.yaml:1: is text (`web`), must be a mapping"),
        (
            "type: NATLBMappings.lb.siha\n",
            "web.yaml:1: metadata: missing: add metadata with namespace and id\n\
             web.yaml:1: spec: missing: add spec with vipAddress, backends and the others",
        ),
    ] {
        assert_eq!(problems(text), expected);
    }
}

#[test]
fn metadata_is_checked() {
    let name = "must be 1 to 63 of a-z, 0-9 and hyphens, with a letter or digit at each end";
    check(&[
        ("namespace: lb, ", "", "2: metadata.namespace: missing: add namespace: NAME, such as lb"),
        (", id: web", "", "2: metadata.id: missing: add id: NAME, the name of this resource"),
        ("id: web", "id: Web", &format!("2: metadata.id: `Web`: {name}")),
        ("id: web", "id: ''", &format!("2: metadata.id: ``: {name}")),
        ("id: web", "id:", "2: metadata.id: is empty, must be text"),
        ("id: web", "id: [web]", "2: metadata.id: is a list, must be text"),
        (
            "id: web",
            "id: web, version: 3",
            "2: metadata.version: set by the node, not by its \
            operator: remove it",
        ),
        (
            "id: web",
            "id: web, finalizers: []",
            "2: metadata.finalizers: set by the node, not by its \
            operator: remove it",
        ),
        (
            "id: web",
            "id: web, type: x",
            "2: metadata.type: the type stands at the top of the \
            document: move it there",
        ),
        ("id: web", "id: web, label: {}", "2: metadata.label: unknown field: did you mean labels?"),
        (
            "id: web",
            "id: web, labels: {a: 'b c'}",
            "2: metadata.labels.a: must be at most 63 of A-Z, \
            a-z, 0-9, `-`, `_` and `.`, with a letter or digit at each end; annotations may hold \
            other text",
        ),
        (
            "id: web",
            "id: web, labels: {-a: b}",
            "2: metadata.labels.-a: a key must be 1 to 253 of \
            A-Z, a-z, 0-9, `-`, `_`, `.` and `/`, with a letter or digit at each end",
        ),
        ("id: web", "id: web, labels: {a: {}}", "2: metadata.labels.a: is a mapping, must be text"),
        (
            "id: web",
            "id: web, annotations: {a: \"\\a\"}",
            "2: metadata.annotations.a: must be at most \
            4096 octets without control characters",
        ),
    ]);
}

#[test]
fn words_that_readers_of_yaml_take_for_something_else_are_refused() {
    let quotes = "to some readers of YAML, must be text: put it in quotes";
    check(&[
        ("id: web", "id: no", &format!("2: metadata.id: `no` is a truth value {quotes}")),
        ("id: web", "id: 012", &format!("2: metadata.id: `012` is a number {quotes}")),
        ("id: web", "id: 1e3", &format!("2: metadata.id: `1e3` is a number {quotes}")),
        (
            "twiceNat: true ",
            "twiceNat: off",
            "7: spec.twiceNat: is a truth value (`off`), must be \
            true or false",
        ),
        (
            "twiceNat: true ",
            "twiceNat: 1 ",
            "7: spec.twiceNat: is a number (`1`), must be true or false",
        ),
        (
            "twiceNat: true ",
            "twiceNat: 'true'",
            "7: spec.twiceNat: is text (\"true\"), must be true \
            or false: remove the quotes",
        ),
        (
            "vipPort: 443",
            "vipPort: 0443",
            "5: spec.vipPort: `0443`: write it without leading zeros, \
            which some readers take for octal",
        ),
        (
            "vipPort: 443",
            "vipPort: 1e3",
            "5: spec.vipPort: `1e3`: write a whole number in decimal digits",
        ),
        (
            "vipPort: 443",
            "vipPort: 0x1bb",
            "5: spec.vipPort: `0x1bb`: write a whole number in decimal \
            digits",
        ),
        (
            "vipPort: 443",
            "vipPort: '443'",
            "5: spec.vipPort: is text (\"443\"), must be a whole \
            number: remove the quotes",
        ),
        (
            "vipPort: 443",
            "vipPort: https",
            "5: spec.vipPort: is text (`https`), must be a whole number",
        ),
        (
            "vipPort: 443",
            "vipPort: no",
            "5: spec.vipPort: is a truth value (`no`), must be a whole number",
        ),
        ("vipPort: 443", "vipPort: ~", "5: spec.vipPort: is empty, must be a whole number"),
        ("vipPort: 443", "vipPort: [443]", "5: spec.vipPort: is a list, must be a whole number"),
    ]);
}

#[test]
fn every_error_of_a_file_is_reported_at_once() {
    let text = "\
type: NATLBMappings.lb.siha
metadata: { namespace: LB, id: no }
spec:
  vipAddress: 203.0.113.300
  vipPort: '443'
  protocol: tcp
  twiceNat: yes
  backends:
    - { name: a, address: 10.0.1.11, port: 8443, weight: 0 }
    - name: b
      address: *a
      prot: 8443
  healthCheck: { type: 0, timeoutMs: 9000 }
  onDown: maybe
---
type: [
---
spec: 1
";
    assert_eq!(
        problems(text),
        "web.yaml:2: metadata.namespace: `LB`: must be 1 to 63 of a-z, 0-9 and hyphens, with a letter \
         or digit at each end\n\
         web.yaml:2: metadata.id: `no` is a truth value to some readers of YAML, must be text: put it \
         in quotes\n\
         web.yaml:4: spec.vipAddress: `203.0.113.300`: not an IPv4 or IPv6 address: write it without \
         port, brackets and prefix length\n\
         web.yaml:5: spec.vipPort: is text (\"443\"), must be a whole number: remove the quotes\n\
         web.yaml:7: spec.twiceNat: is a truth value (`yes`), must be true or false\n\
         web.yaml:9: spec.backends[0].weight: `0` is out of range: must be 1 to 255\n\
         web.yaml:11: aliases are not supported: write the value out\n\
         web.yaml:12: spec.backends[1].prot: unknown field: did you mean port?\n\
         web.yaml:13: spec.healthCheck.type: says nothing: there is no default, must be DISABLED, TCP, \
         HTTP, HTTPS or ICMP\n\
         web.yaml:13: spec.healthCheck.timeoutMs: 9000 is longer than intervalMs, 5000: shorten it, or \
         check less often\n\
         web.yaml:14: spec.onDown: `maybe` is unknown: must be keep or reset\n\
         web.yaml:16:7: not YAML: unclosed bracket '['\n\
         web.yaml:18: type: missing: add type: NATLBMappings.lb.siha"
    );
}
