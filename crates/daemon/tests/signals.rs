//! Signals hit a whole process and interrupt its system calls, so this test has one to itself.

use std::time::Duration;

use daemon::signals::{Signal, Signals};
use rustix::process::{Signal as Raw, getpid, kill_process};

#[tokio::test]
async fn each_signal_arrives_under_its_meaning() {
    let mut signals = Signals::new().unwrap();
    for (raw, meaning) in [
        (Raw::HUP, Signal::Reload),
        (Raw::USR1, Signal::Statistics),
        (Raw::INT, Signal::Terminate),
        (Raw::TERM, Signal::Terminate),
        (Raw::HUP, Signal::Reload),
    ] {
        kill_process(getpid(), raw).unwrap();
        let signal = tokio::time::timeout(Duration::from_secs(5), signals.next()).await;
        assert_eq!(signal, Ok(meaning), "{raw:?}");
    }
}
