//! What the labs of the L4 tier share: networks, lb-node, its resources, servers and captures.

pub mod balancer;
pub mod bed;
pub mod capture;
pub mod clients;
pub mod mapping;
pub mod servers;

use std::time::Duration;
use testkit::lab::Host;

/// How long something may take before the lab is called broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a program on a host to its end: its exit code and what it wrote.
///
/// # Errors
/// It cannot be started, or does not end in time.
pub fn run(host: &Host, program: &str, args: &[&str]) -> Result<(Option<i32>, String), String> {
    let mut process = host.spawn(program, args).map_err(|error| error.to_string())?;
    let status = process.wait(PATIENCE)?;
    Ok((status.code(), process.lines().join("\n")))
}

/// Runs a program on a host that must succeed; what it wrote.
///
/// # Errors
/// It does not.
pub fn done(host: &Host, program: &str, args: &[&str]) -> Result<String, String> {
    match run(host, program, args)? {
        (Some(0), output) => Ok(output),
        (code, output) => Err(format!("{program} {}: {code:?}: {output}", args.join(" "))),
    }
}
