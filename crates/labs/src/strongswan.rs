//! strongSwan with ESP in user space: an IPsec edge that needs no kernel transformations.

use crate::programs::skip;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use testkit::lab::Host;
use testkit::process::Process;
use testkit::wait;

const CHARON: &str = "/usr/lib/ipsec/charon";
const PATIENCE: Duration = Duration::from_secs(30);

/// Statements stand on lines of their own, as strongSwan's parser wants them.
const STRONGSWAN_CONF: &str = "charon {
  load_modular = no
  load = random nonce openssl aes gcm sha1 sha2 hmac kdf gmp curve25519 pem pkcs1 pkcs8 x509 pubkey constraints kernel-libipsec kernel-netlink socket-default vici updown counters
  install_routes = yes
  filelog {
    stderr {
      default = 1
    }
  }
  plugins {
    vici {
      socket = unix://DIRECTORY/vici.sock
    }
    kernel-libipsec {
      allow_peer_ts = yes
    }
  }
}
";

/// A running charon with one connection.
#[derive(Debug)]
pub struct StrongSwan<'a> {
    host: &'a Host,
    directory: TempDir,
    charon: Process,
}

/// The two ends of a connection, and what it carries.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// Address of this end.
    pub local: &'a str,
    /// Address of the other.
    pub remote: &'a str,
    /// What goes into the tunnel here, such as `192.0.2.1/32[gre]`.
    pub local_ts: &'a str,
    /// And there.
    pub remote_ts: &'a str,
}

/// Whether strongSwan can run here; if not, the test is skipped with the reason.
#[must_use]
pub fn can_run() -> bool {
    let plugin = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";
    if !Path::new(CHARON).exists() || !Path::new(plugin).exists() {
        skip(
            "strongSwan is missing: apt-get install strongswan-charon strongswan-swanctl \
             libcharon-extra-plugins libstrongswan-extra-plugins libstrongswan-standard-plugins",
        );
        return false;
    }
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/net/tun") {
        // Its file belongs to the machine, not to a user namespace.
        skip(&format!("strongSwan needs /dev/net/tun: {error}"));
        return false;
    }
    true
}

impl<'a> StrongSwan<'a> {
    /// Starts charon and loads the connection.
    ///
    /// # Errors
    /// What went wrong, with the output of the program that failed.
    pub fn start(host: &'a Host, connection: &Connection<'_>) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(text)?;
        let root = directory.path();
        let conf = STRONGSWAN_CONF.replace("DIRECTORY", &root.display().to_string());
        fs::write(root.join("strongswan.conf"), conf).map_err(text)?;
        fs::create_dir(root.join("swanctl")).map_err(text)?;
        fs::write(root.join("swanctl/swanctl.conf"), connection.swanctl()).map_err(text)?;
        // charon's process file has a fixed place: every charon gets a /run of its own.
        let script = format!("mount -t tmpfs none /run && exec {CHARON}");
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", &script])
            .env("STRONGSWAN_CONF", root.join("strongswan.conf"));
        let charon = host.spawn_command(&mut command).map_err(text)?;
        let started = Self { host, directory, charon };
        let socket = started.directory.path().join("vici.sock");
        wait::until(PATIENCE, "charon to listen", || socket.exists())
            .map_err(|error| format!("{error}: {}", started.log()))?;
        started.swanctl(&["--load-all", "--noprompt"])?;
        Ok(started)
    }

    /// Brings the tunnel up.
    ///
    /// # Errors
    /// It does not come up; the text holds charon's log.
    pub fn initiate(&self) -> Result<(), String> {
        self.swanctl(&["--initiate", "--child", "gre", "--timeout", "20"])
            .map_err(|error| format!("{error}: {}", self.log()))
    }

    /// charon's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.charon.lines().join("\n")
    }

    fn swanctl(&self, args: &[&str]) -> Result<(), String> {
        let socket = format!("unix://{}/vici.sock", self.directory.path().display());
        let mut command = Command::new("swanctl");
        command.args(args).args(["--uri", &socket]);
        command.env("SWANCTL_DIR", self.directory.path().join("swanctl"));
        command.env("STRONGSWAN_CONF", self.directory.path().join("strongswan.conf"));
        let mut process = self.host.spawn_command(&mut command).map_err(text)?;
        match process.wait(PATIENCE)? {
            status if status.success() => Ok(()),
            status => Err(format!("swanctl {args:?}: {status}: {}", process.lines().join("; "))),
        }
    }
}

impl Connection<'_> {
    /// The same connection as the other end sees it.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
            local_ts: self.remote_ts,
            remote_ts: self.local_ts,
        }
    }

    fn swanctl(&self) -> String {
        let Self { local, remote, local_ts, remote_ts } = self;
        format!(
            "connections {{
  lab {{
    version = 2
    local_addrs = {local}
    remote_addrs = {remote}
    proposals = aes128-sha256-x25519
    local {{
      auth = psk
      id = {local}
    }}
    remote {{
      auth = psk
      id = {remote}
    }}
    children {{
      gre {{
        local_ts = {local_ts}
        remote_ts = {remote_ts}
        esp_proposals = aes128gcm128-x25519
      }}
    }}
  }}
}}
secrets {{
  ike-lab {{
    secret = \"of this lab alone\"
  }}
}}
"
        )
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
