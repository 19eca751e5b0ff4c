//! Rust source without its comments and literals, so that rules see code alone.
//!
//! Knows as much of the language as that takes: nested comments, raw strings, and the difference
//! between a character and a lifetime. Lines stay where they were.

/// `source` with every comment and the inside of every literal replaced by spaces.
pub(super) fn code_only(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        let rest = characters.get(at..).unwrap_or_default();
        let length = match literal_or_comment(rest, characters.get(at.wrapping_sub(1))) {
            0 => {
                code.push(character);
                1
            }
            length => {
                code.extend(rest.iter().take(length).map(|&c| if c == '\n' { c } else { ' ' }));
                length
            }
        };
        at += length;
    }
    code
}

/// How many characters of `rest` are one comment or literal; 0 if it starts with neither.
fn literal_or_comment(rest: &[char], before: Option<&char>) -> usize {
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => string(rest),
        ['\'', ..] => character(rest),
        ['r', '"' | '#', ..] if !before.is_some_and(|c| is_word(*c) && *c != 'b' && *c != 'c') => {
            raw_string(rest)
        }
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        match rest.get(at..) {
            Some(['/', '*', ..]) => (depth, at) = (depth + 1, at + 2),
            Some(['*', '/', ..]) => (depth, at) = (depth - 1, at + 2),
            Some([_, ..]) => at += 1,
            Some([]) | None => return rest.len(),
        }
        if depth == 0 {
            return at;
        }
    }
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at) {
            Some('\\') => at += 2,
            Some('"') => return at + 1,
            Some(_) => at += 1,
            None => return rest.len(),
        }
    }
}

/// `'a'` and `'\''`, but not the lifetime `'a`.
fn character(rest: &[char]) -> usize {
    match rest {
        [_, '\\', _, tail @ ..] => {
            3 + tail.iter().position(|&c| c == '\'').map_or(tail.len(), |end| end + 1)
        }
        [_, _, '\'', ..] => 3,
        _ => 0,
    }
}

/// `r"..."` and `r#"..."#`, but not the raw identifier `r#type`.
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest.iter().skip(1).take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut at = hashes + 2;
    while let Some(&character) = rest.get(at) {
        at += 1;
        let closing = rest.get(at..).unwrap_or_default();
        if character == '"' && closing.iter().take_while(|&&c| c == '#').count() >= hashes {
            return at + hashes;
        }
    }
    rest.len()
}

/// Where `word` stands in `line` as a word of its own.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        // A word that ends in a sign, like `sleep(`, ends by itself.
        let ends = !word.ends_with(is_word) || !after.is_some_and(is_word);
        !before.is_some_and(is_word) && ends
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_go_and_code_stays() {
        for (source, code) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            ("f(\"unsafe \\\" x\") + 1", "f(             ) + 1"),
            ("r\"\\\" + a", "     + a"),
            ("r#\"a \" b\"# + c", "           + c"),
            ("br##\"a\"# \"## + c", "b            + c"),
            ("r#type + for", "r#type + for"),
            ("'\"' + '\\'' + '\\u{1f}' + x", "    +      +          + x"),
            ("fn f<'a>(x: &'a str, y: &'static str)", "fn f<'a>(x: &'a str, y: &'static str)"),
            ("bar\"x\" y", "bar    y"),
        ] {
            assert_eq!(code_only(source), code, "{source}");
        }
    }

    #[test]
    fn what_never_ends_ends_with_the_file() {
        for source in ["\"open", "/* open", "r#\"open\"", "'\\", "\"\\"] {
            assert!(
                code_only(source).trim_start_matches('\'').chars().all(|c| c == ' ' || c == '\\')
            );
        }
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(has_word("time::sleep(x)", "sleep("));
        assert!(!has_word("no_sleep(x)", "sleep("));
        assert!(!has_word("sleep_until(x)", "sleep("));
    }
}
