//! Offloads: what a device or the kernel does to packets before anybody sees them.

use libc::{c_char, c_void};
use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

/// `linux/ethtool.h`: get generic receive offload.
const ETHTOOL_GGRO: u32 = 0x2b;
/// `linux/ethtool.h`: set transmit checksum offload.
const ETHTOOL_STXCSUM: u32 = 0x17;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Names of the calling thread's network devices, but for loopback, on which generic receive
/// offload is on: the kernel may merge packets of one flow, GRE's included, into larger ones.
///
/// # Errors
/// The devices cannot be listed.
pub fn merging_devices() -> io::Result<Vec<String>> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let names = device_names()?.into_iter().filter(|name| name != "lo");
    Ok(names.filter(|name| merges(&socket, name)).collect())
}

fn device_names() -> io::Result<Vec<String>> {
    // SAFETY: the call takes no arguments; its result is checked and freed below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut at = list;
    loop {
        // SAFETY: the list ends with an entry whose name is null, and `at` has not passed it.
        let name = unsafe { (*at).if_name };
        if name.is_null() {
            break;
        }
        // SAFETY: a name that is not null is a C string that lives as long as the list.
        names.push(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
        // SAFETY: the entry at hand is not the last one.
        at = unsafe { at.add(1) };
    }
    // SAFETY: the list came from if_nameindex and is freed once.
    unsafe { libc::if_freenameindex(list) };
    Ok(names)
}

/// Has the device compute checksums before it sends, and not leave them to whoever receives: what
/// reads packets at the far end of a veth, before the host there, sees them as they came.
///
/// # Errors
/// The device refuses, or there is none of this name.
pub fn complete_checksums(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    ethtool(&socket, name, &mut Value { command: ETHTOOL_STXCSUM, data: 0 })
}

/// Whether the device has generic receive offload on; devices that cannot tell have not.
fn merges(socket: &Socket, name: &str) -> bool {
    let mut value = Value { command: ETHTOOL_GGRO, data: 0 };
    ethtool(socket, name, &mut value).is_ok() && value.data != 0
}

/// Asks or tells the device one value.
fn ethtool(socket: &Socket, name: &str, value: &mut Value) -> io::Result<()> {
    // SAFETY: all-zero octets are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last octet stays zero: names are shorter than IFNAMSIZ.
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast::<c_char>();
    let request: *mut c_void = std::ptr::from_mut(&mut request).cast();
    // SAFETY: SIOCETHTOOL reads the name, and reads or writes the `ethtool_value` that the request
    // points to; both live until after the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_asked_and_loopback_is_left_out() {
        assert!(device_names().unwrap().contains(&"lo".to_owned()));
        assert!(!merging_devices().unwrap().contains(&"lo".to_owned()));
    }
}
