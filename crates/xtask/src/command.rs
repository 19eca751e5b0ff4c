//! Other programs: cargo above all, and a sign of life while they run.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::report::now;

/// How often a step says that it still runs, where no terminal shows cargo's own progress.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// How long output may lag behind the end of the command that wrote it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Where cargo builds, as cargo itself decides it.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .context("ask cargo for the target directory")?;
    Ok(metadata.target_directory.into())
}

/// The cargo that started this program.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    // What `cargo run` says about xtask itself is not true of what cargo builds next.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs `command` with its output on ours.
///
/// # Errors
/// It cannot be started, or fails: the text is its command line.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = line(command);
    println!("    {line}");
    let _alive = sign_of_life();
    let status = command.status().with_context(|| format!("start {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Runs `command`, passes each line of both its outputs on to `out` and shows it to `see`.
///
/// # Errors
/// It cannot be started.
pub(crate) fn watch(
    command: &mut Command,
    out: &mut dyn Write,
    mut see: impl FnMut(&str),
) -> anyhow::Result<ExitStatus> {
    let line = line(command);
    println!("    {line}");
    let _alive = sign_of_life();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {line}"))?;
    let (lines, all) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        read_lines(pipe, lines.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        read_lines(pipe, lines);
    }
    loop {
        match all.recv_timeout(LAST_WORDS) {
            Ok(line) => {
                // Nobody to tell when our own output is closed; the exit status still counts.
                let _ = out.write_all(&line).and_then(|()| out.flush());
                see(&String::from_utf8_lossy(&line));
            }
            // A process that outlives the command may hold the pipes: do not wait for that one.
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    child.wait().with_context(|| format!("wait for {line}"))
}

fn read_lines(pipe: impl Read + Send + 'static, lines: Sender<Vec<u8>>) {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if lines.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
}

/// Says on standard error that the step still runs, until the returned sender is dropped.
fn sign_of_life() -> Sender<()> {
    let (running, ended) = mpsc::channel::<()>();
    if !io::stderr().is_terminal() {
        let start = now();
        thread::spawn(move || {
            while ended.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("    ... {:.0} s", start.elapsed().as_secs_f64());
            }
        });
    }
    running
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let mut line = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_both_outputs_is_seen() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; printf last; exit 3"]);
        let mut out = Vec::new();
        let status = watch(&mut command, &mut out, |line| seen.push(line.trim().to_owned()));
        let status = status.unwrap();
        seen.sort();
        assert_eq!(out.len(), "out\nerr\nlast".len());
        assert_eq!(
            (seen, status.code()),
            (["err", "last", "out"].map(str::to_owned).into(), Some(3))
        );
    }

    #[test]
    fn a_process_left_behind_does_not_hold_up_the_end() {
        let start = now();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!"]);
        let mut left_behind = String::new();
        let status =
            watch(&mut command, &mut io::sink(), |line| left_behind = line.trim().to_owned());
        let status = status.unwrap();
        assert!(status.success() && start.elapsed() < Duration::from_secs(30));
        assert!(
            Command::new("sh")
                .args(["-c", &format!("kill {left_behind}")])
                .status()
                .unwrap()
                .success()
        );
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 4"])).unwrap_err();
        assert_eq!(error.to_string(), "sh -c exit 4: exit status: 4");
    }
}
