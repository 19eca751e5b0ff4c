//! What builds for BPF: Debian's newer Rust compiler, its sources, and bpf-linker.
//!
//! The library `core` is built with it, for no `core` for BPF is delivered. Debian's compiler is
//! asked for by its place: it stands beside the one that builds the programs, not before it.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::command::{cargo, root};
use crate::report::Outcome;
use crate::tool::Tool;
use crate::{Missing, apt, peers};

/// Little-endian, as the machines are that this runs on.
pub(super) const TARGET: &str = "bpfel-unknown-none";
/// The profile in the root manifest.
pub(super) const PROFILE: &str = "bpf";

/// The compiler that built the object; another one makes another object.
const RELEASE: &str = "1.96.0";
const RUSTC: &str = "/usr/bin/rustc";
const CLIPPY: &str = "/usr/bin/clippy-driver";
/// The other crates are linted on the host; in the form that `cargo clippy` hands it over.
const NO_DEPENDENCIES: &str = "--no-deps__CLIPPY_HACKERY__";
const LINKER: Tool = Tool { name: "bpf-linker", version: "0.10.0", minutes: "about 1 minute" };
/// `cargo xtask ebpf` says so.
const CANNOT: &str = "the BPF object cannot be built";
/// The library's sources where the compiler looks for them, below its root.
const LIBRARY: &str = "lib/rustlib/src/rust";

/// Programs and places, all there.
#[derive(Debug)]
pub(super) struct Toolchain {
    linker: PathBuf,
    /// Where the compiler is installed.
    sysroot: PathBuf,
    /// The library of the compiler, which the linker opens as well.
    llvm: PathBuf,
}

impl Toolchain {
    /// Looks for it, and installs what is missing if asked to; `Err` says what is not there.
    pub(super) fn find(missing: Missing) -> anyhow::Result<Result<Self, String>> {
        if let Outcome::Skipped(why) = apt::provide(missing, peers::COMPILER, CANNOT)? {
            return Ok(Err(why));
        }
        let version = said_by(Command::new(RUSTC).arg("-vV"))?;
        let release = field(&version, "release: ")?;
        if release != RELEASE {
            return Ok(Err(format!(
                "{RUSTC} is of release {release}, and the object was built by {RELEASE}: to move \
                 on, set RELEASE in crates/xtask/src/ebpf/toolchain.rs and rebuild"
            )));
        }
        let Some(linker) = LINKER.find(missing)? else {
            return Ok(Err(LINKER.how_to_install("ebpf")));
        };
        let sysroot = PathBuf::from(said_by(Command::new(RUSTC).args(["--print", "sysroot"]))?);
        let llvm = llvm(&sysroot, field(&version, "LLVM version: ")?)?;
        Ok(Ok(Self { linker, sysroot, llvm }))
    }

    /// The command that builds the object below `work`.
    pub(super) fn build(&self, work: &Path) -> anyhow::Result<Command> {
        self.cargo("build", work)
    }

    /// The command that runs clippy on what is built only for BPF; `Err` says what is not there.
    pub(super) fn clippy(
        &self,
        work: &Path,
        missing: Missing,
    ) -> anyhow::Result<Result<Command, String>> {
        if let Outcome::Skipped(why) = apt::provide(missing, peers::CLIPPY, "clippy cannot run")? {
            return Ok(Err(why));
        }
        let mut command = self.cargo("check", work)?;
        // What `cargo clippy` does, with the driver that belongs to this compiler.
        command.env("RUSTC_WORKSPACE_WRAPPER", CLIPPY).env("CLIPPY_ARGS", NO_DEPENDENCIES);
        Ok(Ok(command))
    }

