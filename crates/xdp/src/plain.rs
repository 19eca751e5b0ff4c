//! Records of maps as plain octets.

use aya::Pod;
use datapath::lb::capture::Outcome;
use datapath::lb::layout::{
    Backend, Hop, Interface, Levels, Owned, Row, Service, ServiceKey, Session, Settings, Source,
    Traffic,
};
use wire::Address;

/// A type whose octets are its value.
///
/// # Safety
/// `repr(C)` or `repr(transparent)` without padding and without a niche: every octet pattern is a
/// value, and every octet of a value is initialised.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($record:ty),+ $(,)?) => {
        // SAFETY: `datapath::lb::layout` promises `repr(C)` without padding; the fields are
        // integers and arrays of them.
        $(unsafe impl Plain for $record {})+
    };
}

plain!(
    Outcome, u32, u64, [u64; 8], [u32; 2], Address, Backend, Hop, Interface, Levels, Owned, Row,
    Service, ServiceKey, Session, Settings, Source, Traffic,
);

/// A record on its way through a map.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Octets<T: Plain>(pub T);

// SAFETY: `Plain` promises what `Pod` asks for.
unsafe impl<T: Plain> Pod for Octets<T> {}
