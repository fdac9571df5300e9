//! Regions in C, C++, Fortran, Python and Rust: each example of `examples/` says the same, and is held to it.

use std::path::{Path, PathBuf};
use std::process::Command;

use weigh_schema::profile::{NodeKind, head, name, node, thread, version};

use crate::support::library::{folder, must, program, python_module};

/// Sections of a profile by their number.
const NAMES: usize = 0;
const TEXTS: usize = 1;
const NODES: usize = 2;
const THREADS: usize = 3;

/// A profile in a file.
struct Profile(Vec<u64>);

impl Profile {
    fn read(path: &Path) -> Profile {
        let bytes = std::fs::read(path).expect("a profile");
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let profile = Profile(bytes.chunks_exact(8).map(word).collect());
        assert_eq!(profile.0[head::LAYOUT], weigh_schema::profile::layout());
        assert_eq!(profile.0[head::ENDED], 1, "it has not ended in order");
        profile
    }

    fn record(&self, section: usize, number: usize, words: usize) -> &[u64] {
        let first = self.0[head::SECTIONS + 2 * section] as usize + number * words;
        &self.0[first..first + words]
    }

    fn name(&self, number: u64) -> String {
        let name = self.record(NAMES, number as usize, name::LENGTH);
        let first = self.0[head::SECTIONS + 2 * TEXTS] as usize + name[name::TEXT] as usize;
        let words = &self.0[first..first + name[name::BYTES].div_ceil(8) as usize];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes[..name[name::BYTES] as usize]).into_owned()
    }

    /// The newest numbers of what stands at a path below the first thread: `(calls, inclusive)`.
    fn numbers(&self, kind: NodeKind, path: &[&str]) -> (u64, u64) {
        let mut at = self.record(THREADS, 0, thread::LENGTH)[thread::ROOT];
        for (depth, name) in path.iter().enumerate() {
            let is_last = depth + 1 == path.len();
            let found = (0..self.0[head::USED + NODES]).find(|number| {
                let node = self.record(NODES, *number as usize, node::LENGTH);
                let is_kind = !is_last || node[node::KIND] == kind as u64;
                node[node::PARENT] == at
                    && *number != at
                    && is_kind
                    && self.name(node[node::NAME]) == *name
            });
            at = found.unwrap_or_else(|| panic!("{path:?} is not there"));
        }
        let node = self.record(NODES, at as usize, node::LENGTH);
        let newest =
            node[node::VERSIONS..].chunks_exact(version::LENGTH).max_by_key(|v| v[version::EPOCH]);
        let newest = newest.expect("two versions");
        (newest[version::CALLS], newest[version::INCLUSIVE])
    }
}

/// Runs an example without a profile and with one, and looks whether that says what the example does.
fn check(mut command: Command) {
    let place = folder();
    let file = place.path().join("profile");
    let alone = must(&mut command);
    let measured = must(command.env("WEIGH_PROFILE", &file));
    assert_eq!(alone.stdout, b"done\n");
    assert_eq!((&alone.stdout, &alone.stderr), (&measured.stdout, &measured.stderr));
    let profile = Profile::read(&file);
    assert_eq!(profile.numbers(NodeKind::Phase, &["iteration"]).0, 10);
    let (calls, solve) = profile.numbers(NodeKind::Region, &["iteration", "solve"]);
    assert_eq!(calls, 10);
    let (calls, exchange) = profile.numbers(NodeKind::Region, &["iteration", "solve", "exchange"]);
    assert_eq!(calls, 10);
    assert!(exchange <= solve, "{exchange} in {solve}");
    assert_eq!(profile.numbers(NodeKind::Counter, &["cells"]), (10, 40_960));
    assert_eq!(profile.numbers(NodeKind::Event, &["residual"]).0, 10);
    assert_eq!(profile.0[head::EPOCH], 11);
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where libweigh is installed; none where there is no compiler.
fn installed() -> Option<PathBuf> {
    if std::env::var_os("WEIGH_LIBWEIGH").is_some() {
        crate::support::leave_out("no compiler here");
        return None;
    }
    program("regions").parent().map(Path::to_path_buf)
}

/// An example, compiled as a user does.
fn compiled(compiler: &str, options: &[&str], sources: &[PathBuf], to: &Path) -> Option<Command> {
    let installed = installed()?;
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror"]).args(options).current_dir(to.parent()?);
    command.arg("-I").arg(installed.join("include")).args(sources).arg("-o").arg(to);
    command.arg("-L").arg(installed.join("lib")).arg("-lweigh");
    command.arg(format!("-Wl,-rpath,{}", installed.join("lib").display()));
    must(&mut command);
    Some(Command::new(to))
}

#[test]
fn in_c_and_cpp() {
    let place = folder();
    for (compiler, source) in [("cc", "regions.c"), ("c++", "regions.cpp")] {
        let sources = [top().join("examples").join(source)];
        let to = place.path().join(compiler);
        let Some(example) = compiled(compiler, &[], &sources, &to) else { return };
        check(example);
        // Switched off it has nothing of libweigh.
        compiled(compiler, &["-DWEIGH_OFF", "-Wl,--as-needed"], &sources, &to);
        let symbols = must(Command::new("nm").arg("-u").arg(&to)).stdout;
        assert!(!String::from_utf8_lossy(&symbols).contains("weigh_"), "{source}");
    }
}

#[test]
fn in_fortran() {
    if Command::new("gfortran").arg("--version").output().is_err() {
        crate::support::leave_out("no gfortran here");
        return;
    }
    let place = folder();
    let Some(installed) = installed() else { return };
    let sources = [installed.join("include/weigh_region.f90"), top().join("examples/regions.f90")];
    let example = compiled("gfortran", &["-std=f2008"], &sources, &place.path().join("regions"));
    check(example.expect("a compiler"));
}

#[test]
fn in_python() {
    let module = python_module();
    let mut example = Command::new("python3");
    example.arg("-B").arg(top().join("examples/regions.py")).env("PYTHONPATH", module);
    check(example);
}

/// A program that unloads the library still ends its threads and its regions by it.
#[test]
fn the_library_stays_where_it_is_unloaded() {
    let Some(installed) = installed() else { return };
    let script = "
import ctypes, _ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
name = library.weigh_region_name(b'outlives')
begin, end = library.weigh_region_begin, library.weigh_region_end
loaded, unloaded = threading.Event(), threading.Event()
def other():
    begin(name)
    loaded.set()
    unloaded.wait()
thread = threading.Thread(target=other)
thread.start()
loaded.wait()
begin(name)
for _ in range(3):
    _ctypes.dlclose(library._handle)
end(name)
unloaded.set()
thread.join()
";
    let place = folder();
    let file = place.path().join("profile");
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(installed.join("lib/libweigh.so.0"));
    must(command.env("WEIGH_PROFILE", &file));
    let profile = Profile::read(&file);
    assert_eq!(profile.0[head::USED + THREADS], 2);
    let threads = (0..2).map(|number| profile.record(THREADS, number, thread::LENGTH));
    assert!(threads.into_iter().all(|thread| thread[thread::ENDED] > thread[thread::BEGUN]));
    let nodes = (0..profile.0[head::USED + NODES] as usize)
        .map(|number| profile.record(NODES, number, node::LENGTH))
        .filter(|node| node[node::KIND] == NodeKind::Region as u64);
    assert_eq!(nodes.filter(|node| profile.name(node[node::NAME]) == "outlives").count(), 2);
}

#[test]
fn in_rust() {
    if installed().is_some() {
        check(Command::new(super::libweigh_rust::example("regions")));
    }
}
