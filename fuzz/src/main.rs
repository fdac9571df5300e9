//! Tries one target, by its name in `WEIGH_FUZZ`: all are in one program.
#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<weigh_fuzz::Target> = OnceLock::new();

fn chosen() -> weigh_fuzz::Target {
    let name = std::env::var("WEIGH_FUZZ").unwrap_or_default();
    weigh_fuzz::target(&name).unwrap_or_else(|| panic!("WEIGH_FUZZ names no target: {name:?}"))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.get_or_init(chosen)(data));
