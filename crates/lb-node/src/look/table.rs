//! Columns of text.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lines of text under a heading, each column as wide as its widest text.
pub fn render<const N: usize>(columns: [(&str, Side); N], rows: &[[String; N]]) -> String {
    let width = |at: usize| {
        let texts = rows.iter().filter_map(|row| row.get(at));
        let heading = columns.get(at).map_or(0, |(heading, _)| heading.len());
        texts.map(|text| text.chars().count()).max().unwrap_or(0).max(heading)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let heading = columns.map(|(heading, _)| heading.to_owned());
    let mut text = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for ((cell, width), (_, side)) in row.iter().zip(widths).zip(columns) {
            line.push_str(&match side {
                Side::Left => format!("{cell:<width$}  "),
                Side::Right => format!("{cell:>width$}  "),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A count of octets as people say it: `999 B`, `1.2 kB`, `34 MB`.
pub fn octets(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut tenths, mut unit) = (count / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1000, unit + 1);
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    if tenths < 100 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", tenths / 10)
    }
}

/// `1 session`, `2 sessions`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let rows = [["a".to_owned(), "1".to_owned()], ["bcd".to_owned(), "234".to_owned()]];
        let text = render([("x", Side::Left), ("n", Side::Right)], &rows);
        assert_eq!(text, "x      n\na      1\nbcd  234\n");
    }

    #[test]
    fn octets_are_said_with_two_digits_or_more() {
        for (count, said) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1_250, "1.2 kB"),
            (12_345, "12 kB"),
            (999_999, "999 kB"),
            (1_000_000, "1.0 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(octets(count), said, "{count}");
        }
    }
}
