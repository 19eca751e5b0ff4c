//! The Ethernet II header and 802.1Q tags (IEEE 802.3 3.2, IEEE 802.1Q 9.6).
//!
//! ```text
//! | destination (6) | source (6) | [0x8100 or 0x88a8 | TCI (2)] ... | EtherType (2) |
//! ```

/// Octets of a header without tags.
pub const HEADER_BYTES: usize = 14;
/// Octets of one tag.
pub const TAG_BYTES: usize = 4;

/// Octet offsets inside the header.
pub mod field {
    /// Destination address, six octets.
    pub const DESTINATION: usize = 0;
    /// Source address, six octets.
    pub const SOURCE: usize = 6;
    /// EtherType, or the protocol identifier of the first tag.
    pub const KIND: usize = 12;
}

/// EtherTypes (IANA ieee-802-numbers).
pub mod kind {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Address resolution (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// Customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
}

/// The part of a tag control information that names the VLAN.
pub const VLAN_ID: u16 = 0x0fff;

/// An Ethernet address.
pub type Mac = [u8; 6];
