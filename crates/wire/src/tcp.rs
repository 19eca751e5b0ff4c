//! The TCP header (RFC 9293 3.1), as far as a middlebox reads it.

/// Octets of a header without options.
pub const HEADER_BYTES: usize = 20;

/// Octet offsets inside the header.
pub mod field {
    /// Source port, two octets.
    pub const SOURCE_PORT: usize = 0;
    /// Destination port, two octets.
    pub const DESTINATION_PORT: usize = 2;
    /// Sequence number, four octets.
    pub const SEQUENCE: usize = 4;
    /// Acknowledgement number, four octets.
    pub const ACKNOWLEDGEMENT: usize = 8;
    /// Data offset: the upper four bits, in units of four octets.
    pub const DATA_OFFSET: usize = 12;
    /// Control bits.
    pub const FLAGS: usize = 13;
    /// Checksum, two octets.
    pub const CHECKSUM: usize = 16;
}

/// Control bits.
pub mod flag {
    /// No more data from sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement field is significant.
    pub const ACK: u8 = 0x10;
}

/// Option kinds (IANA tcp-parameters).
pub mod option {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation: one octet without a length.
    pub const NO_OPERATION: u8 = 1;
    /// Maximum segment size: four octets in all (RFC 9293 3.7.1).
    pub const MAXIMUM_SEGMENT_SIZE: u8 = 2;
}
