//! The operator's HTTP listener: `/healthz`, `/readyz`, `/metrics`, `/status`.
//!
//! ```text
//! GET /healthz  200 "ok" while the control loop runs, since that loop is what answers
//! GET /readyz   200 "ready", or 503 and the reason
//! GET /metrics  Prometheus text, see `metrics`
//! GET /status   JSON
//! ```
//!
//! It is meant for a management network: HTTP/1.1 without TLS, one request per connection. Its limits
//! keep strangers from hurting the daemon, and at the limit of connections the oldest is closed, so
//! that a flood of idle ones does not lock out the health check.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use crate::metrics::{self, Exposition};

/// What a daemon shows of itself. Called in the control loop's thread: no call may block.
pub trait Source: Send + Sync {
    /// Whether the daemon can do its job, or why not.
    ///
    /// # Errors
    /// The reason, in words for the operator.
    fn ready(&self) -> Result<(), String>;

    /// Writes down all metrics.
    fn metrics(&self, out: &mut Exposition);

    /// The present state in full.
    fn status(&self) -> serde_json::Value;
}

/// A bound listener.
#[derive(Debug)]
pub struct Ops {
    listener: TcpListener,
    limits: Limits,
}

impl Ops {
    /// Binds and listens, without a runtime, so that a taken port is an error at start.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, limits: Limits::default() })
    }

    /// The address, with the real port if port 0 was asked for.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the future is dropped, which closes all connections.
    ///
    /// # Errors
    /// If the runtime cannot watch the listener; nothing later ends it.
    pub async fn serve(self, source: Arc<dyn Source>) -> io::Result<Infallible> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let mut connections = Connections::default();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = serve_connection(stream, Arc::clone(&source), self.limits);
                    connections.add(connection, self.limits.connections);
                }
                // Out of descriptors or memory, or the client has gone: wait rather than spin.
                Err(error) => {
                    tracing::debug!(%error, "ops connection was not accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// What strangers may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    /// From the connection's start to the end of the request's header.
    header: Duration,
    /// From its start to the end of the response.
    connection: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            header: Duration::from_secs(5),
            connection: Duration::from_secs(15),
        }
    }
}

/// The open connections, oldest first. Dropping it closes them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    by_age: VecDeque<AbortHandle>,
}

impl Connections {
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static, limit: usize) {
        while self.tasks.try_join_next().is_some() {}
        self.by_age.retain(|handle| !handle.is_finished());
        if self.by_age.len() >= limit
            && let Some(oldest) = self.by_age.pop_front()
        {
            oldest.abort();
        }
        self.by_age.push_back(self.tasks.spawn(connection));
    }
}

async fn serve_connection(stream: TcpStream, source: Arc<dyn Source>, limits: Limits) {
    let service = service_fn(|request: Request<_>| {
        let response = respond(&*source, request.method(), request.uri().path());
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .keep_alive(false)
        // `printf ... | nc` shuts its side down before the answer.
        .half_close(true)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(limits.connection, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "ops connection failed"),
        Err(_) => tracing::debug!("ops connection took too long"),
    }
}

/// The whole answer to a request: a function of the source, the method and the path.
fn respond(source: &dyn Source, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let page = match path {
        "/healthz" => |_: &dyn Source| text(StatusCode::OK, "ok\n"),
        "/readyz" => readyz,
        "/metrics" => metrics_page,
        "/status" => status_page,
        _ => return text(StatusCode::NOT_FOUND, "not found\n"),
    };
    // hyper leaves out the body of an answer to HEAD and keeps its length.
    if matches!(*method, Method::GET | Method::HEAD) {
        page(source)
    } else {
        let refusal = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        with_header(refusal, ALLOW, "GET, HEAD")
    }
}

fn readyz(source: &dyn Source) -> Response<Full<Bytes>> {
    match source.ready() {
        Ok(()) => text(StatusCode::OK, "ready\n"),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

fn metrics_page(source: &dyn Source) -> Response<Full<Bytes>> {
    let mut out = Exposition::new();
    source.metrics(&mut out);
    with_header(text(StatusCode::OK, out.to_string()), CONTENT_TYPE, metrics::CONTENT_TYPE)
}

fn status_page(source: &dyn Source) -> Response<Full<Bytes>> {
    let body = format!("{:#}\n", source.status());
    with_header(text(StatusCode::OK, body), CONTENT_TYPE, "application/json")
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    with_header(response, CONTENT_TYPE, "text/plain; charset=utf-8")
}

fn with_header(
    mut response: Response<Full<Bytes>>,
    name: HeaderName,
    value: &'static str,
) -> Response<Full<Bytes>> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// Far more than any scraper or probe sends.
const MAX_HEADERS: usize = 64;
/// hyper's own minimum is 8 KiB; also the longest request header.
const MAX_BUFFER_BYTES: usize = 16 << 10;
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
