//! The other programs that tests run beside ours, and where Debian keeps them.

use std::path::Path;
use std::process::{Command, Stdio};

/// One program or library of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// What a test looks for.
    pub(crate) name: &'static str,
    pub(crate) probe: Probe,
    /// The package of Debian that brings it.
    pub(crate) package: &'static str,
    /// Which tests cannot do without.
    pub(crate) used_by: &'static str,
}

/// How to tell that a peer is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    /// A program of this name in the search path.
    Program,
    /// A module of Debian's own Python; another Python first in `PATH` does not see it.
    DebianPythonModule,
    /// A file at this place.
    File(&'static str),
    /// The package itself: another one may bring a program of the same name.
    DebianPackage,
}

/// Beside them stand those of the BPF object below: `cargo xtask test --install` installs no other packages.
pub(crate) const PEERS: &[Peer] = &[
    program("ip", "iproute2", "every lab"),
    program("nft", "nftables", "labs with guards and routers that drop"),
    program("tcpdump", "tcpdump", "captures read back by another parser"),
    program("ping", "iputils-ping", "checks that a network stands"),
    program("mandoc", "mandoc", "the manual pages"),
    program("shellcheck", "shellcheck", "the shell scripts"),
    program("promtool", "prometheus", "the form of /metrics"),
    Peer {
        name: "scapy",
        probe: Probe::DebianPythonModule,
        package: "python3-scapy",
        used_by: "packets built by another implementation",
    },
    program("ethtool", "ethtool", "offloads of a device"),
    program("nginx", "nginx-light", "backends of the L4 tier"),
    program("curl", "curl", "clients of the L4 tier"),
    program("iperf3", "iperf3", "streams through the L4 tier"),
    program("hping3", "hping3", "echo requests beside those of ping"),
    program("ovs-vswitchd", "openvswitch-switch", "GRE tunnels that end in Open vSwitch"),
    Peer {
        name: "strongSwan",
        probe: Probe::File("/usr/lib/ipsec/charon"),
        package: "strongswan-charon",
        used_by: "GRE inside IPsec",
    },
    program("swanctl", "strongswan-swanctl", "GRE inside IPsec"),
    Peer {
        name: "strongSwan's userspace ESP",
        probe: Probe::File("/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so"),
        package: "libcharon-extra-plugins",
        used_by: "GRE inside IPsec",
    },
    Peer {
        name: "strongSwan's ciphers",
        probe: Probe::File("/usr/lib/ipsec/plugins/libstrongswan-gcm.so"),
        package: "libstrongswan-standard-plugins",
        used_by: "GRE inside IPsec",
    },
    Peer {
        name: "strongSwan's key exchange",
        probe: Probe::File("/usr/lib/ipsec/plugins/libstrongswan-curve25519.so"),
        package: "libstrongswan-extra-plugins",
        used_by: "GRE inside IPsec",
    },
    program("systemd-analyze", "systemd", "the units in deploy/"),
];

/// What `cargo xtask ebpf` builds with.
pub(crate) const COMPILER: &[Peer] = &[
    package("rustc-web", "the BPF object"),
    package("rust-web-src", "the library `core` in the BPF object"),
];

/// What `cargo xtask ebpf --clippy` needs beside them.
pub(crate) const CLIPPY: &[Peer] =
    &[package("rust-web-clippy", "lints of what is built only for BPF")];

/// Debian's Python, whatever comes first in `PATH`.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// Where an ordinary user's `PATH` may not look, though programs like `nft` and `ip` are there.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

const fn program(name: &'static str, package: &'static str, used_by: &'static str) -> Peer {
    Peer { name, probe: Probe::Program, package, used_by }
}

const fn package(name: &'static str, used_by: &'static str) -> Peer {
    Peer { name, probe: Probe::DebianPackage, package: name, used_by }
}

/// The peers that are not there.
pub(crate) fn missing(peers: &[Peer]) -> Vec<Peer> {
    peers.iter().copied().filter(|peer| !peer.is_there()).collect()
}

/// `PATH` with the folders of system programs at its end.
pub(crate) fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<&str> = path.split(':').filter(|folder| !folder.is_empty()).collect();
    folders
        .extend(SYSTEM_FOLDERS.iter().filter(|folder| !path.split(':').any(|has| has == **folder)));
    folders.join(":")
}

impl Peer {
    fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program => is_in(self.name, &search_path()),
            Probe::File(path) => Path::new(path).exists(),
            Probe::DebianPythonModule => Command::new(DEBIAN_PYTHON)
                .args(["-c", &format!("import {}", self.name)])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
            Probe::DebianPackage => Command::new("dpkg-query")
                .args(["--show", "--showformat=${db:Status-Status}", self.package])
                .stdin(Stdio::null())
                .output()
                .is_ok_and(|output| output.stdout == b"installed"),
        }
    }
}

fn is_in(program: &str, path: &str) -> bool {
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_only_in_the_search_path() {
        assert!(is_in("sh", "/nowhere:/bin"));
        assert!(!is_in("sh", "/nowhere"));
        assert!(!is_in("no-such-program", &search_path()));
    }

    #[test]
    fn the_search_path_has_the_system_folders_once() {
        let path = search_path();
        for folder in SYSTEM_FOLDERS {
            assert_eq!(path.split(':').filter(|has| *has == folder).count(), 1, "{path}");
        }
    }

    #[test]
    fn a_package_that_debian_does_not_have_is_missing() {
        assert!(!package("no-such-package", "this test").is_there());
    }

    #[test]
    fn a_module_that_python_has_not_is_missing() {
        let peer = Peer {
            name: "no_such_module",
            probe: Probe::DebianPythonModule,
            package: "none",
            used_by: "this test",
        };
        assert!(!peer.is_there());
    }
}
