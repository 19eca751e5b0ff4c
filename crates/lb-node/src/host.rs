//! The host under the node: its interfaces, what must be switched on, what must not overlap.

use crate::config::Config;
use netio::links::Link;
use netio::netlink::Netlink;
use std::io;
use std::ops::RangeInclusive;
use xdp::Pins;

/// Why the node cannot start on this host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not answer.
    #[error("{0}")]
    Kernel(#[from] io::Error),
    /// Not an Ethernet interface.
    #[error("interface {0} has no Ethernet address")]
    NotEthernet(String),
    /// Another XDP program is there.
    #[error(
        "interface {interface} already runs an XDP program (id {id}): take it off first, as with \
         `ip link set {interface} xdp off`"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// The program.
        id: u32,
    },
    /// Two interfaces that the packet core cannot tell apart.
    #[error("interfaces {0} and {1} have indices that differ by a multiple of 1024")]
    SamePlace(String, String),
    /// The kernel does not route packets that come in by the interface.
    #[error(
        "forwarding is off for {family} on interface {interface}: switch it on with \
         `sysctl -w {sysctl}=1`, or start with --fix-sysctls"
    )]
    NotForwarding {
        /// The interface.
        interface: String,
        /// IPv4 or IPv6.
        family: &'static str,
        /// What to set.
        sysctl: String,
    },
    /// The host's own connections would take ports that clients are translated to.
    #[error(
        "snat_ports {}-{} overlap the host's own ports {}-{} (net.ipv4.ip_local_port_range): \
         choose others, or start with --fix-sysctls",
        snat.start(), snat.end(), own.start(), own.end()
    )]
    PortsOverlap {
        /// The node's.
        snat: RangeInclusive<u16>,
        /// The host's.
        own: RangeInclusive<u16>,
    },
}

/// Looks at the configured interfaces.
///
/// # Errors
/// One is missing, or cannot serve.
pub fn interfaces(
    config: &Config,
    netlink: &mut Netlink,
    pins: Option<&Pins>,
) -> Result<Vec<Link>, Error> {
    let mut links: Vec<Link> = Vec::new();
    for name in &config.interfaces {
        let link = netlink.link(name)?;
        if link.mac.is_none() {
            return Err(Error::NotEthernet(name.clone()));
        }
        let ours = pins.and_then(|pins| xdp::Link::pinned_program(pins, name));
        if let Some(id) = link.program.filter(|id| Some(*id) != ours) {
            return Err(Error::Foreign { interface: name.clone(), id });
        }
        let places = datapath::lb::layout::INTERFACES;
        if let Some(other) = links.iter().find(|other| other.index % places == link.index % places)
        {
            return Err(Error::SamePlace(other.name.clone(), name.clone()));
        }
        links.push(link);
    }
    Ok(links)
}

/// A sysctl that was changed, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its path under /proc/sys.
    pub path: String,
    /// Its value before.
    pub before: String,
    /// Its value now.
    pub after: String,
}

/// Holds the host's settings against the configuration; with `fix` sets them.
///
/// # Errors
/// A setting is wrong and not to be fixed, or cannot be.
pub fn settings(config: &Config, links: &[Link], fix: bool) -> Result<Vec<Changed>, Error> {
    let mut changed = Vec::new();
    for link in links {
        for (family, path) in [
            ("IPv4", format!("net/ipv4/conf/{}/forwarding", link.name)),
            ("IPv6", format!("net/ipv6/conf/{}/forwarding", link.name)),
        ] {
            let Ok(before) = read(&path) else { continue };
            if before != "0" {
                continue;
            }
            if !fix {
                let (interface, sysctl) = (link.name.clone(), path.replace('/', "."));
                return Err(Error::NotForwarding { interface, family, sysctl });
            }
            changed.push(set(path, before, "1".into())?);
        }
    }
    changed.extend(local_ports(config, fix)?);
    Ok(changed)
}

/// Puts settings back as they were; what somebody else has changed since stays.
pub fn restore(changed: &[Changed]) {
    for Changed { path, before, after } in changed.iter().rev() {
        if read(path).is_ok_and(|now| now == *after) {
            let _unwritable = std::fs::write(format!("/proc/sys/{path}"), before);
        }
    }
}

fn local_ports(config: &Config, fix: bool) -> Result<Option<Changed>, Error> {
    const PATH: &str = "net/ipv4/ip_local_port_range";
    let before = read(PATH)?;
    let mut parts = before.split_whitespace().filter_map(|part| part.parse::<u16>().ok());
    let (Some(first), Some(last)) = (parts.next(), parts.next()) else { return Ok(None) };
    let snat = &config.snat_ports;
    if last < *snat.start() || *snat.end() < first {
        return Ok(None);
    }
    let room = own_ports(snat).filter(|_| fix);
    let Some(room) = room else {
        return Err(Error::PortsOverlap { snat: snat.clone(), own: first..=last });
    };
    set(PATH.into(), before, format!("{}\t{}", room.start(), room.end())).map(Some)
}

/// The ports that stay for the host beside these: those below, if they are enough, or above.
fn own_ports(snat: &RangeInclusive<u16>) -> Option<RangeInclusive<u16>> {
    const ENOUGH: u16 = 1024;
    let below = 1024..=snat.start().saturating_sub(1);
    let above = snat.end().saturating_add(1)..=u16::MAX;
    let room = |range: &RangeInclusive<u16>| {
        *range.start() >= 1024 && range.end().saturating_sub(*range.start()) >= ENOUGH
    };
    [below, above].into_iter().find(room)
}

fn read(path: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/{path}"));
    text.map(|text| text.trim().to_owned())
        .map_err(|error| io::Error::new(error.kind(), format!("read sysctl {path}: {error}")))
}

fn set(path: String, before: String, after: String) -> Result<Changed, Error> {
    netio::netns::set_sysctl(&path, &after)?;
    Ok(Changed { after: read(&path)?, path, before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_keeps_ports_beside_the_translated_ones() {
        assert_eq!(own_ports(&(16_384..=65_535)), Some(1024..=16_383));
        assert_eq!(own_ports(&(1024..=30_000)), Some(30_001..=65_535));
        assert_eq!(own_ports(&(1500..=65_000)), None);
    }
}
