//! `cargo xtask test`: the programs, the tests, and the total.

use std::io::{self, Write};
use std::process::{Command, ExitCode};

use anyhow::bail;

use crate::command::{cargo, line, run, target_directory, watch};
use crate::count::Count;
use crate::privilege::Privilege;
use crate::report::{Outcome, Report, labs_required};
use crate::{Missing, apt, ebpf, peers};

/// Labs start the programs from here; the same variable in every lab.
const PROGRAMS: &str = "CASTELLUM_BIN_DIR";

/// `cargo xtask test`; its last line is `N passed, N failed`.
pub(crate) fn run_task(missing: Missing) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    let mut count = Count::default();
    report.step("peers", "run `apt-get update` and look at what apt-get said", || {
        apt::provide(missing, peers::PEERS, "tests skip themselves")
    });
    report.step("BPF object", "`cargo xtask ebpf` rebuilds it", || ebpf::check(missing));
    let built = report.step("build programs", "mend what rustc names", build_programs)
        && report.step("build tests", "mend what rustc names", || {
            run(&mut cargo(["test", "--workspace", "--no-run"]))?;
            Ok(Outcome::Passed)
        });
    if built {
        let mut privilege = Outcome::Passed;
        report.step(
            "tests",
            "`cargo test -p CRATE NAME` runs one; labs: `cargo xtask lab NAME`",
            || {
                let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
                // Without it a test that passes by skipping itself says so to nobody.
                if !labs_required() {
                    arguments.extend(["--", "--show-output"]);
                }
                let (command, left_out) = prepare(cargo(arguments))?;
                privilege = left_out;
                count_tests(command, &mut io::stdout(), &mut count)
            },
        );
        if let Outcome::Skipped(why) = privilege {
            report.note(why);
        }
    } else {
        report.skip("tests", "they do not build");
    }
    for reason in &count.skipped {
        report.note(format!("a test: {reason}"));
    }
    let code = report.finish();
    println!("{} passed, {} failed", count.passed, count.failed);
    Ok(code)
}

/// The real programs, as they are shipped but for LTO.
pub(crate) fn build_programs() -> anyhow::Result<Outcome> {
    run(&mut cargo(["build", "--release", "--workspace", "--exclude", "xtask", "--bins"]))?;
    Ok(Outcome::Passed)
}

/// `command` with what tests need: programs, search path, namespaces; and what it does without.
pub(crate) fn prepare(mut command: Command) -> anyhow::Result<(Command, Outcome)> {
    command.env(PROGRAMS, target_directory()?.join("release")).env("PATH", peers::search_path());
    let privilege = Privilege::find();
    let left_out = match &privilege {
        Privilege::Direct => Outcome::Passed,
        Privilege::UserNamespace => {
            println!("    not root: the tests run in a user namespace");
            Outcome::Passed
        }
        Privilege::Refused(why) => {
            println!("    WITHOUT NETWORK NAMESPACES: {why}");
            Outcome::Skipped(format!("what needs a network namespace: {why}"))
        }
    };
    Ok((privilege.grant(command)?, left_out))
}

fn count_tests(
    mut command: Command,
    out: &mut dyn Write,
    count: &mut Count,
) -> anyhow::Result<Outcome> {
    let status = watch(&mut command, out, |line| count.see(line))?;
    if !status.success() {
        // A test program without the harness, or one that died, reports no number.
        count.failed = count.failed.max(1);
        bail!("{}: {status}", line(&command));
    }
    if count.passed == 0 {
        bail!("no test ran");
    }
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (anyhow::Result<Outcome>, Count) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut count = Count::default();
        (count_tests(command, &mut io::sink(), &mut count), count)
    }

    #[test]
    fn a_program_that_dies_without_a_result_counts_as_failed() {
        let (result, count) = shell("echo 'test result: ok. 4 passed; 0 failed;'; exit 101");
        assert!(result.is_err());
        assert_eq!((count.passed, count.failed), (4, 1));
    }

    #[test]
    fn a_run_of_no_test_is_a_failure() {
        let (result, _) = shell("exit 0");
        assert_eq!(result.unwrap_err().to_string(), "no test ran");
    }

    #[test]
    fn results_of_both_outputs_add_up() {
        let (result, count) = shell(
            "echo 'test result: ok. 4 passed; 0 failed;'; \
             echo 'test result: ok. 3 passed; 0 failed;' >&2",
        );
        assert_eq!(result.unwrap(), Outcome::Passed);
        assert_eq!((count.passed, count.failed), (7, 0));
    }
}
