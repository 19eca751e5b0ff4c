//! The nftables table that keeps the host quiet about GRE that it does not understand.
//!
//! While no socket reads a frontend's GRE, the kernel answers it with "protocol unreachable"
//! (IPv4) or "parameter problem, unrecognized next header" (IPv6), which tears tunnels down. The
//! table drops these answers, and these alone, where they come from the frontend or a return
//! address. It is loaded before the daemon starts and stays while it is stopped.

use crate::config::Config;
use ipnet::IpNet;
use std::fmt::Write as _;

/// The longest table name that nftables takes is 255; service names stay well below.
const MAX_NAME_BYTES: usize = 128;

/// The table for a service, as input for `nft -f -`. Loading it again replaces it.
///
/// # Errors
/// A message for the user if the name cannot be a table's.
pub fn table(name: &str, config: &Config) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(allowed) {
        return Err(format!(
            "guard name \"{name}\": must be 1 to {MAX_NAME_BYTES} letters, digits, _ - or ."
        ));
    }
    let ours: Vec<IpNet> = std::iter::once(IpNet::from(config.frontend))
        .chain(config.prefix)
        .chain(config.pool.iter().copied())
        .collect();
    let mut rules = String::new();
    for net in ours {
        let rule = match net {
            IpNet::V4(v4) => format!(
                "ip saddr {v4} icmp type destination-unreachable icmp code prot-unreachable counter drop"
            ),
            IpNet::V6(v6) => {
                format!("ip6 saddr {v6} icmpv6 type parameter-problem icmpv6 code 1 counter drop")
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(rules, "\t\t{rule}");
    }
    Ok(format!(
        "# Keeps this host from answering GRE for service {name}; written by gredist --print-guard.\n\
         add table inet gredist-{name}\n\
         delete table inet gredist-{name}\n\
         table inet gredist-{name} {{\n\
         \tchain output {{\n\
         \t\ttype filter hook output priority 0; policy accept;\n\
         {rules}\
         \t}}\n\
         }}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_ours_is_kept_quiet() {
        let text = "frontend=192.0.2.1\nbackend=10.0.0.1\nbackend=2001:db8:1::1\n\
                    prefix=2001:db8:64::/96\n";
        let table = table("edge-1", &Config::parse("e", text).unwrap()).unwrap();
        assert!(table.contains("table inet gredist-edge-1 {"));
        assert!(table.contains("ip saddr 192.0.2.1/32 icmp type destination-unreachable"));
        assert!(table.contains("ip6 saddr 2001:db8:64::/96 icmpv6 type parameter-problem"));
    }

    #[test]
    fn a_name_that_is_no_table_name_is_refused() {
        let config = Config::parse("e", "frontend=192.0.2.1\nbackend=10.0.0.1\n").unwrap();
        for name in ["", "a b", "x; flush ruleset", "a\"b", "ü"] {
            assert!(table(name, &config).is_err(), "{name}");
        }
    }
}
