//! Which crate may use which.
//!
//! ```text
//! 0 wire balance health <- 1 datapath lb-api <- 2 shells <- 3 tiers <- 4 programs
//!                                                  netio xdp ebpf probe config daemon
//! ```
//! An arrow points to what is used. Within a layer a crate uses only what its row names; tiers name
//! none of each other: they meet on the wire. Dev-dependencies are free.

use cargo_metadata::{DependencyKind, Metadata};

use super::Finding;

/// A crate of the workspace and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) layer: Layer,
    /// What it may use within its own layer.
    pub(super) beside: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Formats and decisions, pure.
    Ground,
    /// What is composed of them, pure.
    Core,
    /// What touches the kernel.
    Shell,
    /// Daemons that do one job.
    Tier,
    /// Sees everything.
    Top,
}

impl Layer {
    pub(super) fn is_pure(self) -> bool {
        matches!(self, Self::Ground | Self::Core)
    }
}

/// A new crate gets its row here; a crate without one is a finding.
pub(super) const MEMBERS: &[Member] = &[
    row("wire", Layer::Ground, &[]),
    row("balance", Layer::Ground, &[]),
    row("health", Layer::Ground, &[]),
    row("datapath", Layer::Core, &[]),
    row("lb-api", Layer::Core, &[]),
    row("netio", Layer::Shell, &[]),
    row("ebpf", Layer::Shell, &[]),
    row("xdp", Layer::Shell, &[]),
    row("config", Layer::Shell, &[]),
    row("probe", Layer::Shell, &["netio"]),
    row("daemon", Layer::Shell, &["netio"]),
    row(TESTKIT, Layer::Shell, &["netio"]),
    row("gredist", Layer::Tier, &[]),
    row("lb-node", Layer::Tier, &[]),
    row("castellum", Layer::Top, &[]),
    row("labs", Layer::Top, &[]),
    row("xtask", Layer::Top, &[]),
];

/// Outside tests only the top uses it.
const TESTKIT: &str = "testkit";

const fn row(name: &'static str, layer: Layer, beside: &'static [&'static str]) -> Member {
    Member { name, layer, beside }
}

/// Who uses whom; the part of cargo's metadata that rules read.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    /// Names of the workspace's crates.
    pub(super) members: Vec<String>,
    pub(super) uses: Vec<Use>,
}

/// One package uses another, tests aside.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) user: String,
    pub(super) used: String,
}

impl Graph {
    /// The normal and build dependencies of all packages, as resolved for this workspace.
    pub(super) fn from(metadata: &Metadata) -> Self {
        let members = metadata.workspace_packages().iter().map(|p| p.name.to_string()).collect();
        let mut uses = Vec::new();
        for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
            for dependency in &node.deps {
                let for_tests_only = dependency
                    .dep_kinds
                    .iter()
                    .all(|kind| kind.kind == DependencyKind::Development);
                if !for_tests_only {
                    let user = metadata[&node.id].name.to_string();
                    uses.push(Use { user, used: metadata[&dependency.pkg].name.to_string() });
                }
            }
        }
        Self { members, uses }
    }

    /// What `user` uses directly.
    pub(super) fn used_by<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a str> {
        self.uses.iter().filter(move |each| each.user == user).map(|each| each.used.as_str())
    }
}

pub(super) fn check(graph: &Graph, rows: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &graph.members {
        let place = format!("crate {name}");
        let Some(user) = find(rows, name) else {
            let wrong = "has no layer: give it a row in crates/xtask/src/tidy/layers.rs";
            findings.push(Finding::new(place, wrong));
            continue;
        };
        for used in graph.used_by(name).filter_map(|used| find(rows, used)) {
            if let Some(wrong) = objection(user, used) {
                findings.push(Finding::new(place.clone(), wrong));
            }
        }
    }
    findings
}

fn find<'a>(rows: &'a [Member], name: &str) -> Option<&'a Member> {
    rows.iter().find(|row| row.name == name)
}

fn objection(user: &Member, used: &Member) -> Option<String> {
    if used.name == TESTKIT && user.layer != Layer::Top {
        return Some(format!("uses {TESTKIT} outside its tests"));
    }
    let allowed = user.layer == Layer::Top
        || used.layer < user.layer
        || used.layer == user.layer && user.beside.contains(&used.name);
    if allowed {
        return None;
    }
    Some(format!("is of layer {:?} and uses {} of layer {:?}", user.layer, used.name, used.layer))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `"a -> b"` says that a uses b; all crates named are members, but those with a dot.
    pub(in super::super) fn graph(uses: &[&str]) -> Graph {
        let mut graph = Graph::default();
        for line in uses {
            let (user, used) = line.split_once(" -> ").unwrap();
            for name in [user, used] {
                if !name.contains('.') && !graph.members.iter().any(|known| known == name) {
                    graph.members.push(name.to_owned());
                }
            }
            graph.uses.push(Use { user: user.to_owned(), used: used.to_owned() });
        }
        graph
    }

    fn wrong(uses: &[&str], rows: &[Member]) -> Vec<String> {
        check(&graph(uses), rows)
            .into_iter()
            .map(|finding| format!("{} {}", finding.place, finding.wrong))
            .collect()
    }

    #[test]
    fn the_direction_of_the_design_has_no_finding() {
        let uses = [
            "datapath -> wire",
            "netio -> wire",
            "ebpf -> datapath",
            "xdp -> datapath",
            "xdp -> wire",
            "probe -> netio",
            "probe -> health",
            "gredist -> probe",
            "gredist -> datapath",
            "testkit -> netio",
            "labs -> testkit",
            "castellum -> gredist",
            "gredist -> tokio.crate",
        ];
        assert_eq!(wrong(&uses, MEMBERS), [""; 0]);
    }

    #[test]
    fn each_wrong_direction_is_found() {
        for (uses, says) in [
            ("wire -> datapath", "crate wire is of layer Ground and uses datapath of layer Core"),
            ("wire -> balance", "crate wire is of layer Ground and uses balance of layer Ground"),
            ("datapath -> netio", "crate datapath is of layer Core and uses netio of layer Shell"),
            ("netio -> probe", "crate netio is of layer Shell and uses probe of layer Shell"),
            ("ebpf -> netio", "crate ebpf is of layer Shell and uses netio of layer Shell"),
            ("xdp -> ebpf", "crate xdp is of layer Shell and uses ebpf of layer Shell"),
            ("config -> netio", "crate config is of layer Shell and uses netio of layer Shell"),
            ("daemon -> gredist", "crate daemon is of layer Shell and uses gredist of layer Tier"),
            (
                "gredist -> castellum",
                "crate gredist is of layer Tier and uses castellum of layer Top",
            ),
            ("gredist -> testkit", "crate gredist uses testkit outside its tests"),
            ("probe -> testkit", "crate probe uses testkit outside its tests"),
        ] {
            assert_eq!(wrong(&[uses], MEMBERS), [says]);
        }
    }

    #[test]
    fn tiers_never_use_each_other() {
        let rows = [row("gredist", Layer::Tier, &[]), row("lb-node", Layer::Tier, &[])];
        assert_eq!(
            wrong(&["lb-node -> gredist"], &rows),
            ["crate lb-node is of layer Tier and uses gredist of layer Tier"]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = wrong(&["newcomer -> wire"], MEMBERS);
        assert!(found[0].starts_with("crate newcomer has no layer"), "{found:?}");
    }
}
