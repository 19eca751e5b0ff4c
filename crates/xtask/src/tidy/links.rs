//! Every relative link in the documents leads to a file of the tree.

use std::path::Path;

use super::Finding;
use super::files::File;

pub(super) fn check(files: &[File], root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for (number, link) in links(&file.text) {
            let base = if link.starts_with('/') { Path::new("") } else { folder };
            if !root.join(base).join(link.trim_start_matches('/')).exists() {
                let place = format!("{}:{number}", file.path);
                findings.push(Finding::new(place, format!("the link to {link} leads nowhere")));
            }
        }
    }
    findings
}

/// The relative links of a document with their lines: `[text](link)` and `[name]: link`, without
/// their anchors. Blocks of code hold none.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
            let named = line
                .strip_prefix('[')
                .and_then(|rest| rest.split_once("]: "))
                .map(|(_, link)| link.trim());
            let targets = inline.chain(named).map(|link| link.split('#').next().unwrap_or(link));
            links.extend(targets.filter(|link| is_relative(link)).map(|link| (number, link)));
        }
    }
    links
}

fn is_relative(link: &str) -> bool {
    !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_inline_and_named_links_and_no_others() {
        let text = "See [a](docs/a.md) and [b](b.md#part \"title\"), [web](https://x.org), [up](#up).\n\
            ```\n[code](no.md)\n```\n[name]: ../c.md\n[mail](mailto:x@y.z)\n";
        assert_eq!(links(text), [(1, "docs/a.md"), (1, "b.md"), (5, "../c.md")]);
    }

    #[test]
    fn a_link_is_followed_from_its_own_folder() {
        let root = crate::command::root();
        let text = "[here](files.rs) [root](/Cargo.toml) [up](../../Cargo.toml) [gone](gone.md)";
        let found = check(&[File::of("crates/xtask/src/tidy/x.md", text)], &root);
        let places: Vec<_> = found.iter().map(|found| found.wrong.as_str()).collect();
        let says =
            ["../../Cargo.toml", "gone.md"].map(|to| format!("the link to {to} leads nowhere"));
        // crates/xtask/src/tidy/../../Cargo.toml is xtask's own manifest.
        assert_eq!(places, &says[1..]);
    }
}
