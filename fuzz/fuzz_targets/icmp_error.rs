//! See `labs::fuzz::icmp_error`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::icmp_error(octets));
