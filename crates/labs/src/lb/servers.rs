//! What runs on backends: nginx, and an echo over TCP and UDP that says its name.

use crate::lb::PATIENCE;
use crate::peers::PYTHON;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use tempfile::TempDir;
use testkit::lab::Host;
use testkit::process::Process;

/// A web server: `/` is its name, `/big` 16 MiB, `/slow` the first of them at a measured pace,
/// `/healthz` is well until [`Nginx::set_sick`].
#[derive(Debug)]
pub struct Nginx {
    /// Its process.
    pub process: Process,
    directory: TempDir,
}

/// Octets of `/big`.
pub const BIG: usize = 16 << 20;
/// Octets of `/slow`.
pub const SLOW: usize = 2 << 20;

impl Nginx {
    /// Starts it on port 8080 of every address of the host.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(host: &Host) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let root = directory.path().join("www");
        let write = || -> io::Result<()> {
            std::fs::create_dir(&root)?;
            std::fs::write(root.join("index.html"), host.name())?;
            std::fs::write(root.join("big"), pattern(BIG))?;
            std::fs::write(root.join("slow"), pattern(SLOW))?;
            std::fs::write(directory.path().join("nginx.conf"), config(&directory))
        };
        write().map_err(|error| error.to_string())?;
        let file = directory.path().join("nginx.conf");
        let file = file.to_string_lossy();
        let prefix = directory.path().to_string_lossy();
        let args = ["-p", &prefix, "-e", "stderr", "-c", &file];
        let process = host.spawn("nginx", args).map_err(|error| error.to_string())?;
        let listening = || host.run(|| std::net::TcpStream::connect("127.0.0.1:8080").is_ok());
        testkit::wait::until(PATIENCE, "nginx to listen", listening)
            .map_err(|error| format!("{error}: {}", process.lines().join("; ")))?;
        Ok(Self { process, directory })
    }

    /// The file that is served as `/` and this name.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join("www").join(name)
    }

    /// Has `/healthz` answer 503, or 200 again.
    ///
    /// # Errors
    /// The file that says so cannot be changed.
    pub fn set_sick(&self, sick: bool) -> io::Result<()> {
        let file = self.file("sick");
        if sick { std::fs::write(file, "") } else { std::fs::remove_file(file) }
    }
}

/// Octets whose place can be told from their value.
#[must_use]
pub fn pattern(octets: usize) -> String {
    let mut text = String::with_capacity(octets + 8);
    for number in 0.. {
        if text.len() >= octets {
            break;
        }
        let _infallible = writeln!(text, "{number:07}");
    }
    text.truncate(octets);
    text
}

fn config(directory: &TempDir) -> String {
    let path = directory.path().display();
    format!(
        "daemon off; master_process off; pid {path}/pid;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_timeout 300s; keepalive_requests 1000000;\n\
         client_body_temp_path {path}/a; proxy_temp_path {path}/b; fastcgi_temp_path {path}/c;\n\
         uwsgi_temp_path {path}/d; scgi_temp_path {path}/e;\n\
         server {{ listen 8080; listen [::]:8080; root {path}/www;\n\
         location = /slow {{ limit_rate 512k; }}\n\
         location = /healthz {{ if (-f {path}/www/sick) {{ return 503; }} return 200 well; }} }} }}\n"
    )
}

/// TCP: the host's name and a line end, then every octet back. UDP: the name, the client's address
/// and port as seen, then what came.
const ECHO: &str = r"
import asyncio, socket, sys
name = sys.argv[1].encode()
port = int(sys.argv[2])
async def serve(reader, writer):
    try:
        writer.write(name + b'\n')
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
class Udp(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport
    def datagram_received(self, data, peer):
        seen = peer[0].removeprefix('::ffff:').encode()
        self.transport.sendto(name + b' %s %d ' % (seen, peer[1]) + data, peer)
def bound(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('::', port))
    s.setblocking(False)
    return s
async def main():
    loop = asyncio.get_running_loop()
    await asyncio.start_server(serve, sock=bound(socket.SOCK_STREAM), backlog=4096)
    await loop.create_datagram_endpoint(Udp, sock=bound(socket.SOCK_DGRAM))
    print('listening', flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
";

/// Starts the echo on this port of every address of the host.
///
/// # Errors
/// It does not start.
pub fn echo(host: &Host, port: u16) -> Result<Process, String> {
    let args = ["-c", ECHO, host.name(), &port.to_string()];
    let mut process = host.spawn(PYTHON, args).map_err(|error| error.to_string())?;
    process.wait_for_line(|line| line == "listening", PATIENCE)?;
    Ok(process)
}
