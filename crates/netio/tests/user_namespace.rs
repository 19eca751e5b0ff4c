//! `enter_user_namespace` in a process with one thread, as root and as an ordinary user.
//!
//! A program of its own without the test harness, whose threads the kernel would refuse.

use std::io;
use std::process::ExitCode;

use netio::netlink::Netlink;
use netio::netns::{Namespace, enter_user_namespace};

fn main() -> ExitCode {
    if let Err(error) = enter_user_namespace() {
        println!("skipped: {error}");
        let required = std::env::var_os("LABS").is_some_and(|labs| labs == "required");
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    match becomes_root_of_its_own_networks() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn becomes_root_of_its_own_networks() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ids: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"))
        .collect();
    if ids != ["Uid:\t0\t0\t0\t0", "Gid:\t0\t0\t0\t0"] {
        return Err(io::Error::other(format!("not uid 0 and gid 0 but {ids:?}")));
    }
    let namespace = Namespace::new("inner")?;
    namespace.run(|| Netlink::open()?.set_up("lo"))
}
