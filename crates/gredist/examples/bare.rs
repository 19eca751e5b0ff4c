//! gredist's forwarding loop without gredist: the same sockets, batches and system calls, and no
//! decision: packets go to the backends in turn. `cargo xtask bench gredist` measures against it.

use netio::batch::{Batch, Outgoing};
use netio::socket::RawSocket;
use rustix::event::{PollFd, PollFlags, poll};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use wire::{Family, ipv4, protocol};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: bare FRONTEND BACKEND ... (IPv4)";
    let frontend: Ipv4Addr = args.next().ok_or(usage)?.parse()?;
    let backends = args.map(|backend| backend.parse()).collect::<Result<Vec<Ipv4Addr>, _>>()?;
    let mut backends = backends.iter().cycle();
    let receiver = RawSocket::bound(IpAddr::V4(frontend), protocol::GRE)?;
    let sender = RawSocket::sender(Family::V4)?;
    receiver.set_receive_queue(4 << 20)?;
    sender.set_send_queue(4 << 20)?;
    println!("ready");
    let mut batch = Batch::default();
    let mut outgoing = Vec::new();
    loop {
        poll(&mut [PollFd::from_borrowed_fd(receiver.as_fd(), PollFlags::IN)], None)?;
        for slot in 0..batch.receive(&receiver)? {
            let (Some((octets, place, _)), Some(backend)) = (batch.slot(slot), backends.next())
            else {
                continue;
            };
            let destination = octets.get_mut(place.start + ipv4::field::DESTINATION..);
            if let Some(destination) = destination.and_then(<[u8]>::first_chunk_mut) {
                *destination = backend.octets();
            }
            outgoing.push(Outgoing::new(slot, place, IpAddr::V4(*backend)));
        }
        batch.send(&sender, &outgoing, |_, _| {});
        outgoing.clear();
    }
}
