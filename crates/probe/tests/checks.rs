//! Checks against real sockets on loopback: backends that serve, and the many ways not to.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use health::{Policy, State, Transition};
use probe::Sockets;
use probe::checks::{Check, CheckId, Checks, Event, Http, Kind, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

const ID: CheckId = CheckId(1);

/// Long enough for a busy machine; only failures wait so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// Probes that are answered at once, with room for a busy machine. The first result decides.
fn patient() -> Policy {
    let interval = Duration::from_secs(5);
    Policy { interval, timeout: interval, rise: NonZeroU32::MIN, fall: NonZeroU32::MIN }
}

/// For backends that do not answer.
fn impatient() -> Policy {
    Policy { timeout: Duration::from_millis(200), ..patient() }
}

fn check(to: SocketAddr, kind: Kind) -> Check {
    Check { address: to.ip(), port: to.port(), kind, policy: patient() }
}

fn health_page(status: u16) -> Http {
    Http::new("/healthz", None, status).unwrap()
}

fn get() -> Kind {
    Kind::Http(health_page(200))
}

fn without_icmp() -> Checks {
    Checks::new(Sockets::open(&[]).unwrap()).unwrap()
}

/// Calls `serve` for each connection to a port that the kernel picks.
async fn backend<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads a request up to its blank line.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        request.push(byte);
    }
    String::from_utf8(request).unwrap()
}

/// A backend that sends these bytes for each request and closes.
async fn responder(response: impl Into<Vec<u8>>) -> SocketAddr {
    let response: Arc<[u8]> = response.into().into();
    backend(move |mut stream| {
        let response = Arc::clone(&response);
        async move {
            read_request(&mut stream).await;
            // The prober may have heard enough.
            let _ = stream.write_all(&response).await;
        }
    })
    .await
}

async fn next_transition(checks: &mut Checks) -> Transition {
    let next = async {
        loop {
            if let Event::State(transition) = checks.next_change().await.event {
                return transition;
            }
        }
    };
    tokio::time::timeout(DEADLINE, next).await.unwrap()
}

/// How the first probe ended: the state, the cause, and whether the backend was silent.
async fn first_verdict(check: Check) -> (State, String, bool) {
    let mut checks = without_icmp();
    checks.set([(ID, check)]).unwrap();
    let to = next_transition(&mut checks).await.to;
    let Status { state, last_cause, silent, .. } = checks.status(ID).unwrap();
    assert_eq!(state, to);
    (to, last_cause.map(ToString::to_string).unwrap_or_default(), silent)
}

fn up() -> (State, String, bool) {
    (State::Up, String::new(), false)
}

fn answered(cause: &str) -> (State, String, bool) {
    (State::Down, cause.to_owned(), false)
}

fn silent(cause: &str) -> (State, String, bool) {
    (State::Down, cause.to_owned(), true)
}

