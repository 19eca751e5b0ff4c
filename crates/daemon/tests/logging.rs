//! What the log looks like from outside. A process has one log, so each case runs this test binary
//! again as a process of its own, with `CASE` telling it what to do.

#![expect(clippy::unwrap_used, reason = "helpers of tests may, like tests")]

use std::env;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output as Finished};
use std::time::Duration;

use daemon::args::LogFormat;
use daemon::logging::{self, Output};

const CASE: &str = "CASE";

/// Not a test by itself: the other side of those below.
#[test]
fn logging_process() {
    let Ok(case) = env::var(CASE) else { return };
    let (output, format) = match case.as_str() {
        "text" => (Output::Stderr, LogFormat::Text),
        "json" => (Output::Stderr, LogFormat::Json),
        "syslog" => return syslog_process(),
        other => panic!("unknown case {other}"),
    };
    if let Err(error) = logging::init(format, output) {
        eprintln!("{error}");
        return;
    }
    log_events();
    assert!(logging::init(format, output).is_err(), "a second log was accepted");
}

fn log_events() {
    let backend = std::net::Ipv4Addr::new(10, 0, 0, 2);
    tracing::warn!(%backend, cause = "timeout", failures = 2, "backend changed");
    tracing::info!("reloaded");
    tracing::debug!("detail");
}

fn run(case: &str, level: Option<&str>) -> Finished {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "logging_process", "--nocapture"]).env(CASE, case);
    match level {
        Some(level) => command.env(logging::LEVEL_VARIABLE, level),
        None => command.env_remove(logging::LEVEL_VARIABLE),
    };
    command.output().unwrap()
}

fn stderr_lines(case: &str, level: Option<&str>) -> Vec<String> {
    let finished = run(case, level);
    assert!(finished.status.success(), "{finished:?}");
    String::from_utf8(finished.stderr).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn text_lines_have_time_level_message_and_fields_without_colour() {
    let lines = stderr_lines("text", None);
    let without_time: Vec<_> =
        lines.iter().map(|line| line.split_once('Z').unwrap().1.trim()).collect();
    assert_eq!(
        without_time,
        [r#"WARN backend changed backend=10.0.0.2 cause="timeout" failures=2"#, "INFO reloaded"]
    );
}

#[test]
fn json_lines_are_flat_objects() {
    let lines = stderr_lines("json", Some("debug"));
    let objects: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let field = |i: usize, name: &str| objects[i][name].clone();
    assert_eq!(objects.len(), 3, "the level lets debug through");
    assert_eq!(field(0, "level"), "WARN");
    assert_eq!(field(0, "message"), "backend changed");
    assert_eq!(field(0, "backend"), "10.0.0.2");
    assert_eq!(field(0, "failures"), 2);
    assert!(field(0, "timestamp").is_string());
}

#[test]
fn level_variable_filters_and_nonsense_in_it_is_refused() {
    assert_eq!(stderr_lines("text", Some("error")), Vec::<String>::new());
    for silent in ["warning", "foo", "info,foo", "=info", ""] {
        let lines = stderr_lines("text", Some(silent));
        assert!(!lines.is_empty(), "{silent} silences everything");
    }
    let lines = stderr_lines("text", Some("noise=loud=er"));
    assert!(lines[0].starts_with("CASTELLUM_LOG=noise=loud=er is no log level: "), "{lines:?}");
}

/// syslog(3) writes to /dev/log, so this one gets a mount namespace with a /dev of its own.
#[test]
fn syslog_gets_severity_name_and_one_datagram_per_event() {
    let script = r#"mount -t tmpfs none /dev && exec "$0" --exact logging_process --nocapture"#;
    let finished = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(env::current_exe().unwrap())
        .env(CASE, "syslog")
        .env_remove(logging::LEVEL_VARIABLE)
        .output();
    match finished {
        Ok(finished) if finished.status.success() => {}
        // 101 is a test that failed; anything else is the namespace that was refused.
        Ok(finished) if finished.status.code() == Some(101) => panic!("{finished:?}"),
        refused => {
            let required = env::var_os("LABS").is_some_and(|value| value == "required");
            assert!(!required, "must not be skipped: {refused:?}");
            println!("skipped: no mount namespace: {refused:?}");
        }
    }
}

fn syslog_process() {
    let log = UnixDatagram::bind("/dev/log").unwrap();
    log.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    logging::init(LogFormat::Text, Output::Syslog("gredist")).unwrap();
    log_events();
    let mut buf = [0; 1024];
    let mut receive = || {
        let len = log.recv(&mut buf).unwrap();
        String::from_utf8(buf[..len].to_vec()).unwrap()
    };
    let pid = std::process::id();
    // Priority = facility daemon (3) * 8 + severity (RFC 5424 6.2.1): 4 warning, 5 notice. The C
    // library adds its own time stamp between the priority and the name.
    for (priority, text) in [
        ("<28>", r#"backend changed backend=10.0.0.2 cause="timeout" failures=2"#),
        ("<29>", "reloaded"),
    ] {
        let line = receive();
        assert!(line.starts_with(priority), "{line:?}");
        assert!(line.trim_end().ends_with(&format!("gredist[{pid}]: {text}")), "{line:?}");
        assert_eq!(line.trim_end().lines().count(), 1, "{line:?}");
    }
}
