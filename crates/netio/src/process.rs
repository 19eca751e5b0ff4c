//! Child processes that cannot outlive the thread that forked them, and waiting with a limit.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

pub use rustix::process::Signal;

use crate::context::context;

/// Starts `command` so that the kernel kills it when the calling *thread* ends.
///
/// On the thread of a [`crate::netns::Namespace`] that ties the child to the namespace's life.
/// The tie does not reach grandchildren, and a set-user-ID program sheds it (prctl(2)).
///
/// # Errors
/// The program cannot be started; the text names it.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, no signal is coming: do not start at all.
        // Its thread alone cannot die, it is waiting in `Command::spawn` for the exec.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec `tie` only makes two system calls: no allocation, no lock.
    let command = unsafe { command.pre_exec(tie) };
    command
        .spawn()
        .map_err(|error| context(format!("start {}", command.get_program().display()), error))
}

/// Sends `signal` to a child that has not been waited for.
///
/// # Errors
/// `NotFound` if the child has exited.
pub fn signal(child: &mut Child, signal: Signal) -> io::Result<()> {
    let operation = format!("send {signal:?} to process {}", child.id());
    try_signal(child, signal).map_err(|error| context(operation, error))
}

fn try_signal(child: &mut Child, signal: Signal) -> io::Result<()> {
    if child.try_wait()?.is_some() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has exited"));
    }
    Ok(pidfd_send_signal(open(child)?, signal)?)
}

/// Waits at most `limit` for `child` to exit, and reaps it; `None` when it still runs.
///
/// # Errors
/// The kernel has no descriptor for the process to give.
pub fn wait_until(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let pidfd = open(child)?;
    let start = now();
    loop {
        let left = limit.saturating_sub(now().duration_since(start));
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => return child.wait().map(Some),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks `child` to end (`SIGTERM`), kills it if it has not within `limit`, and reaps it.
///
/// # Errors
/// The kernel has no descriptor for the process to give.
pub fn terminate(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    match signal(child, Signal::TERM) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(status) = wait_until(child, limit)? {
        return Ok(status);
    }
    child.kill()?;
    child.wait()
}

/// A descriptor of a child that has not been reaped, so that its number is still its own.
fn open(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("not a process number"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[expect(clippy::disallowed_methods, reason = "a shell: the limit is one of real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Child {
        spawn(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap()
    }

    #[test]
    fn waiting_ends_with_the_child_or_the_limit() {
        let mut child = spawn(Command::new("sleep").arg("1000")).unwrap();
        assert_eq!(wait_until(&mut child, SOON).unwrap(), None);
        signal(&mut child, Signal::KILL).unwrap();
        let status = wait_until(&mut child, LONG).unwrap().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(wait_until(&mut child, SOON).unwrap(), Some(status));
    }

    #[test]
    fn an_exited_child_gets_no_signal() {
        let mut child = shell("exit 3");
        assert_eq!(wait_until(&mut child, LONG).unwrap().unwrap().code(), Some(3));
        assert_eq!(signal(&mut child, Signal::TERM).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(terminate(&mut child, LONG).unwrap().code(), Some(3));
    }

    #[test]
    fn terminate_asks_first() {
        let mut child = spawn(Command::new("sleep").arg("1000")).unwrap();
        let status = terminate(&mut child, LONG).unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn terminate_kills_what_does_not_listen() {
        let mut child = shell("trap '' TERM; echo deaf; exec sleep 1000");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "deaf\n");
        let status = terminate(&mut child, SOON).unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_child_dies_with_the_thread_that_forked_it() {
        let forker = std::thread::spawn(|| spawn(Command::new("sleep").arg("1000")).unwrap());
        let mut child = forker.join().unwrap();
        let status = wait_until(&mut child, LONG).unwrap().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = spawn(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("start no-such-program: "), "{error}");
    }
}
