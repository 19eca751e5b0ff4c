//! The command line, and which configuration file it names.

use clap::Parser;
use config::value;
use daemon::args::Common;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Where the configuration of a named service lies; the first that exists is read.
pub const DIRECTORIES: [&str; 2] = ["/etc/castellum/gredist", "/etc/saphira/gredist"];

/// Distribute GRE tunnels (IP protocol 47) over healthy backends.
#[derive(Debug, Parser)]
#[command(name = "gredist", version, override_usage = USAGE, after_help = AFTER_HELP)]
pub struct Args {
    /// Service to run: its file is /etc/castellum/gredist/SERVICE.conf
    #[arg(value_name = "SERVICE", conflicts_with = "config")]
    pub service: Option<String>,

    /// Flags that all daemons have.
    #[command(flatten)]
    pub common: Common,

    /// Show offline which backend a flow takes, and why
    #[arg(long, value_name = "SRC[,key=N]", value_parser = parse_flow, conflicts_with = "check_config")]
    pub trace: Option<Traced>,

    /// With --trace: take this backend as down (may be repeated)
    #[arg(long, value_name = "BACKEND", requires = "trace")]
    pub down: Vec<IpAddr>,

    /// Write the nftables table that keeps the host from answering for this service, and exit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["service", "trace", "check_config"])]
    pub print_guard: Option<String>,
}

const USAGE: &str = "gredist [OPTIONS] SERVICE\n       gredist [OPTIONS] --config FILE";

const AFTER_HELP: &str = "\
Signals: HUP reloads the configuration, USR1 logs the statistics, TERM and INT end.
Exit codes: 0 ok, 1 runtime error, 2 usage, 78 configuration error.
See gredist(8) for the configuration file.";

/// A flow to be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Outer source.
    pub source: IpAddr,
    /// GRE key, if the tunnel has one.
    pub key: Option<u32>,
}

fn parse_flow(text: &str) -> Result<Traced, String> {
    let (source, rest) = match text.split_once(',') {
        Some((source, rest)) => (source, Some(rest)),
        None => (text, None),
    };
    let source = value::address(source).map_err(|error| format!("\"{source}\": {error}"))?;
    let key = match rest {
        None => None,
        Some(rest) => {
            let number = rest
                .strip_prefix("key=")
                .ok_or_else(|| format!("\"{rest}\": after the comma write key=N"))?;
            Some(value::hex_or_decimal(number).map_err(|error| format!("\"{rest}\": {error}"))?)
        }
    };
    Ok(Traced { source, key })
}

/// The file to read, and the one that is shadowed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The file to read.
    pub file: PathBuf,
    /// A file of the same service that is not read, because `file` exists.
    pub shadowed: Option<PathBuf>,
}

/// Finds a service's file below `root`, which is `/` but for tests.
///
/// # Errors
/// A message for the user if the name cannot be a file's.
pub fn locate(service: &str, root: &Path) -> Result<Located, String> {
    if service.is_empty() || service.starts_with('.') || service.contains('/') {
        return Err(format!(
            "service name \"{service}\": must not be empty, contain / or start with a dot; \
             use --config FILE to name a file"
        ));
    }
    let files = DIRECTORIES.map(|directory| {
        let below = root.join(directory.trim_start_matches('/'));
        below.join(format!("{service}.conf"))
    });
    let [first, second] = files;
    Ok(match (is_there(&first), is_there(&second)) {
        (true, true) => Located { file: first, shadowed: Some(second) },
        (false, true) => Located { file: second, shadowed: None },
        (_, false) => Located { file: first, shadowed: None },
    })
}

/// Whether something is called so, be it readable or not: what cannot be read must be complained
/// about, and not be passed over.
fn is_there(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

impl Located {
    /// What to tell the user about the file that is not read.
    pub fn warning(&self) -> Option<String> {
        let (used, other) = (self.file.display(), self.shadowed.as_ref()?.display());
        Some(format!("{other} is not read, because {used} exists"))
    }
}

impl Args {
    /// Whether a question about the configuration is asked, and no daemon started.
    pub const fn is_offline(&self) -> bool {
        self.common.check_config || self.trace.is_some() || self.print_guard.is_some()
    }

    /// The configuration file that the command line names.
    ///
    /// # Errors
    /// A message for the user if none is named, or none that can be.
    pub fn locate(&self) -> Result<Located, String> {
        let service = self.print_guard.as_ref().or(self.service.as_ref());
        match (&self.common.config, service) {
            (Some(file), _) => Ok(Located { file: file.clone(), shadowed: None }),
            (None, Some(service)) => locate(service, Path::new("/")),
            (None, None) => Err("name a SERVICE, or a file with --config FILE; see --help".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Args, String> {
        let all = std::iter::once(&"gredist").chain(words);
        Args::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_documented_forms_are_understood() {
        assert_eq!(parse(&["edge"]).unwrap().service.as_deref(), Some("edge"));
        let by_file = parse(&["-c", "/path/to.conf"]).unwrap();
        assert_eq!(by_file.locate().unwrap().file, Path::new("/path/to.conf"));
        assert!(parse(&["--syslog", "edge"]).unwrap().common.syslog);
        let traced = parse(&["edge", "--trace", "192.0.2.9,key=0x2a", "--down", "10.0.0.1"]);
        let traced = traced.unwrap();
        assert_eq!(traced.trace.unwrap().key, Some(42));
        assert_eq!(traced.down.len(), 1);
        let keyless = parse(&["edge", "--trace", "2001:db8::1"]).unwrap();
        assert_eq!(keyless.trace.unwrap().key, None);
    }

    #[test]
    fn wrong_forms_are_refused_with_the_reason() {
        for (words, reason) in [
            (&["edge", "-c", "x"][..], "cannot be used with"),
            (&["edge", "--trace", "nine"], "not an IPv4 or IPv6 address"),
            (&["edge", "--trace", "192.0.2.1,42"], "write key=N"),
            (&["edge", "--down", "10.0.0.1"], "--trace"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(reason), "{words:?}: {error}");
        }
        assert!(parse(&[]).unwrap().locate().is_err());
    }

    #[test]
    fn a_service_is_looked_for_in_both_directories() {
        let root = std::env::temp_dir().join(format!("gredist-locate-{}", std::process::id()));
        let [castellum, saphira] = DIRECTORIES.map(|d| root.join(d.trim_start_matches('/')));
        let file = |directory: &Path| directory.join("edge.conf");
        let located = || locate("edge", &root).unwrap();
        assert_eq!(located().file, file(&castellum), "neither exists: the first is named");
        std::fs::create_dir_all(&saphira).unwrap();
        std::fs::write(file(&saphira), "").unwrap();
        assert_eq!(located(), Located { file: file(&saphira), shadowed: None });
        std::fs::create_dir_all(&castellum).unwrap();
        std::fs::write(file(&castellum), "").unwrap();
        assert_eq!(located(), Located { file: file(&castellum), shadowed: Some(file(&saphira)) });
        // A link that leads nowhere is there, and an error when it is read.
        std::fs::remove_file(file(&castellum)).unwrap();
        std::os::unix::fs::symlink("/nonexistent", file(&castellum)).unwrap();
        assert_eq!(located().file, file(&castellum));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_name_that_leaves_the_directory_is_refused() {
        for name in ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "../x"] {
            assert!(locate(name, Path::new("/")).is_err(), "{name}");
        }
    }
}
