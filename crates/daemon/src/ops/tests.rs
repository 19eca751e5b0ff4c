//! The listener from outside: real sockets on loopback, and clients that misbehave.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::thread::JoinHandle;

use serde_json::json;
use tokio::sync::oneshot;

use super::*;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(10);

struct Fixed {
    ready: Result<(), String>,
    metrics_help: String,
}

impl Default for Fixed {
    fn default() -> Self {
        Self { ready: Ok(()), metrics_help: "Backends that are up.".into() }
    }
}

impl Source for Fixed {
    fn ready(&self) -> Result<(), String> {
        self.ready.clone()
    }

    fn metrics(&self, out: &mut Exposition) {
        out.gauge("backends", &self.metrics_help).sample(&[], 3);
    }

    fn status(&self) -> serde_json::Value {
        json!({"backends": [{"address": "10.0.0.1", "state": "up"}]})
    }
}

/// A listener with its runtime in a thread, stopped on drop.
struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(source: Fixed, limits: Limits) -> Self {
        let mut ops = Ops::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        ops.limits = limits;
        let address = ops.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! {
                    served = ops.serve(Arc::new(source)) => panic!("ended: {served:?}"),
                    _ = stopped => {}
                }
            });
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn request(&self, method: &str, path: &str) -> (String, String) {
        let response = self.exchange(&format!("{method} {path} HTTP/1.1\r\nHost: ops\r\n\r\n"));
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn running() -> Running {
    Running::new(Fixed::default(), Limits::default())
}

#[test]
fn each_page_answers_with_its_status_type_and_body() {
    let ops = running();
    for (path, status, content_type, body) in [
        ("/healthz", "200 ok", "text/plain; charset=utf-8", "ok\n"),
        ("/readyz", "200 ok", "text/plain; charset=utf-8", "ready\n"),
        ("/readyz?verbose", "200 ok", "text/plain; charset=utf-8", "ready\n"),
        (
            "/metrics",
            "200 ok",
            "text/plain; version=0.0.4",
            "# HELP backends Backends that are up.\n# TYPE backends gauge\nbackends 3\n",
        ),
        ("/", "404 not found", "text/plain; charset=utf-8", "not found\n"),
        ("/healthz/", "404 not found", "text/plain; charset=utf-8", "not found\n"),
    ] {
        let (head, got) = ops.request("GET", path);
        assert!(head.starts_with(&format!("http/1.1 {status}\r\n")), "{path}: {head}");
        assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{path}: {head}");
        assert_eq!(got, body, "{path}");
    }
    let (head, body) = ops.request("GET", "/status");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, Fixed::default().status());
}

#[test]
fn unready_daemon_answers_503_with_the_reason_and_stays_healthy() {
    let source = Fixed { ready: Err("no backend is up".into()), ..Fixed::default() };
    let ops = Running::new(source, Limits::default());
    let (head, body) = ops.request("GET", "/readyz");
    assert!(head.starts_with("http/1.1 503 service unavailable\r\n"), "{head}");
    assert_eq!(body, "not ready: no backend is up\n");
    assert_eq!(ops.request("GET", "/healthz").1, "ok\n");
}

#[test]
fn head_has_the_length_of_get_and_no_body() {
    let ops = running();
    let (head, body) = ops.request("HEAD", "/healthz");
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(head.contains("content-length: 3"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn other_methods_are_refused_on_pages_and_not_found_elsewhere() {
    let ops = running();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let (head, _) = ops.request(method, "/metrics");
        assert!(head.starts_with("http/1.1 405 method not allowed\r\n"), "{method}: {head}");
        assert!(head.contains("allow: get, head\r\n"), "{method}: {head}");
        let (head, _) = ops.request(method, "/none");
        assert!(head.starts_with("http/1.1 404 not found\r\n"), "{method}: {head}");
    }
}

#[test]
fn nonsense_and_oversized_headers_are_refused() {
    let ops = running();
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
    let long = format!("GET /healthz HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(MAX_BUFFER_BYTES));
    for (name, request, code) in
        [("nonsense", "hello\r\n\r\n", "400"), ("many", &many, "431"), ("long", &long, "431")]
    {
        let mut stream = ops.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(status, *format!("HTTP/1.1 {code}").as_bytes(), "{name}");
    }
    assert_eq!(ops.request("GET", "/healthz").1, "ok\n");
}

#[test]
fn slow_and_silent_clients_are_closed_and_hold_up_nobody() {
    let header = Duration::from_millis(200);
    let ops = Running::new(Fixed::default(), Limits { header, ..Limits::default() });
    let silent = ops.connect();
    let mut slow = ops.connect();
    slow.write_all(b"GET /healthz HTT").unwrap();
    assert_eq!(ops.request("GET", "/healthz").1, "ok\n", "while the others wait");
    for mut stream in [silent, slow] {
        let mut rest = Vec::new();
        // The end of the stream, not the end of our patience.
        stream.read_to_end(&mut rest).unwrap();
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn client_that_does_not_read_is_cut_off() {
    // More than the sockets' buffers hold, so that the response cannot be finished.
    const HELP_BYTES: usize = 64 << 20;
    let source = Fixed { metrics_help: "x".repeat(HELP_BYTES), ..Fixed::default() };
    let connection = Duration::from_millis(500);
    let ops = Running::new(source, Limits { connection, ..Limits::default() });
    let mut idle_reader = ops.connect();
    idle_reader.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    // A younger connection is the clock: when its time is over, so is that of the older one.
    assert_eq!(ops.connect().read(&mut [0]).unwrap(), 0);
    let mut response = Vec::new();
    let ended = idle_reader.read_to_end(&mut response);
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(response.len() < HELP_BYTES, "all {} bytes came, {ended:?}", response.len());
}

#[test]
fn flood_of_idle_connections_does_not_lock_out_a_request() {
    // Idle ones would stay for the whole test, were it not for the limit.
    let patient = Limits { header: PATIENCE * 10, connection: PATIENCE * 10, ..Limits::default() };
    let ops = Running::new(Fixed::default(), patient);
    let mut flood: Vec<_> = (0..3 * patient.connections).map(|_| ops.connect()).collect();
    assert_eq!(ops.request("GET", "/healthz").1, "ok\n");

    let (closed, open) = flood.split_at_mut(2 * patient.connections + 1);
    for stream in closed {
        // A reset is fine too: all that matters is that it is not held any longer.
        let ended = stream.read(&mut [0]);
        let timed_out = |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        assert!(ended.map_or_else(|e| !timed_out(e.kind()), |len| len == 0), "one is still open");
    }
    let newest = open.last_mut().unwrap();
    newest.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    newest.shutdown(Shutdown::Write).unwrap();
    let mut response = String::new();
    newest.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("\r\n\r\nok\n"), "the newest were kept: {response}");
}

#[test]
fn taken_port_is_an_error_at_start() {
    let first = Ops::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let error = Ops::bind(first.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
