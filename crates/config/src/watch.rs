//! Tells that files of a directory changed.
//!
//! Editors write, rename and delete in bursts, so one change is told once the directory has been
//! quiet for [`QUIET`]. What changed is not told: whoever watches reads the directory anew.

use rustix::fs::inotify;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

/// How long the directory must be quiet before a change is told.
pub const QUIET: Duration = Duration::from_millis(50);

/// A watched directory; readable when something changed.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches the files of `directory`, not those of directories in it.
    ///
    /// # Errors
    /// There is no such directory, or no watch to be had.
    pub fn new(directory: &Path) -> io::Result<Self> {
        use inotify::{CreateFlags, WatchFlags};
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, directory, flags)?;
        Ok(Self(fd))
    }

    /// Takes out what waits, and tells whether there was anything.
    pub fn drain(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut any = false;
        while reader.next().is_ok() {
            any = true;
        }
        any
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_changes_a_directory_is_told_once_it_is_complete() {
        let directory = std::env::temp_dir().join(format!("watch-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let watch = Watch::new(&directory).unwrap();
        assert!(!watch.drain());
        fs::write(directory.join("a"), "1").unwrap();
        assert!(watch.drain() && !watch.drain());
        fs::rename(directory.join("a"), directory.join("b")).unwrap();
        assert!(watch.drain());
        fs::remove_file(directory.join("b")).unwrap();
        assert!(watch.drain());
        fs::remove_dir(&directory).unwrap();
        assert!(Watch::new(&directory).is_err());
    }
}
