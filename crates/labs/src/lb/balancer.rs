//! An lb-node under test: its files, its process, its own word on what it does.

use crate::lb::PATIENCE;
use crate::lb::bed::Bed;
use crate::lb::mapping::Mapping;
use crate::programs::program;
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use testkit::process::{Process, Signal};
use testkit::wait;

const OPS: &str = "127.0.0.1:9465";

/// A running lb-node.
#[derive(Debug)]
pub struct Balancer<'a> {
    /// Its process.
    pub process: Process,
    bed: &'a Bed,
    directory: TempDir,
}

impl<'a> Balancer<'a> {
    /// Starts lb-node on all arms of the bed and waits until it serves.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(bed: &'a Bed, mappings: &[Mapping]) -> Result<Self, String> {
        Self::start_with(bed, "", mappings)
    }

    /// The same, with more lines in its configuration.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_with(bed: &'a Bed, config: &str, mappings: &[Mapping]) -> Result<Self, String> {
        let mut balancer = Self::launch(bed, config, mappings)?;
        balancer.wait_started()?;
        Ok(balancer)
    }

    /// Starts it and waits for nothing.
    ///
    /// # Errors
    /// The program cannot be started, or files cannot be written.
    pub fn launch(bed: &'a Bed, config: &str, mappings: &[Mapping]) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let resources = directory.path().join("resources");
        let write = || -> io::Result<()> {
            std::fs::create_dir(&resources)?;
            put(&resources, &yaml(mappings))?;
            std::fs::write(directory.path().join("lb-node.toml"), whole(bed, &directory, config))
        };
        write().map_err(|error| error.to_string())?;
        let process = spawn(bed, directory.path()).map_err(|error| error.to_string())?;
        Ok(Self { process, bed, directory })
    }

    /// Ends it as a service manager does, and starts it again.
    ///
    /// # Errors
    /// It does not end well, or does not start.
    pub fn restart(&mut self) -> Result<(), String> {
        let status = self.process.stop()?;
        if !status.success() {
            return Err(format!("lb-node: {status}: {}", self.process.lines().join("\n")));
        }
        self.process = spawn(self.bed, self.directory.path()).map_err(|error| error.to_string())?;
        self.wait_started()
    }

    /// Ends it without a chance to say or do anything (SIGKILL).
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(&mut self) -> Result<(), String> {
        self.process.signal(Signal::KILL)?;
        self.process.wait(PATIENCE).map(|_| ())
    }

    /// Starts it again after [`Balancer::kill`].
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.process = spawn(self.bed, self.directory.path()).map_err(|error| error.to_string())?;
        self.wait_started()
    }

    fn wait_started(&mut self) -> Result<(), String> {
        let started = |line: &str| line.contains("started interfaces");
        self.process.wait_for_line(started, PATIENCE).map(|_| ())
    }

    /// The directory of resources.
    #[must_use]
    pub fn resources(&self) -> PathBuf {
        self.directory.path().join("resources")
    }

    /// Replaces the resources and waits until they are in force.
    ///
    /// # Errors
    /// They are refused or not read.
    pub fn put(&self, mappings: &[Mapping]) -> Result<(), String> {
        let read = self.count_lines("resources read");
        put(&self.resources(), &yaml(mappings)).map_err(|error| error.to_string())?;
        self.wait_lines("resources read", read + 1)
    }

    /// Writes any text in place of the resources, and waits for nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_text(&self, text: &str) -> io::Result<()> {
        put(&self.resources(), text)
    }

    /// Lines of the log that hold a text.
    #[must_use]
    pub fn count_lines(&self, text: &str) -> usize {
        self.process.lines().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until a text stands in so many lines of the log.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_lines(&self, text: &str, count: usize) -> Result<(), String> {
        testkit::bed::wait_for_lines(&self.process, text, count)
    }

    /// `/status`, parsed.
    ///
    /// # Errors
    /// The listener does not answer with JSON.
    pub fn status(&self) -> Result<Value, String> {
        let fetch = || -> io::Result<String> {
            let mut stream = TcpStream::connect(OPS)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET /status HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = self.bed.node.run(fetch).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        serde_json::from_str(body).map_err(|error| format!("{error}: {head}"))
    }

    /// Packets dropped for a reason; 0 if the status cannot be read.
    #[must_use]
    pub fn dropped(&self, reason: &str) -> u64 {
        self.status().unwrap_or_default()["droppedPackets"][reason].as_u64().unwrap_or(0)
    }

    /// Waits until the status shows so many drops for a reason.
    ///
    /// # Errors
    /// It does not; the text shows all reasons that have dropped something.
    pub fn wait_dropped(&self, reason: &str, count: u64) -> Result<(), String> {
        let what = format!("{count} packets dropped as {reason}");
        wait::until(PATIENCE, &what, || self.dropped(reason) >= count)
            .map_err(|error| format!("{error}; {}", self.summary()))
    }

    /// What the status says of a mapping's backend.
    #[must_use]
    pub fn backend(&self, mapping: &str, name: &str) -> Value {
        let status = self.status().unwrap_or_default();
        let mappings = status["mappings"].as_array().cloned().unwrap_or_default();
        let found = mappings.iter().find(|one| one["mapping"].as_str() == Some(mapping));
        let backends = found.and_then(|one| one["backends"].as_array().cloned());
        let mut backends = backends.unwrap_or_default().into_iter();
        backends.find(|one| one["name"].as_str() == Some(name)).unwrap_or_default()
    }

    /// Waits until a backend takes new flows, or does not.
    ///
    /// # Errors
    /// It stays as it is.
    pub fn wait_backend(&self, mapping: &str, name: &str, up: bool) -> Result<(), String> {
        let what = format!("{name} of {mapping}: up={up}");
        let arrived = || self.backend(mapping, name)["up"].as_bool() == Some(up);
        wait::until(PATIENCE, &what, arrived)
            .map_err(|error| format!("{error}; {}", self.summary()))
    }

    /// The counters that are not 0, and the last lines of the log, for the text of a failure.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut status = self.status().unwrap_or_default();
        if let Some(drops) = status["droppedPackets"].as_object_mut() {
            drops.retain(|_, count| count.as_u64() != Some(0));
        }
        let lines = self.process.lines();
        let last = lines.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n");
        format!("{status}\n{last}")
    }
}

fn spawn(bed: &Bed, directory: &Path) -> io::Result<Process> {
    let mut command: Command = program("lb-node");
    command.arg("--config").arg(directory.join("lb-node.toml")).arg("--fix-sysctls");
    bed.node.spawn_command(&mut command)
}

fn yaml(mappings: &[Mapping]) -> String {
    mappings.iter().map(Mapping::yaml).collect()
}

/// Replaces the file in one step that the node sees, as editors do: nobody reads half of it, and
/// one change is one reading.
fn put(resources: &Path, text: &str) -> io::Result<()> {
    let new = resources.with_file_name("new.yaml");
    std::fs::write(&new, text)?;
    std::fs::rename(new, resources.join("lb.yaml"))
}

fn whole(bed: &Bed, directory: &TempDir, more: &str) -> String {
    let resources = directory.path().join("resources");
    let state = directory.path().join("state");
    // Keys that the lab sets itself are not set twice; tables come last.
    let arms = match more.contains("interfaces =") {
        true => String::new(),
        false => format!("interfaces = {:?}\n", bed.arms),
    };
    format!("{arms}resources = {resources:?}\nstate = {state:?}\nops = \"{OPS}\"\n{more}")
}
