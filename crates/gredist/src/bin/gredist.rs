//! gredist(8).

fn main() -> std::process::ExitCode {
    gredist::main(std::env::args_os())
}
