//! See `labs::fuzz::wire_headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::wire_headers(octets));
