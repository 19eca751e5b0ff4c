//! Fuzz targets: plain functions of octets that panic if an invariant does not hold.
//!
//! `fuzz/` at the repository's root runs them under libFuzzer, `tests/corpus.rs` replays the
//! corpus through them as an ordinary test. Their expectations come from octet positions and a
//! naive checksum, not from the parsers under test.

mod icmp;
mod packets;
mod text;
mod world;

pub use icmp::icmp_reply;
pub use packets::{gre_process, icmp_error, ip_parse, wire_headers};
pub use text::keyvalue;

/// A target's name, which is also its directory in the corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("gre_process", gre_process),
    ("icmp_error", icmp_error),
    ("icmp_reply", icmp_reply),
    ("ip_parse", ip_parse),
    ("keyvalue", keyvalue),
    ("wire_headers", wire_headers),
];
