//! Resources of the L4 tier, written as an operator writes them.

use std::fmt::Write as _;

/// One NATLBMappings resource.
#[derive(Clone, Debug)]
pub struct Mapping {
    id: String,
    vip: String,
    protocol: String,
    port: Option<u16>,
    more: Vec<String>,
    backends: Vec<String>,
    check: String,
}

impl Mapping {
    /// A mapping without backends that checks nothing. `icmp` and protocols by number have no port.
    #[must_use]
    pub fn new(id: &str, vip: &str, protocol: &str, port: Option<u16>) -> Self {
        Self {
            id: id.into(),
            vip: vip.into(),
            protocol: protocol.into(),
            port,
            more: Vec::new(),
            backends: Vec::new(),
            check: "{ type: DISABLED }".into(),
        }
    }

    /// Hides the clients from the backends.
    #[must_use]
    pub fn twice_nat(self) -> Self {
        self.with("twiceNat: true")
    }

    /// One more line of the specification.
    #[must_use]
    pub fn with(mut self, line: &str) -> Self {
        self.more.push(line.into());
        self
    }

    /// One more backend; more fields, `weight: 3` for example, may follow its port.
    #[must_use]
    pub fn backend(mut self, name: &str, address: &str, more: &str) -> Self {
        self.backends.push(format!("{{ name: {name}, address: \"{address}\"{more} }}"));
        self
    }

    /// Checks backends like this.
    #[must_use]
    pub fn check(mut self, check: &str) -> Self {
        self.check = check.into();
        self
    }

    /// The YAML document.
    #[must_use]
    pub fn yaml(&self) -> String {
        let Self { id, vip, protocol, port, more, backends, check } = self;
        let mut text = format!(
            "---\ntype: NATLBMappings.lb.siha\nmetadata: {{ namespace: lb, id: {id} }}\nspec:\n  \
             vipAddress: \"{vip}\"\n  protocol: {protocol}\n"
        );
        if let Some(port) = port {
            let _infallible = writeln!(text, "  vipPort: {port}");
        }
        for line in more {
            let _infallible = writeln!(text, "  {line}");
        }
        text.push_str("  backends:\n");
        for backend in backends {
            let _infallible = writeln!(text, "    - {backend}");
        }
        let _infallible = writeln!(text, "  healthCheck: {check}");
        text
    }
}
