//! See `labs::fuzz::keyvalue`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| labs::fuzz::keyvalue(octets));
