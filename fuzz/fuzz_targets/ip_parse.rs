//! See `labs::fuzz::ip_parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::ip_parse(octets));
