//! See `labs::fuzz::icmp_reply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::icmp_reply(octets));
