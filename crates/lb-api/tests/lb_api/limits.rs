//! Every maximum over several mappings, reached and passed; those of one text are in `yaml`.

use crate::support::{numbered, problems, read, with};
use lb_api::limits::{
    MAX_ANNOTATION_BYTES, MAX_BACKENDS, MAX_BACKENDS_PER_MAPPING, MAX_LABEL_KEY_BYTES,
    MAX_LABEL_VALUE_BYTES, MAX_LABELS, MAX_MAPPINGS,
};

#[test]
fn as_many_mappings_as_allowed_are_read_and_no_more() {
    let most: String = (0..MAX_MAPPINGS).map(|number| numbered(number, 1)).collect();
    assert_eq!(read(&[("a.yaml", &most)]).unwrap().mappings().len(), MAX_MAPPINGS);
    let found = read(&[("a.yaml", &most), ("b.yaml", &numbered(MAX_MAPPINGS, 1))]).unwrap_err();
    assert_eq!(found, "b.yaml:2: 10001 mappings: at most 10000");
}

#[test]
fn as_many_backends_as_allowed_are_read_and_no_more() {
    let most = numbered(0, MAX_BACKENDS_PER_MAPPING);
    let resources = read(&[("a.yaml", &most)]).unwrap();
    assert_eq!(resources.mappings().next().unwrap().spec.backends.len(), MAX_BACKENDS_PER_MAPPING);
    let found = problems(&numbered(0, MAX_BACKENDS_PER_MAPPING + 1));
    assert_eq!(found, "web.yaml:9: spec.backends: 4097 backends: at most 4096");
}

#[test]
fn as_many_backends_in_all_as_allowed_are_read_and_no_more() {
    let mappings = MAX_BACKENDS / MAX_BACKENDS_PER_MAPPING;
    let most: String =
        (0..mappings).map(|number| numbered(number, MAX_BACKENDS_PER_MAPPING)).collect();
    assert_eq!(read(&[("a.yaml", &most)]).unwrap().mappings().len(), mappings);
    let found = read(&[("a.yaml", &most), ("b.yaml", &numbered(mappings, 1))]).unwrap_err();
    let expected = "b.yaml:9: spec.backends: more than 65536 backends in all mappings together";
    assert_eq!(found, expected);
}

#[test]
fn labels_are_bounded() {
    let labels = |count: usize| {
        let labels: Vec<String> = (0..count).map(|number| format!("l{number}: x")).collect();
        with("id: web }", &format!("id: web, labels: {{ {} }} }}", labels.join(", ")))
    };
    assert!(read(&[("a.yaml", &labels(MAX_LABELS))]).is_ok());
    let found = problems(&labels(MAX_LABELS + 1));
    assert_eq!(found, "web.yaml:2: metadata.labels: 65 entries: at most 64");
}

#[test]
fn the_smallest_table_has_128_rows_for_each_backend_until_the_full_one() {
    let table = |backends, rows: u32| numbered(0, backends) + &format!("  tableSize: {rows}\n");
    for (backends, least) in [(1, 128), (2, 256), (512, 65_536), (513, 65_537), (4_096, 65_537)] {
        assert!(read(&[("a.yaml", &table(backends, least))]).is_ok(), "{backends}");
        let found = problems(&table(backends, least - 1));
        let expected = format!(
            "spec.tableSize: {} rows are too few for {backends} backends: write {least} or more, \
             128 for each backend up to the full table",
            least - 1
        );
        assert!(found.ends_with(&expected), "{found}");
    }
}

#[test]
fn keys_and_values_of_labels_and_annotations_are_bounded() {
    let note = |field: &str, key: usize, value: usize| {
        let (key, value) = ("k".repeat(key), "v".repeat(value));
        let text = with("id: web }", &format!("id: web, {field}: {{ {key}: {value} }} }}"));
        read(&[("a.yaml", &text)]).is_ok()
    };
    assert!(note("labels", MAX_LABEL_KEY_BYTES, MAX_LABEL_VALUE_BYTES));
    assert!(!note("labels", MAX_LABEL_KEY_BYTES + 1, 1));
    assert!(!note("labels", 1, MAX_LABEL_VALUE_BYTES + 1));
    assert!(note("annotations", MAX_LABEL_KEY_BYTES, MAX_ANNOTATION_BYTES));
    assert!(!note("annotations", 1, MAX_ANNOTATION_BYTES + 1));
}
