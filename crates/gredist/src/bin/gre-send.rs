//! gre-send(1).

fn main() -> std::process::ExitCode {
    gredist::lab::send::main(std::env::args_os())
}
