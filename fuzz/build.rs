//! Compiles what libweigh reads streams with. For libFuzzer it is instrumented as the rest, so that it sees which way
//! that goes; else what C does not define ends the program.

use std::path::PathBuf;
use std::process::Command;

/// The one that connects is another one here.
const TALKS: &str = "trace_talk.c";

const FOR_LIBFUZZER: &str = "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp";
const ELSE: [&str; 2] = ["-fsanitize=undefined,bounds", "-fsanitize-trap=all"];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says"));
    let fuzz = fuzz();
    let libweigh = fuzz.join("../libweigh");
    let sources = ["trace.c", "trace_rings.c", TALKS, "trace_text.c"];
    let mut sources: Vec<PathBuf> = sources.map(|name| libweigh.join("src").join(name)).into();
    sources.push(fuzz.join("src/streams.c"));
    let by_libfuzzer = std::env::var_os("CARGO_CFG_FUZZING").is_some();
    let sanitized = std::env::var("CARGO_CFG_SANITIZE").unwrap_or_default().contains("address");
    let clang = clang();
    let mut objects = Vec::new();
    for source in &sources {
        println!("cargo::rerun-if-changed={}", source.display());
        let object = out.join(source.file_name().expect("a name")).with_extension("o");
        let mut compile = Command::new(clang);
        compile.args(["-O1", "-g1", "-std=gnu17", "-D_GNU_SOURCE", "-fPIC", "-pthread", "-c"]);
        compile.arg("-I").arg(&libweigh);
        if by_libfuzzer {
            compile.arg(FOR_LIBFUZZER);
        } else {
            compile.args(ELSE);
        }
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

/// This folder, or the one above that of `replay`.
fn fuzz() -> PathBuf {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says"));
    if package.ends_with("replay") { package.join("..") } else { package }
}

/// As `crates/collect/build.rs` looks for it.
fn clang() -> &'static str {
    let names = ["clang", "clang-19", "clang-18", "clang-17", "clang-16"];
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(is_there).expect("a clang")
}

fn must(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
