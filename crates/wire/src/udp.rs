//! The UDP header (RFC 768).

/// Octets of the header.
pub const HEADER_BYTES: usize = 8;

/// Octet offsets inside the header.
pub mod field {
    /// Source port, two octets.
    pub const SOURCE_PORT: usize = 0;
    /// Destination port, two octets.
    pub const DESTINATION_PORT: usize = 2;
    /// Checksum, two octets; zero says that there is none.
    pub const CHECKSUM: usize = 6;
}
