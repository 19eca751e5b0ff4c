//! One figure: what was measured, against what, and what it should be.

use serde::Serialize;
use std::borrow::Cow;

/// A measured figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) bench: &'static str,
    pub(crate) case: String,
    pub(crate) value: f64,
    pub(crate) unit: Cow<'static, str>,
    /// The same figure of what it is compared with.
    pub(crate) baseline: Option<f64>,
    /// The median over the rounds of value to baseline, each round's two side by side.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<Goal>,
}

/// What is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Goal {
    /// The least ratio.
    RatioAtLeast(f64),
    /// The largest value.
    AtMost(f64),
}

impl Record {
    /// Whether the goal is reached, if there is one.
    pub(crate) fn reached(&self) -> bool {
        match (self.ratio, self.goal) {
            (Some(ratio), Some(Goal::RatioAtLeast(least))) => ratio >= least,
            (_, Some(Goal::AtMost(most))) => self.value <= most,
            (None, Some(Goal::RatioAtLeast(_))) | (_, None) => true,
        }
    }
}

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// All records for people.
pub(crate) fn table(records: &[Record]) -> String {
    let optional = |value: Option<f64>, digits| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let goal = |goal| match goal {
        Some(Goal::RatioAtLeast(least)) => format!("{least:.2}"),
        Some(Goal::AtMost(most)) => format!("{most:.0}"),
        None => "-".to_owned(),
    };
    let mut text = format!(
        "{:<10} {:<44} {:>12} {:>12} {:>7} {:>6}  {}\n",
        "bench", "case", "value", "baseline", "ratio", "goal", "unit"
    );
    for r in records {
        let verdict = if r.reached() { "" } else { "  MISSED" };
        text.push_str(&format!(
            "{:<10} {:<44} {:>12.1} {:>12} {:>7} {:>6}  {}{verdict}\n",
            r.bench,
            r.case,
            r.value,
            optional(r.baseline, 1),
            optional(r.ratio, 3),
            goal(r.goal),
            r.unit,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_below_its_goal_is_missed() {
        let mut record = Record {
            bench: "b",
            case: "c".into(),
            value: 1.0,
            unit: "u".into(),
            baseline: Some(2.0),
            ratio: Some(0.5),
            goal: Some(Goal::RatioAtLeast(0.9)),
        };
        assert!(!record.reached());
        record.ratio = Some(0.9);
        assert!(record.reached());
        assert!(table(&[record]).contains("0.900"));
    }

    #[test]
    fn a_value_above_its_goal_is_missed() {
        let mut record = Record {
            bench: "b",
            case: "c".into(),
            value: 76.0,
            unit: "ns".into(),
            baseline: Some(30.0),
            ratio: Some(3.5),
            goal: Some(Goal::AtMost(75.0)),
        };
        assert!(!record.reached());
        record.value = 75.0;
        assert!(record.reached());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
