//! A gredist under test: its configuration file, its process, its own word on what it does.

use netio::process::Signal;
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use testkit::bed::{Bed, wait_for_lines};
use testkit::process::Process;
use testkit::wait;

/// Where the ops listener is, inside the edge's namespace.
pub const OPS: &str = "127.0.0.1:9147";
/// Fast checks, so that a lab does not wait for the field's 2 s.
pub const FAST: &str = "check_interval=100ms\ncheck_timeout=100ms\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// A running gredist.
#[derive(Debug)]
pub struct Distributor<'a> {
    /// Its process.
    pub process: Process,
    bed: &'a Bed,
    directory: TempDir,
}

impl<'a> Distributor<'a> {
    /// Starts gredist on the bed's edge and waits until this many backends are up. Fast checks and
    /// the ops listener are added to the configuration.
    ///
    /// # Errors
    /// It does not start, or the backends do not come up.
    pub fn start(bed: &'a Bed, config: &str, up: usize) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = directory.path().join("lab.conf");
        std::fs::write(&file, whole(config)).map_err(|error| error.to_string())?;
        let process = bed.distributor(&file).map_err(|error| error.to_string())?;
        let started = Self { process, bed, directory };
        wait_for_lines(&started.process, "started", 1)?;
        wait_for_lines(&started.process, "backend came up", up)?;
        Ok(started)
    }

    /// The configuration file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("lab.conf")
    }

    /// Replaces the configuration and waits until it runs.
    ///
    /// # Errors
    /// The reload is refused or does not happen.
    pub fn reload(&mut self, config: &str) -> Result<(), String> {
        std::fs::write(self.file(), whole(config)).map_err(|error| error.to_string())?;
        let before = self.count_lines("configuration reloaded");
        self.process.signal(Signal::HUP)?;
        wait_for_lines(&self.process, "configuration reloaded", before + 1)
    }

    /// Lines of the log that hold a text.
    #[must_use]
    pub fn count_lines(&self, text: &str) -> usize {
        self.process.lines().iter().filter(|line| line.contains(text)).count()
    }

    /// A page of the ops listener: status line and headers, then the body.
    ///
    /// # Errors
    /// The listener does not answer.
    pub fn page(&self, path: &str) -> io::Result<(String, String)> {
        let fetch = || -> io::Result<String> {
            let mut stream = TcpStream::connect(OPS)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = self.bed.edge.run(fetch)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Ok((head.to_owned(), body.to_owned()))
    }

    /// `/status`, parsed.
    ///
    /// # Errors
    /// The listener does not answer with JSON.
    pub fn status(&self) -> Result<Value, String> {
        let (head, body) = self.page("/status").map_err(|error| error.to_string())?;
        serde_json::from_str(&body).map_err(|error| format!("{error}: {head}"))
    }

    /// Packets dropped for a reason; 0 if the status cannot be read.
    #[must_use]
    pub fn dropped(&self, reason: &str) -> u64 {
        let status = self.status().unwrap_or_default();
        status["droppedPackets"][reason].as_u64().unwrap_or(0)
    }

    /// A number of the status by its name; 0 if there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.status().unwrap_or_default()[name].as_u64().unwrap_or(0)
    }

    /// Waits until a drop counter reaches a value.
    ///
    /// # Errors
    /// It does not; the text shows all counters.
    pub fn wait_dropped(&self, reason: &str, count: u64) -> Result<(), String> {
        let what = format!("{count} packets dropped as {reason}");
        wait::until(PATIENCE, &what, || self.dropped(reason) >= count).map_err(|error| {
            let drops = self.status().unwrap_or_default()["droppedPackets"].to_string();
            format!("{error}; drops: {drops}")
        })
    }
}

fn whole(config: &str) -> String {
    // A configuration that sets its own checks keeps them.
    let checks = if config.contains("check_interval") { "" } else { FAST };
    format!("{config}{checks}ops={OPS}\n")
}
