//! "Did you mean": the known word nearest to a wrong one.

/// The known word that differs only in case and separators, or by at most two slips.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bare = bare(word)?;
    let ranked = known.into_iter().filter_map(|candidate| {
        let slips = slips(&bare, &self::bare(candidate)?);
        // Of a short word two slips leave nothing.
        let allowed = if bare.len() < 5 { 1 } else { 2 };
        (slips <= allowed).then_some((slips, candidate))
    });
    ranked.min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Lower case without separators; `None` for what no word of ours is as long as.
fn bare(word: &str) -> Option<Vec<char>> {
    let bare: Vec<char> = word
        .chars()
        .take(MAX_CHARS + 1)
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    (bare.len() <= MAX_CHARS).then_some(bare)
}

const MAX_CHARS: usize = 64;

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&above, j) + usize::from(x != y);
            let mut least = replaced.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let is_swap = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_swap {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = above;
        above = row;
    }
    above.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_distant_one_is_not() {
        let known = ["vipAddress", "vipPort", "backends", "protocol", "type"];
        for (word, expected) in [
            ("vip_port", Some("vipPort")),
            ("VIPPORT", Some("vipPort")),
            ("vipAdress", Some("vipAddress")),
            ("backend", Some("backends")),
            ("protcool", Some("protocol")),
            ("typo", Some("type")),
            ("spec", None),
            ("tcp", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }

    #[test]
    fn slips_are_counted_and_a_swap_is_one() {
        for (a, b, expected) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("flaw", "lawn", 2),
            ("tpc", "tcp", 1),
            ("ca", "abc", 3),
        ] {
            let [a, b]: [Vec<char>; 2] = [a, b].map(|word| word.chars().collect());
            assert_eq!(slips(&a, &b), expected);
        }
    }
}
