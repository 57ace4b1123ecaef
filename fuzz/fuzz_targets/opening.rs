#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exonet_fuzz::opening(data));
