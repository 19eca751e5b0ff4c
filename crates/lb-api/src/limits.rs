//! Every maximum of this crate; each has a test that reaches it.

/// Octets of one text. Ten thousand mappings of ordinary size take about a third of it.
pub const MAX_TEXT_BYTES: usize = 16 << 20;
/// Lists and mappings inside one another; the fields of backends and labels lie at 4.
pub const MAX_DEPTH: usize = 16;
/// Nodes of one document, keys included; the largest mapping has some 40,000.
pub const MAX_NODES: usize = 100_000;
/// Problems that are listed; of what lies beyond only the number is known.
pub const MAX_PROBLEMS: usize = 1_000;

/// NATLBMappings of a node.
pub const MAX_MAPPINGS: usize = 10_000;
/// Backends of one mapping.
pub const MAX_BACKENDS_PER_MAPPING: usize = 4_096;
/// Backends of all mappings together.
pub const MAX_BACKENDS: usize = 65_536;

/// Characters of a namespace, an id, a backend's or a pool's name: a DNS label (RFC 1123 2.1).
pub const MAX_NAME_CHARS: usize = 63;
/// Labels of one resource, and separately its annotations.
pub const MAX_LABELS: usize = 64;
/// Octets of the key of a label or annotation.
pub const MAX_LABEL_KEY_BYTES: usize = 253;
/// Octets of the value of a label.
pub const MAX_LABEL_VALUE_BYTES: usize = 63;
/// Octets of the value of an annotation.
pub const MAX_ANNOTATION_BYTES: usize = 4_096;
/// Octets of the path of an HTTP check.
pub const MAX_HTTP_PATH_BYTES: usize = 1_024;
/// Octets of the Host header of an HTTP check: a domain name (RFC 1035 2.3.4) and a port.
pub const MAX_HTTP_HOST_BYTES: usize = 259;
