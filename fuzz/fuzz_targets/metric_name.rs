#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weigh_fuzz::metric_name(data));
