//! Has interfaces pass every frame until it is killed: `pass eth0 eth1`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut stubs = Vec::new();
    for name in std::env::args().skip(1) {
        let index = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
        stubs.push(xdp::Stub::attach(index.trim().parse()?)?);
    }
    loop {
        std::thread::park();
    }
}
