//! Network namespaces without names: a descriptor, and one thread that lives inside.
//!
//! ```text
//!  caller --run(f)--> [ thread of the namespace ] --fork--> children, threads, sockets
//!         <--result--
//! ```
//!
//! Whatever a job creates on that thread belongs to the namespace for good: a socket may be carried
//! away and used from anywhere, and child processes and new threads inherit the namespace.
//! Nothing is registered under `/run/netns`, so nothing is left behind: when the last descriptor,
//! thread and socket are gone, the kernel destroys the namespace with its links.
//!
//! Does not make a mount namespace: `/sys` keeps showing the links of the namespace it was mounted
//! in, while `/proc/sys/net` and `/proc/thread-self/net` follow the thread.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Component, Path};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::context::context;

/// A network namespace and the thread that lives in it.
///
/// Dropping it ends the thread, which kills the children spawned through
/// [`crate::process::spawn`], and closes the descriptor.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    fd: OwnedFd,
    /// `None` only while dropping.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Work for the namespace's thread; `done` is sent, or dropped, after `work` is gone.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    done: Sender<()>,
}

impl Namespace {
    /// Creates an empty namespace: only `lo`, and that is down.
    ///
    /// `name` appears in errors and as the name of the thread, nowhere else.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN` the kernel refuses with `EPERM`; see [`enter_user_namespace`].
    pub fn new(name: &str) -> io::Result<Self> {
        let failed = |error: io::Error| context(format!("create network namespace {name}"), error);
        if name.contains('\0') {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "name contains NUL")));
        }
        let (jobs, queue) = mpsc::channel();
        let (entered, born) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || live(&entered, &queue))
            .map_err(failed)?;
        let fd = match born.recv() {
            Ok(Ok(fd)) => fd,
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err(failed(io::Error::other("its thread ended"))),
        };
        Ok(Self { name: name.to_owned(), fd, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `f` on the namespace's thread and returns its result.
    ///
    /// Jobs run one after the other, so a long one delays the rest: create sockets inside and use
    /// them outside. A job may call `run` again.
    ///
    /// # Panics
    /// A panic of `f` continues in the caller.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        if self.is_current() {
            return f();
        }
        let mut outcome: Option<thread::Result<R>> = None;
        let slot = &mut outcome;
        let work: Box<dyn FnOnce() + Send + '_> =
            Box::new(move || *slot = Some(catch_unwind(AssertUnwindSafe(f))));
        // SAFETY: only the lifetime changes. `finish` below returns after the `Job` has been
        // consumed or dropped, on every path, and nothing between here and there can return or
        // unwind; so `work` never outlives what it borrows.
        let work = unsafe {
            std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send + 'static>>(
                work,
            )
        };
        self.finish(work);
        match outcome {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => resume_unwind(self.dead()),
        }
    }

    /// The namespace, for `setns`, or as the target of a new link.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The name given at creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands `work` to the thread and returns when it no longer exists.
    fn finish(&self, work: Box<dyn FnOnce() + Send>) {
        let (done, gone) = mpsc::channel();
        if let Some(jobs) = &self.jobs
            && jobs.send(Job { work, done }).is_ok()
        {
            // An error says that `done` was dropped: the thread dropped the job unfinished.
            let _ = gone.recv();
        }
    }

    fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    fn dead(&self) -> Box<dyn Any + Send> {
        Box::new(format!("the thread of network namespace {} has ended", self.name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        // Never the namespace's own thread: `run` borrows the namespace while a job runs.
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of its jobs; there is nobody to tell of another.
            let _ = thread.join();
        }
    }
}

/// The life of a namespace's thread: enter, report, work until nobody can send a job.
fn live(entered: &Sender<io::Result<OwnedFd>>, queue: &Receiver<Job>) {
    let fd = enter_new_namespace();
    let inside = fd.is_ok();
    if entered.send(fd).is_err() || !inside {
        return;
    }
    for Job { work, done } in queue {
        work();
        // The caller waits for it; if it does not, there is nobody to tell.
        let _ = done.send(());
    }
}

/// Moves the calling thread to a new network namespace and opens it.
fn enter_new_namespace() -> io::Result<OwnedFd> {
    // SAFETY: NEWNET leaves the descriptor table shared, the only hazard of `unshare_unsafe`.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Makes an ordinary user root of a new user namespace that owns a new network namespace.
///
/// The caller becomes uid 0 and gid 0 inside, keeps its files outside, and may then create
/// [`Namespace`]s. It must be the first thing a program does: a user namespace cannot be entered
/// by a process with several threads.
///
/// # Errors
/// Several threads, or a kernel that refuses user namespaces: the text names the settings to check.
pub fn enter_user_namespace() -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        let reason = format!(
            "enter a user namespace: the process has {threads} threads, it must do so while it has one"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    // SAFETY: NEWUSER and NEWNET leave the descriptor table shared, the only hazard of
    // `unshare_unsafe`.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }
        .map_err(|error| context(USER_NAMESPACE_REFUSED, error))?;
    // `setgroups` must be denied before an unprivileged gid_map is accepted: user_namespaces(7).
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))
}

const USER_NAMESPACE_REFUSED: &str = "enter a user namespace (check the sysctls \
    kernel.unprivileged_userns_clone = 1, user.max_user_namespaces > 0, \
    kernel.apparmor_restrict_unprivileged_userns = 0)";

/// Sets a sysctl, `net/ipv4/ip_forward` for example; those under `net` are the calling thread's
/// namespace's, so call it inside [`Namespace::run`].
///
/// # Errors
/// A path that leaves `/proc/sys`, an unknown sysctl, a value that the kernel refuses.
pub fn set_sysctl(path: &str, value: &str) -> io::Result<()> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        let reason = format!("set sysctl {path}: not a path below /proc/sys");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    fs::write(Path::new("/proc/sys").join(relative), value)
        .map_err(|error| context(format!("set sysctl {path} to {value}"), error))
}

fn write(path: &str, value: &str) -> io::Result<()> {
    fs::write(path, value).map_err(|error| context(format!("write {value:?} to {path}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_may_not_enter_a_user_namespace() {
        let (_keep, queue) = mpsc::channel::<()>();
        let second = thread::spawn(move || queue.recv());
        let error = enter_user_namespace().unwrap_err();
        drop(_keep);
        let _ = second.join();
        assert!(error.to_string().contains("threads"), "{error}");
    }

    #[test]
    fn a_sysctl_path_stays_below_proc_sys() {
        for path in ["../etc/passwd", "/proc/sys/net/ipv4/ip_forward", "net/../../x"] {
            let error = set_sysctl(path, "1").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }

    #[test]
    fn an_unknown_sysctl_is_named() {
        let error = set_sysctl("net/ipv4/no_such_thing", "1").unwrap_err();
        assert!(error.to_string().starts_with("set sysctl net/ipv4/no_such_thing to 1"), "{error}");
    }
}
