//! See `labs::fuzz::gre_process`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::gre_process(octets));
