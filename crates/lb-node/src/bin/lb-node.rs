//! The program lb-node; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lb_node::main(std::env::args_os())
}
