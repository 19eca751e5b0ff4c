//! What tcpdump sees on an interface: another parser than ours.

use crate::lb::PATIENCE;
use testkit::lab::Host;
use testkit::process::Process;
use testkit::wait;

/// A running tcpdump.
#[derive(Debug)]
pub struct Capture(Process);

impl Capture {
    /// Captures what matches the filter.
    ///
    /// # Errors
    /// tcpdump does not start.
    pub fn start(host: &Host, link: &str, filter: &str) -> Result<Self, String> {
        let args = ["-l", "-n", "-v", "-e", "--immediate-mode", "-i", link, filter];
        let process = host.spawn("tcpdump", args).map_err(|error| error.to_string())?;
        testkit::bed::wait_for_lines(&process, "listening on", 1)?;
        Ok(Self(process))
    }

    /// Its lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.lines()
    }

    /// Lines that hold a text.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until so many lines hold a text.
    ///
    /// # Errors
    /// They do not come.
    pub fn wait(&self, text: &str, count: usize) -> Result<(), String> {
        let what = format!("{count} packets with \"{text}\"");
        wait::until(PATIENCE, &what, || self.count(text) >= count)
            .map_err(|error| format!("{error}; seen: {}", self.lines().join("\n")))
    }
}
