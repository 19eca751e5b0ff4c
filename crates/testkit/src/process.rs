//! A child process under guard: its output collected, its end certain.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use netio::process::Signal;

use crate::wait::Deadline;

/// Most lines kept of one process; the oldest go first.
const MAX_LINES: usize = 100_000;
/// A longer line is cut in pieces. Reports about 10,000 flows are lines of more than a megabyte.
const MAX_LINE_BYTES: u64 = 8 << 20;
/// How many of the last lines an error shows.
const LAST_LINES: usize = 20;
/// What [`Process::stop`] grants before it kills.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long the output of an exited process may take to arrive.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// A running program; dropping it kills and reaps it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

/// What the readers of stdout and stderr share with the guard.
#[derive(Debug, Default)]
struct Output {
    state: Mutex<Collected>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Collected {
    lines: VecDeque<String>,
    /// Of stdout and stderr, how many have not reached their end.
    open_streams: usize,
}

impl Process {
    /// Starts `command` from the calling thread, which it cannot outlive, without input and with
    /// stdout and stderr collected line by line.
    ///
    /// # Errors
    /// The program cannot be started; the text names it.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = netio::process::spawn(command)?;
        let name = command.get_program().to_string_lossy().into_owned();
        let mut process = Self { name, child, output: Arc::default() };
        if let Some(stdout) = process.child.stdout.take() {
            process.collect(stdout)?;
        }
        if let Some(stderr) = process.child.stderr.take() {
            process.collect(stderr)?;
        }
        Ok(process)
    }

    /// Waits until a line satisfies `wanted`, and returns the first that does. Lines written
    /// before the call count.
    ///
    /// # Errors
    /// The deadline passed or the output ended first: the text shows the last lines and whether the
    /// process exited.
    pub fn wait_for_line(
        &mut self,
        wanted: impl Fn(&str) -> bool,
        deadline: Duration,
    ) -> Result<String, String> {
        let end = Deadline::after(deadline);
        let mut collected = self.output.lock();
        let reason = loop {
            if let Some(line) = collected.lines.iter().find(|line| wanted(line)) {
                return Ok(line.clone());
            }
            let left = end.left();
            if collected.open_streams == 0 {
                break "the output ended".to_owned();
            }
            if left.is_zero() {
                break format!("{deadline:?} passed");
            }
            collected = self.output.wait(collected, left);
        };
        let ended = collected.open_streams == 0;
        drop(collected);
        if ended {
            // The exit follows the end of the output; its status belongs in the text.
            let _ = netio::process::wait_until(&mut self.child, end.left().min(DRAIN_LIMIT));
        }
        let report = self.describe();
        Err(format!("no such line from {}: {reason}; {report}", self.name))
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// The process has exited.
    pub fn signal(&mut self, signal: Signal) -> Result<(), String> {
        netio::process::signal(&mut self.child, signal)
            .map_err(|error| format!("{error}; {}", self.describe()))
    }

    /// Waits for the process to exit by itself; its output is then complete.
    ///
    /// # Errors
    /// It still runs after `deadline`; the text shows the last lines.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus, String> {
        match netio::process::wait_until(&mut self.child, deadline) {
            Ok(Some(status)) => {
                self.drain();
                Ok(status)
            }
            Ok(None) => {
                let report = self.describe();
                Err(format!("{} did not exit in {deadline:?}; {report}", self.name))
            }
            Err(error) => Err(format!("wait for {}: {error}", self.name)),
        }
    }

    /// Asks the process to end with `SIGTERM`, kills it if it does not within ten seconds.
    ///
    /// # Errors
    /// The kernel refuses to name the process.
    pub fn stop(&mut self) -> Result<ExitStatus, String> {
        let status = netio::process::terminate(&mut self.child, STOP_LIMIT)
            .map_err(|error| format!("stop {}: {error}", self.name))?;
        self.drain();
        Ok(status)
    }