/// A port that nobody listens on and that nobody else is given while the socket lives.
fn closed_port() -> (tokio::net::TcpSocket, SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn tcp_check_succeeds_by_handshake_and_resets_so_that_no_port_waits() {
    let (ends, mut end) = mpsc::channel(1);
    let to = backend(move |mut stream| {
        let ends = ends.clone();
        async move {
            let read = stream.read(&mut [0; 1]).await;
            let _ = ends.send(read.map_err(|error| error.kind())).await;
        }
    })
    .await;
    assert_eq!(first_verdict(check(to, Kind::Tcp)).await, up());
    let end = tokio::time::timeout(DEADLINE, end.recv()).await.unwrap().unwrap();
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn refused_port_is_an_answer_for_every_kind() {
    let (_socket, to) = closed_port();
    for kind in [Kind::Tcp, get(), Kind::Https(health_page(200))] {
        assert_eq!(first_verdict(check(to, kind)).await, answered("connection refused"));
    }
}

#[tokio::test]
async fn full_accept_queue_is_silence() {
    // The kernel ignores handshakes once the queue is full: to a client, a host that is gone.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let to = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(to)).await
    {
        held.push(stream.unwrap());
    }
    let check = Check { policy: impatient(), ..check(to, Kind::Tcp) };
    assert_eq!(first_verdict(check).await, silent("timeout after 200ms"));
}

#[tokio::test]
async fn address_without_a_route_is_silence_at_once() {
    // TCP has no way to a multicast group: the kernel refuses without a packet.
    let to = SocketAddr::from((Ipv4Addr::new(224, 0, 0, 1), 80));
    assert_eq!(first_verdict(check(to, Kind::Tcp)).await, silent("network is unreachable"));
}

#[tokio::test]
async fn http_check_compares_the_status_and_follows_nothing() {
    let no_content = responder("HTTP/1.1 204 No Content\r\n\r\n").await;
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n";
    for (response, wanted, verdict) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, up()),
        ("HTTP/1.0 200 OK\r\n\r\nok", 200, up()),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200, up()),
        ("HTTP/1.1 503 Unavailable\r\n\r\n", 200, answered("status 503, expected 200")),
        ("HTTP/1.1 503 Unavailable\r\n\r\n", 503, up()),
        (redirect, 200, answered("status 302, expected 200")),
        (redirect, 302, up()),
    ] {
        let to = responder(response).await;
        let verdict_now = first_verdict(check(to, Kind::Http(health_page(wanted)))).await;
        assert_eq!(verdict_now, verdict, "{response:?}, {wanted} wanted");
    }
    assert_eq!(first_verdict(check(no_content, Kind::Http(health_page(204)))).await, up());
}

#[tokio::test]
async fn http_request_is_complete_and_closed_in_order() {
    let (requests, mut request) = mpsc::channel(1);
    let to = backend(move |mut stream| {
        let requests = requests.clone();
        async move {
            let text = read_request(&mut stream).await;
            let body = vec![b'x'; 20_000];
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await.unwrap();
            stream.write_all(&body).await.unwrap();
            stream.shutdown().await.unwrap();
            let _ = requests.send((text, stream.read(&mut [0; 1]).await.unwrap())).await;
        }
    })
    .await;
    let mut checks = without_icmp();
    checks.set([(ID, check(to, get()))]).unwrap();
    assert_eq!(next_transition(&mut checks).await.to, State::Up);
    let (text, end) = tokio::time::timeout(DEADLINE, request.recv()).await.unwrap().unwrap();
    let expected = format!(
        "GET /healthz HTTP/1.1\r\nHost: {to}\r\nUser-Agent: castellum/{}\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!((text, end), (expected, 0), "a FIN, no reset");
}

#[tokio::test]
async fn backend_that_closes_or_talks_nonsense_fails_with_the_cause() {
    let ten_megabytes = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &vec![b'y'; 10_000_000]].concat();
    for (response, cause) in [
        (b"".to_vec(), "connection closed without a response"),
        (b"HTTP/1.1 2".to_vec(), "connection closed within the response head"),
        (
            b"HTTP/1.1 200 OK\r\nServer: x\r\n".to_vec(),
            "connection closed within the response head",
        ),
        (b"220 mail ESMTP\r\n".to_vec(), "malformed response head: invalid HTTP version"),
        (b"\x00\xff\xfe\r\n\r\n".to_vec(), "malformed response head: invalid HTTP version"),
        (ten_megabytes, "response head over 16384 bytes"),
    ] {
        let to = responder(response).await;
        assert_eq!(first_verdict(check(to, get())).await, answered(cause));
    }
}

#[tokio::test]
async fn backend_that_closes_at_once_is_up_by_tcp_and_down_by_http() {
    let to = backend(|stream| async move { drop(stream) }).await;
    assert_eq!(first_verdict(check(to, Kind::Tcp)).await, up());
    let (state, cause, silent) = first_verdict(check(to, get())).await;
    // Either the FIN or the reset that answers the request is seen first.
    let causes = ["connection closed without a response", "connection reset"];
    assert!(state == State::Down && !silent && causes.contains(&cause.as_str()), "{cause}");
}

