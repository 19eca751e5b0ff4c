//! Documents, their lines, and what bounds them.

use super::*;
use proptest::prelude::*;

/// Each document in one line, with the problems behind it.
fn read_all(text: &[u8]) -> (Vec<String>, String) {
    let report = Report::default();
    let mut documents = Vec::new();
    read(&Arc::from("a.yaml"), text, &report, |node| documents.push(shown(node)));
    let problems = report.into_result(Ok(())).err();
    (documents, problems.map(|problems| problems.to_string()).unwrap_or_default())
}

/// `line:content`.
fn shown(node: &Node<'_>) -> String {
    let content = match &node.content {
        Content::Scalar { text, plain: true } => text.to_string(),
        Content::Scalar { text, plain: false } => format!("{text:?}"),
        Content::List(list) => {
            format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Content::Map(map) => {
            let pair = |(key, value): &(_, _)| format!("{}={}", shown(key), shown(value));
            format!("{{{}}}", map.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
        Content::Refused(_) => "refused".to_owned(),
    };
    format!("{}:{content}", node.line)
}

fn problems(text: &str) -> String {
    read_all(text.as_bytes()).1
}

#[test]
fn documents_come_with_the_lines_of_their_values() {
    let text = "# comment\na: 1\nb:\n  - 'x'\n  - {c: no}\n---\n\n- ~\n---\r\n...\n";
    let (documents, problems) = read_all(text.as_bytes());
    assert_eq!(problems, "");
    assert_eq!(
        documents,
        ["2:{2:a=2:1 3:b=4:[4:\"x\" 5:{5:c=5:no}]}", "8:[8:~]", "9:~"].map(str::to_owned)
    );
    for empty in ["", "\n", "# nothing\n", "\u{feff}"] {
        assert_eq!(read_all(empty.as_bytes()), (vec![], String::new()), "{empty:?}");
    }
}

#[test]
fn an_error_of_syntax_has_line_and_column_and_hides_no_other_document() {
    let (documents, problems) = read_all(b"a: 1\n---\nb: [1,\nc: d: e\n---\nf: 2\n---\ng: 'x\n");
    assert_eq!(documents, ["1:{1:a=1:1}", "6:{6:f=6:2}"]);
    let lines: Vec<&str> = problems.lines().collect();
    assert_eq!(lines.len(), 2, "{problems}");
    assert!(lines[0].starts_with("a.yaml:4:5: not YAML: "), "{problems}");
    assert!(lines[1].starts_with("a.yaml:8:4: not YAML: "), "{problems}");
}

#[test]
fn aliases_and_tags_are_refused_where_they_stand() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b,\n  *nothing]\nd: !!str 1\ne: !own {}\n";
    assert_eq!(
        problems(bomb),
        "a.yaml:2: aliases are not supported: write the value out\n\
         a.yaml:2: aliases are not supported: write the value out\n\
         a.yaml:3: aliases are not supported: write the value out\n\
         a.yaml:4: aliases are not supported: write the value out\n\
         a.yaml:5: tags are not supported: remove `tag:yaml.org,2002:str`, and put text in quotes\n\
         a.yaml:6: tags are not supported: remove `!own`, and put text in quotes"
    );
}

#[test]
fn what_nests_too_deep_is_refused() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(problems(&flow(MAX_DEPTH)), "");
    assert_eq!(problems(&flow(MAX_DEPTH + 1)), "a.yaml:1: nested deeper than 16 levels");
    let block =
        |depth: usize| (0..depth).map(|i| format!("{}a:\n", " ".repeat(i))).collect::<String>();
    assert_eq!(problems(&block(MAX_DEPTH)), "");
    assert_eq!(problems(&block(MAX_DEPTH + 1)), "a.yaml:17: nested deeper than 16 levels");
    for deep in [flow(1 << 20), "{a: ".repeat(1 << 18), "- ".repeat(1 << 20), "? ".repeat(1 << 20)]
    {
        let problems = problems(&deep);
        assert!(problems.starts_with("a.yaml:1:"), "{problems}");
        assert!(problems.lines().count() < 3, "{problems}");
    }
}

#[test]
fn a_document_of_too_many_values_is_refused_and_the_next_one_read() {
    let list = |values: usize| "- 1\n".repeat(values - 1);
    assert_eq!(problems(&list(MAX_NODES)), "");
    let (documents, problems) = read_all(format!("{}---\na\n", list(MAX_NODES + 1)).as_bytes());
    assert_eq!(problems, "a.yaml:100000: a document of more than 100000 values");
    assert_eq!(documents, ["100002:a"]);
}

#[test]
fn a_text_that_is_too_large_is_refused() {
    let largest = "#".repeat(MAX_TEXT_BYTES);
    assert_eq!(problems(&largest), "");
    let expected = "a.yaml:1: larger than 16 MiB: use several files";
    assert_eq!(problems(&format!("{largest}#")), expected);
}

#[test]
fn octets_that_are_not_utf8_are_refused_with_their_line() {
    let (documents, problems) = read_all(b"a: 1\nb: \xff\n");
    assert_eq!(documents, [""; 0]);
    assert_eq!(problems, "a.yaml:2: not UTF-8: save the file in that encoding");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_octets_never_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&text);
    }

    #[test]
    fn arbitrary_yaml_never_panics(text in r"[-a-c0-1:,\[\]{}&*!|>'%@`?#~. \t\n]{0,120}") {
        read_all(text.as_bytes());
    }
}
