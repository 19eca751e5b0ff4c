//! Address resolution for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//! | hardware 1 | protocol 0x0800 | 6 | 4 | operation (2) |
//! | sender MAC (6) | sender IPv4 (4) | target MAC (6) | target IPv4 (4) |
//! ```

/// Octets of the message.
pub const BYTES: usize = 28;

/// How a request about IPv4 addresses on Ethernet begins.
pub const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
/// How a reply begins.
pub const REPLY: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 2];

/// Octet offsets inside the message.
pub mod field {
    /// The sender's Ethernet address, six octets.
    pub const SENDER_MAC: usize = 8;
    /// The sender's IPv4 address, four octets; 0.0.0.0 in a probe (RFC 5227 2.1.1).
    pub const SENDER: usize = 14;
    /// The target's Ethernet address, six octets; ignored in a request.
    pub const TARGET_MAC: usize = 18;
    /// The target's IPv4 address, four octets.
    pub const TARGET: usize = 24;
}
