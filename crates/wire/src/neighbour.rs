//! Neighbour solicitation and advertisement for IPv6 over Ethernet (RFC 4861 4.3, 4.4).
//!
//! ```text
//! solicitation:  | 135 | 0 | checksum | reserved (4)       | target (16) | options |
//! advertisement: | 136 | 0 | checksum | R S O reserved (4) | target (16) | options |
//! option:        | type | length in units of 8 | Ethernet address (6) |
//! ```

/// Neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// Neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;

/// Octets before the options.
pub const HEADER_BYTES: usize = 24;
/// Octets of an option that holds an Ethernet address.
pub const OPTION_BYTES: usize = 8;
/// The hop limit that every message must have: it crossed no router (RFC 4861 7.1).
pub const HOP_LIMIT: u8 = 255;

/// Octet offsets inside the message.
pub mod field {
    /// The address that is asked for or told of, sixteen octets.
    pub const TARGET: usize = 8;
}

/// Flags of an advertisement, in the octet after the checksum.
pub mod flag {
    /// It answers a solicitation.
    pub const SOLICITED: u8 = 0x40;
    /// It replaces what the receiver knows.
    pub const OVERRIDE: u8 = 0x20;
}

/// Option: the sender's address, in a solicitation.
pub const SOURCE_LINK_LAYER: u8 = 1;
/// Option: the target's address, in an advertisement.
pub const TARGET_LINK_LAYER: u8 = 2;
