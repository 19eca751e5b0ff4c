//! The files of the tree, and the text of those that rules read.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Endings of the files that rules read.
const ENDINGS: [&str; 3] = ["rs", "md", "toml"];
/// Built, not written: `target` here and in the fuzzers' workspace, and what starts with a dot.
const NOT_OURS: &str = "target";

/// One file that a rule may read.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    #[cfg(test)]
    pub(super) fn of(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

/// All of them, in the order of their paths.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    walk(root, &mut |path, place| {
        if ENDINGS.iter().any(|ending| path.ends_with(&format!(".{ending}"))) {
            let text = fs::read_to_string(place).with_context(|| format!("read {path}"))?;
            files.push(File { path: path.to_owned(), text });
        }
        Ok(())
    })?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Shows every file of ours to `see`: its path from the root, and where it is.
pub(super) fn walk(
    root: &Path,
    see: &mut impl FnMut(&str, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    walk_folder(root, "", see)
}

fn walk_folder(
    folder: &Path,
    prefix: &str,
    see: &mut impl FnMut(&str, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let context = || format!("read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == NOT_OURS {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type().with_context(context)?.is_dir() {
            walk_folder(&entry.path(), &format!("{path}/"), see)?;
        } else {
            see(&path, &entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sources_and_leaves_out_what_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for folder in ["src/deep", "target/debug", ".git"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for name in ["src/deep/a.rs", "README.md", "target/debug/b.rs", ".git/c.md", "src/d.bin"] {
            fs::write(root.join(name), "x").unwrap();
        }
        let paths: Vec<_> = read(root).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["README.md", "src/deep/a.rs"]);
    }
}
