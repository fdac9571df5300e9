//! Compiles libweigh from the sources that lie beside this folder, by `$CC` and `$AR`; where there are
//! none, the installed libweigh is linked.

use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] =
    &["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-c"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says it"));
    let library = here.join("..");
    let Ok(sources) = std::fs::read_dir(library.join("src")) else {
        println!("cargo:rustc-link-lib=weigh");
        return;
    };
    let sources = sources.flatten().map(|entry| entry.path());
    let sources: Vec<PathBuf> =
        sources.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    let mut objects = Vec::new();
    for source in &sources {
        let object = out.join(source.file_stem().expect("it has a name")).with_extension("o");
        run(tool("CC", "cc")
            .args(FLAGS)
            .arg("-I")
            .arg(&library)
            .arg(source)
            .arg("-o")
            .arg(&object));
        objects.push(object);
    }
    let archive = out.join("libweigh.a");
    let _ = std::fs::remove_file(&archive);
    run(tool("AR", "ar").arg("rcs").arg(&archive).args(&objects));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=weigh");
    for watched in [
        library.join("src"),
        library.join("weigh.h"),
        library.join("weigh_account.h"),
        library.join("weigh_event.h"),
        library.join("weigh_region.h"),
    ] {
        rerun_if_changed(&watched);
    }
}

fn rerun_if_changed(path: &Path) {
    println!("cargo:rerun-if-changed={}", path.display());
}

fn tool(variable: &str, usual: &str) -> Command {
    println!("cargo:rerun-if-env-changed={variable}");
    Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?}: {status}"),
        Err(error) => panic!("{command:?}: {error}"),
    }
}
