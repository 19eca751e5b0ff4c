//! Adds up what the test programs report.

/// Tests that ran, and tests that said why they did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The reasons, each once, in the order of their first appearance.
    pub(crate) skipped: Vec<String>,
}

impl Count {
    /// Takes in one line of a test program's output.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some((_, result)) = line.split_once("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
        } else if let Some(reason) = line.trim().strip_prefix("skipped: ")
            && !self.skipped.iter().any(|known| known == reason)
        {
            self.skipped.push(reason.to_owned());
        }
    }
}

/// The number that stands right before `word`, zero if there is none.
fn number_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as cargo 1.95 prints them.
    #[test]
    fn adds_up_the_results_of_all_test_programs() {
        let mut count = Count::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/wire-0d2f6f0b0c8d3a51)\n",
            "test checksum::tests::adds ... ok\n",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.03s\n",
            "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.50s\n",
            "half a linetest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        ] {
            count.see(line);
        }
        assert_eq!(count, Count { passed: 18, failed: 2, skipped: vec![] });
    }

    #[test]
    fn keeps_each_reason_for_a_skip_once() {
        let mut count = Count::default();
        for line in ["skipped: no nft\n", "skipped: no ovs\n", "skipped: no nft\n", "3 skipped: x"]
        {
            count.see(line);
        }
        assert_eq!(count.skipped, ["no nft", "no ovs"]);
    }
}
