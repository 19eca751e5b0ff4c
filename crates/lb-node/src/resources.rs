//! The directory of resources: every YAML file in it, read as one whole.

use lb_api::{NodeView, Placed, Problems, Resources, Source};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files of a directory; more are an error, as a wrong directory would be.
pub const MAX_FILES: usize = 10_000;
/// Octets of one file.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Why the directory gives no resources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in it is wrong.
    #[error("{0}")]
    Problems(Problems),
}

/// The files of a directory, as they were when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    /// Reads every file whose name ends in `.yaml` or `.yml`, in the order of their names. Other
    /// files, and those whose name begins with a dot, are not resources.
    ///
    /// # Errors
    /// The directory or a file cannot be read.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Unreadable { path, source }
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
            let path = entry.map_err(unreadable(directory))?.path();
            if is_resource(&path) {
                paths.push(path);
            }
        }
        if paths.len() > MAX_FILES {
            let source = io::Error::other(format!("more than {MAX_FILES} files"));
            return Err(unreadable(directory)(source));
        }
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let size = fs::metadata(&path).map_err(unreadable(&path))?.len();
            if size > MAX_FILE_BYTES {
                let source = io::Error::other(format!("larger than {MAX_FILE_BYTES} octets"));
                return Err(unreadable(&path)(source));
            }
            let text = fs::read(&path).map_err(unreadable(&path))?;
            files.push((path.display().to_string(), text));
        }
        Ok(Self(files))
    }

    /// The resources in them, held against the node.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn resources(&self, node: &NodeView<'_>) -> Result<Resources, Error> {
        let sources: Vec<_> = self.0.iter().map(|(file, text)| Source { file, text }).collect();
        let resources = Resources::read(&sources).map_err(Error::Problems)?;
        resources.check_against(node).map_err(Error::Problems)?;
        Ok(resources)
    }

    /// Keeps the files as one, to be read by [`Files::kept`] after a restart.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, state: &Path) -> io::Result<()> {
        fs::create_dir_all(state)?;
        let mut whole = Vec::new();
        for (_, text) in &self.0 {
            whole.extend_from_slice(b"---\n");
            whole.extend_from_slice(text);
            if !text.ends_with(b"\n") {
                whole.push(b'\n');
            }
        }
        let (new, place) = (state.join(".last-good.new"), state.join(LAST_GOOD));
        fs::write(&new, whole)?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(new, place)
    }

    /// The files that were kept last.
    ///
    /// # Errors
    /// There are none.
    pub fn kept(state: &Path) -> Result<Self, Error> {
        let path = state.join(LAST_GOOD);
        match fs::read(&path) {
            Ok(text) => Ok(Self(vec![(path.display().to_string(), text)])),
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of the file that is kept.
const LAST_GOOD: &str = "last-good.yaml";

fn is_resource(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    yaml && !hidden && path.is_file()
}

/// The name and place of each mapping.
pub fn places(resources: &Resources) -> impl Iterator<Item = (String, &Placed)> {
    resources.placed().iter().map(|placed| (placed.mapping.name(), placed))
}
