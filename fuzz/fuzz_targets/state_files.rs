#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| exonet_fuzz::state_files(data));