    fn cargo(&self, task: &str, work: &Path) -> anyhow::Result<Command> {
        let mut command = cargo([task, "--locked", "--package", "ebpf", "-Z", "build-std=core"]);
        command.args(["--target", TARGET, "--profile", PROFILE, "--target-dir"]).arg(work);
        command
            .env("RUSTC", RUSTC)
            // `-Z` is for nightly compilers, and for those who say this.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags()?.join("\x1f"))
            .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &self.linker)
            .env("LD_LIBRARY_PATH", self.only_llvm(work)?)
            // Whose registers `aya-ebpf` describes: those of one machine, wherever it is built.
            .env("AYA_BPF_TARGET_ARCH", "x86_64")
            .env("CARGO_INCREMENTAL", "0");
        for wrapper in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            command.env_remove(wrapper);
        }
        Ok(command)
    }

    fn flags(&self) -> anyhow::Result<Vec<String>> {
        let mut flags: Vec<String> = [
            "-Ctarget-cpu=v3",
            "-Ctarget-feature=+alu32,+allows-misaligned-mem-access",
            // The workspace's lints are errors, as they are in `cargo xtask check`.
            "-Dwarnings",
            "-Cdebuginfo=2",
            "-Clink-arg=--btf",
            // The verifier's messages quote source lines. The compiler hands over those of the
            // crate that it compiles; the others are named, not quoted.
            "-Zdwarf-version=5",
            "-Zembed-source=yes",
        ]
        .map(str::to_owned)
        .into();
        for (from, to) in self.places()? {
            flags.push(format!("--remap-path-prefix={}={to}", from.display()));
        }
        Ok(flags)
    }

    /// Where sources lie here, and what the object calls these places.
    fn places(&self) -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
        let library = self.sysroot.join(LIBRARY);
        let canonical = fs::canonicalize(&library)
            .with_context(|| format!("find the library's sources in {}", library.display()))?;
        // Not /castellum, where a checkout may lie: the linker reads files of these names, if
        // there are any, for lines that the compiler has not handed over.
        let mut places =
            vec![(root(), "/castellum-sources"), (library, "/rust"), (canonical, "/rust")];
        places.extend(registries()?.into_iter().map(|registry| (registry, "/crates")));
        Ok(places)
    }

    /// A folder that holds the compiler's LLVM and no other: bpf-linker opens the first one that
    /// it finds in the search path.
    fn only_llvm(&self, work: &Path) -> anyhow::Result<PathBuf> {
        let folder = work.join("llvm");
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let link = folder.join("libLLVM.so");
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", link.display()));
            }
            _ => {}
        }
        symlink(&self.llvm, &link).with_context(|| format!("link {}", link.display()))?;
        Ok(folder)
    }
}

/// The folders that hold the sources of crates of others; their names hold a hash of cargo's.
fn registries() -> anyhow::Result<BTreeSet<PathBuf>> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root())
        .other_options(["--locked".to_owned()])
        .exec()
        .context("ask cargo where the sources of crates are")?;
    let others = metadata.packages.iter().filter(|package| package.source.is_some());
    // REGISTRY/NAME-VERSION/Cargo.toml
    Ok(others
        .filter_map(|package| package.manifest_path.ancestors().nth(2))
        .map(|registry| registry.as_std_path().to_owned())
        .collect())
}

/// The LLVM library of a compiler that names this version of it.
fn llvm(sysroot: &Path, version: &str) -> anyhow::Result<PathBuf> {
    let short = version.rsplit_once('.').map_or(version, |(short, _)| short);
    let path = sysroot.join(format!("lib/{ARCH}-linux-gnu/libLLVM.so.{short}"));
    if !path.exists() {
        bail!("{RUSTC} is of LLVM {version}, and there is no {}", path.display());
    }
    Ok(path)
}

fn said_by(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {RUSTC}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What `rustc -vV` says behind this name.
fn field<'a>(version: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let line = version.lines().find_map(|line| line.strip_prefix(name));
    line.with_context(|| format!("{RUSTC} -vV does not say {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_tells_its_release_and_its_llvm() {
        let says = "rustc 1.96.0 (ac68faa20 2026-05-25)\nrelease: 1.96.0\nLLVM version: 22.1.8";
        assert_eq!(field(says, "release: ").unwrap(), "1.96.0");
        assert_eq!(field(says, "LLVM version: ").unwrap(), "22.1.8");
        assert!(field(says, "host: ").is_err());
    }

    #[test]
    fn a_missing_llvm_is_named() {
        let error = llvm(Path::new("/nowhere"), "22.1.8").unwrap_err().to_string();
        assert!(error.ends_with("libLLVM.so.22.1"), "{error}");
    }

    #[test]
    fn every_crate_of_others_lies_in_a_folder_that_is_renamed() {
        let registries = registries().unwrap();
        assert!(!registries.is_empty());
        for registry in registries {
            assert!(!registry.starts_with(root()), "{}", registry.display());
        }
    }
}
