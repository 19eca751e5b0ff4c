//! What a task did: a heading for each step, and at the end a table and the reasons for what was
//! left out.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it was done.
    Passed,
    /// It, or the part that the text names, was left out.
    Skipped(String),
}

/// The steps of one task so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Row {
    step: &'static str,
    result: Result<Outcome, String>,
    took: Duration,
}

impl Report {
    /// Runs one step; `advice` tells what to do when it fails. Returns whether it did not.
    pub(crate) fn step(
        &mut self,
        step: &'static str,
        advice: &str,
        work: impl FnOnce() -> anyhow::Result<Outcome>,
    ) -> bool {
        println!("\n==> {step}");
        let start = now();
        let result = work();
        let took = start.elapsed();
        let result = result.map_err(|error| {
            println!("    {step} failed: {error:#}");
            format!("{error:#}\n    next: {advice}")
        });
        println!("    {step}: {} ({:.1} s)", word(&result), took.as_secs_f64());
        let passed = result.is_ok();
        self.rows.push(Row { step, result, took });
        passed
    }

    /// A step that cannot be run, and why.
    pub(crate) fn skip(&mut self, step: &'static str, why: &str) {
        self.rows.push(Row {
            step,
            result: Ok(Outcome::Skipped(why.to_owned())),
            took: Duration::ZERO,
        });
    }

    /// Something left out within a step that otherwise passed.
    pub(crate) fn note(&mut self, skipped: impl Into<String>) {
        self.notes.push(skipped.into());
    }

    /// Prints the table.
    pub(crate) fn finish(&self) -> ExitCode {
        print!("{}", self.render());
        let failed = self.rows.iter().any(|row| row.result.is_err());
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn render(&self) -> String {
        let width = self.rows.iter().map(|row| row.step.len()).max().unwrap_or(0).max(4);
        let mut text = format!("\n{:width$}  result   seconds\n", "step");
        for Row { step, result, took } in &self.rows {
            let seconds = took.as_secs_f64();
            text += &format!("{step:width$}  {:7}  {seconds:7.1}\n", word(result));
        }
        for row in &self.rows {
            match &row.result {
                Ok(Outcome::Passed) => {}
                Ok(Outcome::Skipped(why)) => text += &format!("skipped {}: {why}\n", row.step),
                Err(error) => text += &format!("FAILED {}: {error}\n", row.step),
            }
        }
        for note in &self.notes {
            text += &format!("skipped {note}\n");
        }
        text
    }
}

/// Whether nothing may be left out: CI says `LABS=required`.
pub(crate) fn labs_required() -> bool {
    std::env::var_os("LABS").is_some_and(|labs| labs == "required")
}

fn word(result: &Result<Outcome, String>) -> &'static str {
    match result {
        Ok(Outcome::Passed) => "ok",
        Ok(Outcome::Skipped(_)) => "skipped",
        Err(_) => "FAILED",
    }
}

/// The clock of the steps.
#[expect(clippy::disallowed_methods, reason = "a shell: it measures how long a step takes")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_failed_what_to_do_and_what_was_left_out() {
        let mut report = Report::default();
        assert!(report.step("format", "cargo fmt", || Ok(Outcome::Passed)));
        assert!(!report.step("clippy", "read it", || anyhow::bail!("2 warnings")));
        report.skip("advisories", "no database");
        report.note("lab l3: no namespaces");
        let text = report.render();
        for line in [
            "format      ok           0.0",
            "clippy      FAILED       0.0",
            "advisories  skipped      0.0",
            "FAILED clippy: 2 warnings\n    next: read it",
            "skipped advisories: no database",
            "skipped lab l3: no namespaces",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert_eq!(report.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn a_task_with_skips_alone_succeeds() {
        let mut report = Report::default();
        report.skip("advisories", "no database");
        assert_eq!(report.finish(), ExitCode::SUCCESS);
    }
}
