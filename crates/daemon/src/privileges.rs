//! Capabilities: say clearly what is missing at start, keep only what is needed afterwards.
//!
//! Capabilities belong to threads and are inherited by new ones, so both functions are for the main
//! thread before it starts any other.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set,
    capability_is_in_bounding_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// What daemons ask of the kernel (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Raw and packet sockets.
    NetRaw,
    /// Interfaces, routes, addresses, large socket buffers.
    NetAdmin,
}

/// A capability that a program needs and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    capability: Capability,
    program: &'static str,
}

/// Checks that the calling thread has `capability`.
///
/// # Errors
/// Tells the user of `program` how to grant it.
pub fn ensure(capability: Capability, program: &'static str) -> Result<(), Missing> {
    let granted = capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.bit()));
    if granted { Ok(()) } else { Err(Missing { capability, program }) }
}

/// Drops every capability but `keep` from all sets of the calling thread for good, and forbids the
/// process to gain privileges by executing a program.
///
/// The bounding set shrinks only if the thread has `CAP_SETPCAP`; if it has not, "no new privileges"
/// alone keeps an executed program from what that set would still allow.
///
/// # Errors
/// If the kernel refuses; the thread may then have lost some capabilities and not others.
pub fn keep_only(keep: &[Capability]) -> io::Result<()> {
    let keep: CapabilitySet = keep.iter().map(|capability| capability.bit()).collect();
    for dropped in all_but(keep) {
        match capability_is_in_bounding_set(dropped) {
            Ok(true) => match remove_capability_from_bounding_set(dropped) {
                Ok(()) | Err(Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            },
            Ok(false) => {}
            // Beyond the last capability that this kernel knows.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
        if capability_is_in_ambient_set(dropped)? {
            configure_capability_in_ambient_set(dropped, false)?;
        }
    }
    let sets = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: sets.permitted & keep,
            permitted: sets.permitted & keep,
            inheritable: sets.inheritable & keep,
        },
    )?;
    Ok(set_no_new_privs(true)?)
}

impl Capability {
    fn bit(self) -> CapabilitySet {
        match self {
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NetRaw => "CAP_NET_RAW",
            Self::NetAdmin => "CAP_NET_ADMIN",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capability, program } = self;
        let file_capability = capability.name().to_ascii_lowercase();
        write!(
            f,
            "{program} needs {capability}: grant it in a systemd unit \
             (AmbientCapabilities={capability}), on the file \
             (setcap {file_capability}+ep $(command -v {program})), or run {program} as root"
        )
    }
}

impl std::error::Error for Missing {}

/// All other capabilities in ascending order, those included that only newer kernels know.
fn all_but(keep: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let each = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    each.filter(move |capability| !keep.contains(*capability))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    /// A field of this thread's status as the kernel shows it (proc(5)).
    fn status(field: &str) -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
        let value = lines.find(|(name, _)| *name == field).unwrap().1;
        u64::from_str_radix(value, 16).unwrap()
    }

    /// Capabilities are a thread's own, so a test may drop them in a thread of its own.
    fn in_a_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(body).join().unwrap())
    }

    #[test]
    fn everything_but_the_kept_capabilities_is_gone() {
        const SETPCAP: u64 = 1 << 8;
        for (keep, mask) in [
            (&[Capability::NetRaw][..], 1 << 13),
            (&[Capability::NetRaw, Capability::NetAdmin], 1 << 13 | 1 << 12),
            (&[], 0),
        ] {
            in_a_thread(|| {
                let sets = ["CapInh", "CapPrm", "CapBnd", "CapAmb"];
                let before = sets.map(status);
                let may_shrink_bounds = status("CapEff") & SETPCAP != 0;
                keep_only(keep).unwrap();
                for (set, before) in sets.into_iter().zip(before) {
                    if set != "CapBnd" || may_shrink_bounds {
                        assert_eq!(status(set), before & mask, "{set} keeping {keep:?}");
                    }
                }
                assert_eq!(status("CapEff"), status("CapPrm"), "keeping {keep:?}");
                assert_eq!(status("NoNewPrivs"), 1);
                keep_only(keep).unwrap();
            });
        }
    }

    #[test]
    fn ambient_capability_that_is_not_kept_is_dropped() {
        in_a_thread(|| {
            let mut sets = capabilities(None).unwrap();
            sets.inheritable |= sets.permitted & CapabilitySet::NET_ADMIN;
            set_capabilities(None, sets).unwrap();
            if configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true).is_err() {
                let required = std::env::var_os("LABS").is_some_and(|value| value == "required");
                assert!(!required, "must not be skipped: no CAP_NET_ADMIN");
                println!("skipped: no CAP_NET_ADMIN");
                return;
            }
            keep_only(&[Capability::NetRaw]).unwrap();
            assert_eq!((status("CapAmb"), status("CapInh")), (0, 0));
        });
    }

    #[test]
    fn missing_capability_is_reported_with_the_ways_to_grant_it() {
        let missing = in_a_thread(|| {
            keep_only(&[]).unwrap();
            ensure(Capability::NetRaw, "gredist").unwrap_err()
        });
        assert_eq!(
            missing.to_string(),
            "gredist needs CAP_NET_RAW: grant it in a systemd unit \
             (AmbientCapabilities=CAP_NET_RAW), on the file \
             (setcap cap_net_raw+ep $(command -v gredist)), or run gredist as root"
        );
    }

    #[test]
    fn present_capability_is_enough() {
        let present = status("CapEff") & (1 << 13) != 0;
        assert_eq!(ensure(Capability::NetRaw, "gredist").is_ok(), present);
    }
}
