//! What outlives the process: maps and links, as files of a BPF file system.
//!
//! ```text
//! <directory>/<layout>/MAP   one folder for each layout of the records: what another layout has
//!                            written is never read
//! <directory>/links/NAME     one an interface: the program in it is replaced in one step
//! <directory>/stages         the program table of the stages in force: the kernel empties it when
//!                            nobody holds it
//! ```

use crate::{Error, Sizes};
use datapath::lb::layout;
use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `BPF_FS_MAGIC` of statfs(2).
const BPF_FS: u64 = 0xcafe_4a11;

/// A directory of pins.
#[derive(Clone, Debug)]
pub struct Pins {
    directory: PathBuf,
}

impl Pins {
    /// Uses this directory; mounts a BPF file system there if there is none.
    ///
    /// # Errors
    /// It cannot be made or mounted: the latter takes `CAP_SYS_ADMIN`.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Pins { directory: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        if !is_bpf(directory).map_err(failed)? {
            mount("bpf", directory, "bpf", MountFlags::empty(), None::<&std::ffi::CStr>)
                .map_err(|errno| failed(errno.into()))?;
        }
        fs::create_dir_all(directory.join("links")).map_err(failed)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The folder of the maps of these sizes and the layout of this build.
    pub(crate) fn maps(&self, sizes: &Sizes) -> Result<PathBuf, Error> {
        let folder = self.directory.join(format!("{:016x}", layout::abi() ^ sizes.fingerprint()));
        let failed = |source| Error::Pins { directory: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }

    /// Where an interface's link is.
    pub(crate) fn link(&self, interface: &str) -> PathBuf {
        self.directory.join("links").join(interface)
    }

    /// Where the program table in force is, and where the next one waits.
    pub(crate) fn stages(&self) -> [PathBuf; 2] {
        [self.directory.join("stages"), self.directory.join("stages-next")]
    }

    /// The interfaces that have a link.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn interfaces(&self) -> Result<Vec<String>, Error> {
        let folder = self.directory.join("links");
        let failed = |source| Error::Pins { directory: folder.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// Takes everything away: the programs leave their interfaces, and the sessions are gone.
    ///
    /// # Errors
    /// A file cannot be taken away.
    pub fn remove(&self) -> Result<(), Error> {
        let failed = |source| Error::Pins { directory: self.directory.clone(), source };
        // Links first: no program runs without its stages.
        for interface in self.interfaces()? {
            fs::remove_file(self.link(&interface)).map_err(failed)?;
        }
        for stages in self.stages() {
            let _absent = fs::remove_file(stages);
        }
        self.remove_other_maps(Path::new("")).map_err(failed)
    }

    /// Takes away the maps of other layouts and sizes.
    pub(crate) fn remove_other_maps(&self, kept: &Path) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let maps = path.is_dir() && path.file_name().is_some_and(|name| name != "links");
            if maps && path != kept {
                fs::remove_dir_all(path)?;
            }
        }
        Ok(())
    }
}

fn is_bpf(directory: &Path) -> io::Result<bool> {
    let kind = statfs(directory)?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| kind & 0xffff_ffff == BPF_FS))
}
