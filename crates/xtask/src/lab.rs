//! `cargo xtask lab [FILTER]`: the end-to-end tests alone, with their output.

use std::process::ExitCode;

use anyhow::bail;

use crate::command::{cargo, run, watch};
use crate::count::Count;
use crate::report::{Outcome, Report};
use crate::test;

/// Builds the programs and runs the labs whose names contain `filter`.
pub(crate) fn run_task(filter: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    let built = report.step("build programs", "mend what rustc names", test::build_programs)
        && report.step("build labs", "mend what rustc names", || {
            run(&mut cargo(["test", "--package", "labs", "--no-run"]))?;
            Ok(Outcome::Passed)
        });
    if built {
        let advice = "read the lab's output above; it names the file and the step";
        report.step("labs", advice, || {
            let mut arguments = vec!["test", "--package", "labs", "--tests", "--"];
            // One after the other: their output is for reading.
            arguments.extend(["--nocapture", "--test-threads=1"]);
            arguments.extend(filter);
            let (mut command, left_out) = test::prepare(cargo(arguments))?;
            let mut count = Count::default();
            let status = watch(&mut command, &mut std::io::stdout(), |line| count.see(line))?;
            if !status.success() {
                bail!("{} labs failed", count.failed);
            }
            if count.passed == 0 && left_out == Outcome::Passed {
                bail!("no lab's name contains \"{}\"", filter.unwrap_or_default());
            }
            Ok(left_out)
        });
    } else {
        report.skip("labs", "they do not build");
    }
    Ok(report.finish())
}
