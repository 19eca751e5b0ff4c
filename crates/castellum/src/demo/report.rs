//! What the demonstration found: a table for people, JSON for programs.

use serde::Serialize;

/// The whole result.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Each scenario's figures.
    pub(crate) scenarios: Vec<Scenario>,
    /// The figures of the second tier.
    pub(crate) balancing: Vec<Balancing>,
    /// What was not shown, and why.
    pub(crate) skipped: Vec<String>,
    /// Each claim, and whether it held.
    pub(crate) claims: Vec<Claim>,
}

/// A statement that the run put to the test.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    scenario: &'static str,
    claim: String,
    held: bool,
}

/// The figures of one scenario.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) flows: usize,
    /// Flows of each backend while all are up.
    pub(crate) all_up: Vec<usize>,
    /// Flows of each backend while the second is down.
    pub(crate) one_down: Vec<usize>,
    /// Flows of each backend after it came back.
    pub(crate) back: Vec<usize>,
    /// Flows of surviving backends that moved although their backend was up.
    pub(crate) moved_without_reason: usize,
    /// Flows that were not back where they began.
    pub(crate) not_restored: usize,
    /// Packets sent and lost while nothing changed.
    pub(crate) sent_steady: u64,
    pub(crate) lost_steady: u64,
    /// Packets of the backend that failed, lost until it was found down.
    pub(crate) lost_in_outage: u64,
    /// Seconds from the cut to the removal, and from the repair to the return.
    pub(crate) seconds_to_remove: f64,
    pub(crate) seconds_to_return: f64,
}

/// The figures of connections over the second tier.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Balancing {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    /// Connections of each backend while all are up.
    pub(crate) all_up: Vec<usize>,
    /// New connections of each backend while the second is out of the configuration.
    pub(crate) after_removal: Vec<usize>,
    /// New connections of each backend while the third is cut off.
    pub(crate) after_cut: Vec<usize>,
    /// Connections that broke while nothing changed.
    pub(crate) broken_idle: usize,
    /// Connections that broke because the second backend was taken out.
    pub(crate) broken_by_removal: usize,
    /// Connections of the third backend that broke when it was cut off.
    pub(crate) broken_by_cut: usize,
    /// Connections of other backends that broke then.
    pub(crate) broken_without_reason: usize,
    /// Seconds from the cut until both nodes sent nothing new there.
    pub(crate) seconds_to_remove: f64,
}

impl Report {
    /// Notes whether a claim held.
    pub(crate) fn claim(&mut self, scenario: &'static str, claim: impl Into<String>, held: bool) {
        self.claims.push(Claim { scenario, claim: claim.into(), held });
    }

    /// Whether every claim held, and there was one.
    pub(crate) fn holds(&self) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|claim| claim.held)
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "\nGRE distribution (gredist), three backends, the second cut off and repaired\n\n",
        );
        text.push_str(&format!(
            "{:<14} {:>18} {:>18} {:>18} {:>6} {:>12} {:>8} {:>8} {:>8}\n",
            "",
            "flows, all up",
            "second down",
            "repaired",
            "moved",
            "lost/sent",
            "outage",
            "removed",
            "returned"
        ));
        for s in &self.scenarios {
            let per_backend = |flows: &[usize]| {
                flows.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ")
            };
            text.push_str(&format!(
                "{:<14} {:>18} {:>18} {:>18} {:>6} {:>12} {:>8} {:>7.2}s {:>7.2}s\n",
                s.name,
                per_backend(&s.all_up),
                per_backend(&s.one_down),
                per_backend(&s.back),
                s.moved_without_reason + s.not_restored,
                format!("{}/{}", s.lost_steady, s.sent_steady),
                s.lost_in_outage,
                s.seconds_to_remove,
                s.seconds_to_return,
            ));
        }
        text.push_str(
            "\nmoved: flows that changed their backend without need, or were not back in the end\n\
             lost/sent: packets while nothing changed; outage: packets lost until the removal\n\n",
        );
        text.push_str(&self.balancing_text());
        for skipped in &self.skipped {
            text.push_str(&format!("not shown: {skipped}\n"));
        }
        for claim in self.claims.iter().filter(|claim| !claim.held) {
            text.push_str(&format!("FAILED  {}: {}\n", claim.scenario, claim.claim));
        }
        let held = self.claims.iter().filter(|claim| claim.held).count();
        text.push_str(&format!("{held} of {} claims held.", self.claims.len()));
        text
    }

    fn balancing_text(&self) -> String {
        let mut text = String::new();
        let counts =
            |flows: &[usize]| flows.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ");
        for b in &self.balancing {
            text.push_str(&format!(
                "{}: {} connections over two lb-nodes behind an ECMP route, three backends\n\n\
                 {:<34} {:>18} {:>8}\n\
                 {:<34} {:>18} {:>8}\n\
                 {:<34} {:>18} {:>8}\n\
                 {:<34} {:>18} {:>8}\n\n\
                 broken: open connections of other backends than the one cut off; its own {} broke, \
                 {:.2} s until it got none any more\n\n",
                b.name,
                b.connections,
                "",
                "connections",
                "broken",
                "all up",
                counts(&b.all_up),
                b.broken_idle,
                "new, second out of configuration",
                counts(&b.after_removal),
                b.broken_by_removal,
                "new, third cut off",
                counts(&b.after_cut),
                b.broken_without_reason,
                b.broken_by_cut,
                b.seconds_to_remove,
            ));
        }
        text
    }
}
