//! Open vSwitch with its userspace datapath: a real GRE peer that needs no kernel module.

use crate::programs::skip;
use std::io;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use testkit::lab::Host;
use testkit::process::Process;
use testkit::wait;

const PATIENCE: Duration = Duration::from_secs(20);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A switch on a host, with a bridge `phy` that has the host's cable and address.
#[derive(Debug)]
pub struct Ovs<'a> {
    host: &'a Host,
    directory: TempDir,
    // Dropped in this order: the switch before its database.
    switch: Process,
    database: Process,
}

/// Whether the switch can run here; if not, the test is skipped with the reason.
#[must_use]
pub fn can_run() -> bool {
    if !std::path::Path::new(SCHEMA).exists() {
        skip("Open vSwitch is missing: apt-get install openvswitch-switch");
        return false;
    }
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        // Its file belongs to the machine, not to a user namespace.
        skip(&format!("Open vSwitch needs /dev/net/tun: {error}"));
        return false;
    }
    true
}

impl<'a> Ovs<'a> {
    /// Starts the switch and moves the host's cable and addresses into its bridge `phy`. Addresses
    /// are written as `10.77.1.2/24`; the gateway becomes the default route again.
    ///
    /// # Errors
    /// What went wrong, with the output of the program that failed.
    pub fn start(host: &'a Host, link: &str, address: &str, gateway: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(text)?;
        let path = |file: &str| directory.path().join(file).display().to_string();
        finish(host, command(&directory, "ovsdb-tool").args(["create", &path("conf.db"), SCHEMA]))?;
        let database = host
            .spawn_command(command(&directory, "ovsdb-server").args([
                &path("conf.db"),
                &format!("--remote=punix:{}", path("db.sock")),
                &format!("--pidfile={}", path("db.pid")),
                "-vconsole:warn",
            ]))
            .map_err(text)?;
        wait::until(PATIENCE, "the switch's database", || {
            directory.path().join("db.sock").exists()
        })?;
        let socket = format!("unix:{}", path("db.sock"));
        let vsctl = [&format!("--db={socket}"), "--no-wait", "init"];
        finish(host, command(&directory, "ovs-vsctl").args(vsctl))?;
        let switch = host
            .spawn_command(command(&directory, "ovs-vswitchd").args([
                socket.as_str(),
                &format!("--pidfile={}", path("vs.pid")),
                "-vconsole:warn",
            ]))
            .map_err(text)?;
        let ovs = Self { host, directory, switch, database };
        ovs.vsctl("add-br phy -- set bridge phy datapath_type=netdev")?;
        ovs.vsctl(&format!("add-port phy {link}"))?;
        ovs.own(link, "phy", address, gateway).map_err(text)?;
        Ok(ovs)
    }

    /// Adds a bridge `inner` with a GRE port and an address of its own.
    ///
    /// # Errors
    /// The switch or the kernel refuses.
    pub fn tunnel(&self, options: &str, address: &str) -> Result<(), String> {
        self.vsctl("add-br inner -- set bridge inner datapath_type=netdev")?;
        self.vsctl(&format!("add-port inner gre -- set interface gre type=gre {options}"))?;
        let set = || -> io::Result<()> {
            self.host.netlink(|netlink| netlink.set_up("inner"))?;
            self.host.netlink(|netlink| netlink.set_mtu("inner", 1400))?;
            self.host.address("inner", address)
        };
        set().map_err(text)
    }

    /// Runs `ovs-vsctl` with these words.
    ///
    /// # Errors
    /// It fails; the text is its output.
    pub fn vsctl(&self, words: &str) -> Result<(), String> {
        let socket = format!("--db=unix:{}", self.directory.path().join("db.sock").display());
        let mut command = command(&self.directory, "ovs-vsctl");
        finish(self.host, command.arg(socket).arg("--timeout=15").args(words.split(' ')))
    }

    /// Adds a flow to the bridge `inner`.
    ///
    /// # Errors
    /// It fails; the text is its output.
    pub fn flow(&self, flow: &str) -> Result<(), String> {
        let mut command = command(&self.directory, "ovs-ofctl");
        finish(self.host, command.args(["-O", "OpenFlow13", "add-flow", "inner", flow]))
    }

    /// The last lines of both daemons, for messages about failures.
    #[must_use]
    pub fn log(&self) -> String {
        [self.switch.lines(), self.database.lines()].concat().join("\n")
    }

    fn own(&self, link: &str, bridge: &str, address: &str, gateway: &str) -> io::Result<()> {
        let net = address.parse().map_err(io::Error::other)?;
        self.host.netlink(|netlink| netlink.delete_address(link, net))?;
        self.host.netlink(|netlink| netlink.set_up(bridge))?;
        self.host.address(bridge, address)?;
        self.host.route("0.0.0.0/0", gateway)
    }
}

/// A program of Open vSwitch with directories of its own.
fn command(directory: &TempDir, program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
        command.env(variable, directory.path());
    }
    command
}

fn finish(host: &Host, command: &mut Command) -> Result<(), String> {
    let mut process = host.spawn_command(command).map_err(text)?;
    match process.wait(PATIENCE)? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}: {}", process.lines().join("; "))),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
