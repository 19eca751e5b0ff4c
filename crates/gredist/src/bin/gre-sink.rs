//! gre-sink(1).

fn main() -> std::process::ExitCode {
    gredist::lab::sink::main(std::env::args_os())
}