    /// The lines of stdout and stderr so far, in order of arrival, without line ends.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.lock().lines.iter().cloned().collect()
    }

    /// The process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// The process has exited.
    pub fn rss_bytes(&self) -> io::Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let kilobytes = fs::read_to_string(&path)?
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        let absent = || io::Error::new(io::ErrorKind::NotFound, format!("no VmRSS in {path}"));
        kilobytes.map(|kilobytes: u64| kilobytes * 1024).ok_or_else(absent)
    }

    /// Reads `stream` on a thread of its own until its end.
    fn collect(&self, stream: impl Read + Send + 'static) -> io::Result<()> {
        let output = Arc::clone(&self.output);
        output.lock().open_streams += 1;
        thread::Builder::new().name(format!("{:.11}.out", self.name)).spawn(move || {
            let mut stream = BufReader::new(stream);
            while let Some(line) = next_line(&mut stream) {
                output.push(line);
            }
            output.end_of_stream();
        })?;
        Ok(())
    }

    /// Waits for the readers after the process exited. A grandchild may hold the pipes: not long.
    fn drain(&self) {
        let end = Deadline::after(DRAIN_LIMIT);
        let mut collected = self.output.lock();
        while collected.open_streams > 0 && !end.left().is_zero() {
            collected = self.output.wait(collected, end.left());
        }
    }

    fn describe(&mut self) -> String {
        let fate = match self.child.try_wait() {
            Ok(Some(status)) => format!("{} exited ({status})", self.name),
            Ok(None) => format!("{} is running", self.name),
            Err(error) => format!("{} is in an unknown state ({error})", self.name),
        };
        let collected = self.output.lock();
        let skipped = collected.lines.len().saturating_sub(LAST_LINES);
        let last: Vec<_> = collected.lines.iter().skip(skipped).map(String::as_str).collect();
        format!("{fate}; its last lines:\n  {}", last.join("\n  "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.describe());
        }
        // Both fail only for a process that is gone and reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        guard: MutexGuard<'a, Collected>,
        limit: Duration,
    ) -> MutexGuard<'a, Collected> {
        self.changed.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    fn push(&self, line: String) {
        let mut collected = self.lock();
        if collected.lines.len() == MAX_LINES {
            collected.lines.pop_front();
        }
        collected.lines.push_back(line);
        self.changed.notify_all();
    }

    fn end_of_stream(&self) {
        self.lock().open_streams -= 1;
        self.changed.notify_all();
    }
}

/// The next line without its end; `None` at the end of the stream or when it breaks.
fn next_line(stream: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    let read = stream.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).ok()?;
    if read == 0 {
        return None;
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(50);

    fn shell(script: &str) -> Process {
        Process::spawn(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn lines_of_both_streams_are_collected() {
        let mut process = shell("echo out; echo err >&2; printf unfinished; exit 3");
        assert_eq!(process.wait(LONG).unwrap().code(), Some(3));
        let mut lines = process.lines();
        lines.sort();
        assert_eq!(lines, ["err", "out", "unfinished"]);
    }

    #[test]
    fn a_line_is_found_before_and_after_it_is_written() {
        let mut process = shell("echo first; echo ready 7; exec sleep 1000");
        let line = process.wait_for_line(|line| line.starts_with("ready"), LONG).unwrap();
        assert_eq!(line, "ready 7");
        assert_eq!(process.wait_for_line(|line| line == "first", SHORT).unwrap(), "first");
    }

    #[test]
    fn a_missing_line_is_reported_with_the_last_lines_and_the_exit() {
        let mut process = shell("for i in $(seq 30); do echo line $i; done; exit 4");
        process.wait(LONG).unwrap();
        let error = process.wait_for_line(|line| line == "ready", LONG).unwrap_err();
        assert!(error.contains("the output ended"), "{error}");
        assert!(error.contains("exited (exit status: 4)"), "{error}");
        assert!(error.contains("line 11\n") && error.ends_with("line 30"), "{error}");
        assert!(!error.contains("line 10\n"), "{error}");
    }

    #[test]
    fn a_process_that_runs_on_is_reported_as_running() {
        let mut process = shell("echo started; exec sleep 1000");
        process.wait_for_line(|line| line == "started", LONG).unwrap();
        let error = process.wait_for_line(|line| line == "ready", SHORT).unwrap_err();
        assert!(error.contains("50ms passed") && error.contains("is running"), "{error}");
        assert!(process.wait(SHORT).unwrap_err().contains("did not exit in 50ms"));
    }

    #[test]
    fn stop_lets_the_process_say_goodbye() {
        let mut process = shell("trap 'echo bye; exit 5' TERM; echo started; while :; do :; done");
        process.wait_for_line(|line| line == "started", LONG).unwrap();
        assert_eq!(process.stop().unwrap().code(), Some(5));
        assert_eq!(process.lines().last().unwrap(), "bye");
        assert!(process.signal(Signal::TERM).unwrap_err().contains("exited"));
    }

    #[test]
    fn memory_is_reported_while_it_runs() {
        let mut process = shell("echo started; exec sleep 1000");
        process.wait_for_line(|line| line == "started", LONG).unwrap();
        assert!(process.rss_bytes().unwrap() >= 4096);
        process.stop().unwrap();
        assert!(process.rss_bytes().is_err());
    }

    #[test]
    fn dropping_the_guard_leaves_no_process() {
        let process = shell("exec sleep 1000");
        let entry = format!("/proc/{}", process.id());
        assert!(fs::exists(&entry).unwrap());
        drop(process);
        assert!(!fs::exists(&entry).unwrap());
    }

    #[test]
    fn only_the_newest_lines_are_kept() {
        let mut process = shell(&format!("seq {}", MAX_LINES + 5));
        process.wait(LONG).unwrap();
        let lines = process.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (MAX_LINES, "6"));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut process = shell(&format!("head -c {} /dev/zero | tr '\\0' x", MAX_LINE_BYTES + 9));
        process.wait(LONG).unwrap();
        let lengths: Vec<_> = process.lines().iter().map(|line| line.len() as u64).collect();
        assert_eq!(lengths, [MAX_LINE_BYTES, 9]);
    }
}
