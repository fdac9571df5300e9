//! Links weigh so that it runs with glibc 2.28 and all newer ones, whichever it is built with.
//!
//! Compiles `link/old_glibc.c`, and has the linker lead calls of the functions that it has as `__wrap_NAME` there. Does
//! nothing for other C libraries and machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "link/old_glibc.c";

/// Libraries in which a glibc below 2.34 has what newer ones have in libc.so.6. Newer ones have them, empty.
const OLD_LIBRARIES: [&str; 3] = ["libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// glibc 2.29 has it; the standard library does without where it is not there.
const LEFT_OUT: &str = "posix_spawn_file_actions_addchdir_np";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CC");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_known = ["x86_64", "aarch64"].contains(&&*variable("CARGO_CFG_TARGET_ARCH"));
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" || !is_known {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = out.join("old_glibc.o");
    compile(&object);
    let argument = |text: &str| println!("cargo:rustc-link-arg-bin=weigh={text}");
    argument(&object.display().to_string());
    for name in wrapped().iter().map(String::as_str).chain([LEFT_OUT]) {
        argument(&format!("-Wl,--wrap={name}"));
    }
    argument("-Wl,--push-state,--no-as-needed");
    OLD_LIBRARIES.iter().for_each(|library| argument(&format!("-l:{library}")));
    argument("-Wl,--pop-state");
}

/// The functions that the source has instead of glibc's.
fn wrapped() -> Vec<String> {
    let source = std::fs::read_to_string(SOURCE).expect("it is beside this file");
    let names = ["FORWARD(", "OLD("].map(|macro_call| second_words(&source, macro_call));
    let own = first_words(&source, "ABOUT(").chain(["gettid".to_string()]);
    names.into_iter().flatten().chain(own).collect()
}

/// Of lines that begin with a macro's name: `MACRO(TYPE, NAME, …`.
fn second_words<'a>(source: &'a str, start: &'a str) -> impl Iterator<Item = String> + 'a {
    let rest = source.lines().filter_map(move |line| line.strip_prefix(start));
    rest.filter_map(|rest| Some(rest.split(',').nth(1)?.trim().to_string()))
}

/// The same of `MACRO(NAME, …`.
fn first_words<'a>(source: &'a str, start: &'a str) -> impl Iterator<Item = String> + 'a {
    let rest = source.lines().filter_map(move |line| line.strip_prefix(start));
    rest.filter_map(|rest| Some(rest.split(',').next()?.trim().to_string()))
}

fn compile(to: &Path) {
    let compiler = compiler();
    let status = Command::new(&compiler)
        .args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fno-builtin", "-c"])
        .arg("-o")
        .arg(to)
        .arg(SOURCE)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{SOURCE} does not build: {status}"),
        Err(error) => panic!("{} cannot be run: {error}", compiler.display()),
    }
}

/// For a machine that is not the one that builds, as the crate `cc` looks for it: `CC_` and the target.
fn compiler() -> OsString {
    let target = std::env::var("TARGET").unwrap_or_default().replace('-', "_");
    let named = [format!("CC_{target}"), "CC".to_string()];
    named.iter().find_map(std::env::var_os).unwrap_or_else(|| "cc".into())
}
