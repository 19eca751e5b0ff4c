//! What the packet core asks of the world: helpers and maps in the kernel, a mirror on the host,
//! fixed values in tests.

use wire::Address;

/// What the routing table says of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fib {
    /// Octets of the largest IP packet that can be sent there: the path MTU where it is known,
    /// else the route's.
    pub mtu: u32,
    /// The host's own source address towards it.
    pub source: Address,
}

/// Messages of our own making, each kind with a rate limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// An ICMP error to the source of a packet (RFC 1812 4.3.2.8, RFC 4443 2.4 f).
    Answer,
    /// An ICMP error copied to every backend, because its quote does not tell which one it is for.
    Everyone,
}

/// What every stage of the packet core needs.
pub trait Tables {
    /// The route to `destination`; `None` if there is none.
    fn fib(&mut self, destination: Address) -> Option<Fib>;

    /// An IPv4 identification that was not used lately towards `destination` (RFC 6864 4.3).
    /// Zero leaves the choice to the sending host's stack.
    fn identification(&mut self, destination: Address) -> u16;

    /// Takes one message out of the budget; `false` if it is used up.
    fn admit(&mut self, budget: Budget) -> bool;
}
