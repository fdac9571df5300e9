//! Compiles what libweigh reads streams with, instrumented as the rest: libFuzzer sees which way it goes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The one that connects is another one here.
const TALKS: &str = "trace_talk.c";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says"));
    let libweigh = Path::new("../libweigh");
    let sources = ["trace.c", "trace_rings.c", TALKS, "trace_text.c"];
    let mut sources: Vec<PathBuf> = sources.map(|name| libweigh.join("src").join(name)).into();
    sources.push("src/streams.c".into());
    let sanitized = std::env::var("CARGO_CFG_SANITIZE").unwrap_or_default().contains("address");
    let mut objects = Vec::new();
    for source in &sources {
        println!("cargo::rerun-if-changed={}", source.display());
        let object = out.join(source.file_name().expect("a name")).with_extension("o");
        let mut compile = Command::new("clang");
        compile.args(["-O1", "-g1", "-std=gnu17", "-D_GNU_SOURCE", "-fPIC", "-pthread", "-c"]);
        compile
            .arg("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp")
            .arg("-I")
            .arg(libweigh);
        if sanitized {
            compile.arg("-fsanitize=address");
        }
        if source.ends_with(TALKS) {
            compile.arg("-Dweigh_trace_dial=weigh_trace_dial_for_real");
        }
        must(compile.arg("-o").arg(&object).arg(source));
        objects.push(object);
    }
    let archive = out.join("libstreams.a");
    let _ = std::fs::remove_file(&archive);
    must(Command::new("ar").arg("rcs").arg(&archive).args(&objects));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=streams");
}

fn must(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