#[tokio::test]
async fn backend_that_accepts_and_says_nothing_times_out_though_it_answered() {
    let mute = backend(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let half = backend(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 2").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let (mute, half) = (mute.await, half.await);
    for (to, kind) in [(mute, get()), (mute, Kind::Https(health_page(200))), (half, get())] {
        let check = Check { policy: impatient(), ..check(to, kind) };
        let verdict = answered("timeout after 200ms, though connected");
        assert_eq!(first_verdict(check).await, verdict);
    }
}

fn tls_acceptor() -> TlsAcceptor {
    let signed = rcgen::generate_simple_self_signed(["unrelated.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key.unwrap())
        .unwrap();
    Arc::new(config).into()
}

/// A TLS backend that answers 200 and tells the name it was asked for.
async fn tls_backend(names: mpsc::Sender<Option<String>>) -> SocketAddr {
    let acceptor = tls_acceptor();
    backend(move |stream| {
        let (acceptor, names) = (acceptor.clone(), names.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            let _ = names.send(name).await;
            read_request(&mut stream).await;
            respond(&mut stream).await;
        }
    })
    .await
}

async fn respond(stream: &mut (impl AsyncWrite + Unpin)) {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn https_check_accepts_a_self_signed_certificate_and_sends_the_hosts_name() {
    let (names, mut name) = mpsc::channel(4);
    let to = tls_backend(names).await;
    for (host, sni) in [(None, None), (Some("www.example.com:8443"), Some("www.example.com"))] {
        let http = Http::new("/", host, 200).unwrap();
        assert_eq!(first_verdict(check(to, Kind::Https(http))).await, up());
        assert_eq!(name.recv().await.unwrap().as_deref(), sni);
    }
    let wrong = Kind::Https(health_page(204));
    assert_eq!(first_verdict(check(to, wrong)).await, answered("status 200, expected 204"));
}

#[tokio::test]
async fn protocol_of_the_other_kind_is_named_in_the_cause() {
    let clear = responder("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let talkative = backend(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let https = Kind::Https(health_page(200));
    let verdict = answered("TLS: received corrupt message of type InvalidContentType");
    assert_eq!(first_verdict(check(talkative, https.clone())).await, verdict);
    let short = Check { policy: impatient(), ..check(clear, https) };
    let verdict = answered("timeout after 200ms, though connected");
    assert_eq!(first_verdict(short).await, verdict, "it waits for the end of a request");

    let (names, _name) = mpsc::channel(4);
    let (state, cause, silent) = first_verdict(check(tls_backend(names).await, get())).await;
    let malformed = cause.starts_with("malformed response head");
    assert!(
        state == State::Down && !silent && (malformed || cause == "connection reset"),
        "{cause}"
    );
}

#[tokio::test]
async fn backend_recovers_after_as_many_successes_as_the_policy_asks() {
    let (asked, mut requests) = mpsc::channel::<u32>(100);
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let to = backend(move |mut stream| {
        let (count, asked) = (Arc::clone(&count), asked.clone());
        async move {
            read_request(&mut stream).await;
            let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let status = if n < 3 { "503 Unavailable" } else { "200 OK" };
            stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            let _ = asked.send(n).await;
        }
    })
    .await;
    let two = NonZeroU32::new(2).unwrap();
    let interval = Duration::from_millis(200);
    let policy = Policy { interval, timeout: interval, rise: two, fall: two };
    let mut checks = without_icmp();
    checks.set([(ID, Check { policy, ..check(to, get()) })]).unwrap();
    let down = next_transition(&mut checks).await;
    assert_eq!((down.from, down.to), (State::Unproven, State::Down));
    let up = next_transition(&mut checks).await;
    assert_eq!((up.from, up.to), (State::Down, State::Up));
    let asked = std::iter::from_fn(|| requests.try_recv().ok()).count();
    assert!(asked >= 5, "three failures, two successes: {asked}");
    assert_eq!(checks.status(ID).unwrap().failures, 0);
}

#[tokio::test]
async fn icmp_check_comes_up_beside_connections_or_says_what_is_missing() {
    let icmp = |address: IpAddr| Check { port: 0, ..check((address, 0).into(), Kind::Icmp) };
    let v6 = icmp(Ipv6Addr::LOCALHOST.into());
    assert_eq!(first_verdict(v6).await, silent("no ICMPv6 socket is open"));
    let sockets = match Sockets::open(&[probe::Family::V4]) {
        Ok(sockets) => sockets,
        Err(error) => {
            let required = std::env::var_os("LABS").is_some_and(|value| value == "required");
            assert!(!required, "must not be skipped: {error}");
            println!("skipped: {error}");
            return;
        }
    };
    let to = responder("HTTP/1.1 200 OK\r\n\r\n").await;
    let mut checks = Checks::new(sockets).unwrap();
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    checks.set([(ID, icmp(localhost)), (CheckId(2), check(to, get()))]).unwrap();
    for _ in 0..2 {
        assert_eq!(next_transition(&mut checks).await.to, State::Up);
    }
    assert_eq!(checks.statuses().filter(|(_, status)| status.state == State::Up).count(), 2);
}

#[tokio::test]
async fn removed_check_and_dropped_driver_close_their_connections() {
    let (ends, mut end) = mpsc::channel(2);
    let (accepts, mut accepted) = mpsc::channel(2);
    let to = backend(move |mut stream| {
        let (ends, accepts) = (ends.clone(), accepts.clone());
        async move {
            let _ = accepts.send(()).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            let _ = ends.send(()).await;
        }
    })
    .await;
    for end_it in [
        |mut checks: Checks| {
            checks.set([]).unwrap();
            Some(checks)
        },
        |_| None,
    ] {
        let mut checks = without_icmp();
        checks.set([(ID, check(to, get()))]).unwrap();
        tokio::select! {
            accepted = accepted.recv() => accepted.unwrap(),
            change = checks.next_change() => panic!("{change:?}"),
        }
        let _still_there = end_it(checks);
        tokio::time::timeout(DEADLINE, end.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn thousands_of_backends_come_up_and_leave_no_descriptor_behind() {
    let before = descriptors();
    let to = responder("HTTP/1.1 200 OK\r\n\r\n").await;
    let mut checks = without_icmp();
    let set = (0..2000).map(|i| {
        let http = Http::new(&format!("/{i}"), None, 200).unwrap();
        let interval = Duration::from_secs(2);
        let policy = Policy { interval, timeout: interval, ..patient() };
        (CheckId(i), Check { policy, ..check(to, Kind::Http(http)) })
    });
    checks.set(set).unwrap();
    for _ in 0..2000 {
        assert_eq!(next_transition(&mut checks).await.to, State::Up);
    }
    drop(checks);
    wait_for_descriptors(before).await;
}

#[tokio::test]
async fn hundreds_of_reloads_leave_no_descriptor_behind() {
    let before = descriptors();
    let to = backend(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let mut checks = without_icmp();
    for round in 0..500 {
        let http = Http::new(&format!("/{round}"), None, 200).unwrap();
        checks.set([(ID, check(to, Kind::Http(http)))]).unwrap();
        let wait = tokio::time::timeout(Duration::from_millis(2), checks.next_change());
        assert!(wait.await.is_err(), "nothing is answered");
    }
    wait_for_descriptors(before).await;
}

async fn wait_for_descriptors(before: usize) {
    let closed = async {
        while descriptors() > before + SLACK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, closed).await.unwrap();
}

/// Listener, epoll and event descriptors of this and of concurrent tests.
const SLACK: usize = 200;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
