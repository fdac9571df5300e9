//! Whether the library will be in the command, and why not: the same question that the library
//! asks of each program that the job executes (`libweigh/preload/program.c`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use object::ReadCache;
use weigh_parse::executable::{self, Loader};

use super::layout::{FLAG_OTHER_LOADER, FLAG_PRIVILEGED, FLAG_SANITIZED, FLAG_STATIC};
use crate::secure_start::command_variable;

/// The dynamic loader that the library is for.
pub const LOADER: &str = if cfg!(target_arch = "aarch64") {
    "/lib/ld-linux-aarch64.so.1"
} else {
    "/lib64/ld-linux-x86-64.so.2"
};

/// Scripts that name a script as their interpreter.
const SCRIPTS: usize = 4;

/// The loader's name and the headers lie at the start of a program.
const HEAD: u64 = 65_536;

/// The reasons, for people.
const REASONS: [(u32, &str); 4] = [
    (FLAG_STATIC, "it is a static program"),
    (FLAG_OTHER_LOADER, "it is for another C library or architecture"),
    (FLAG_PRIVILEGED, "it gets other rights than who executes it"),
    (FLAG_SANITIZED, "its sanitizer's runtime must be the first library"),
];

/// What such flags say, if one of them is set.
pub fn reason(flags: u32) -> Option<&'static str> {
    REASONS.into_iter().find(|(flag, _)| flags & flag != 0).map(|(_, why)| why)
}

/// With these flags the library must not be named in a program's environment.
pub const KEPT_OUT: u32 = FLAG_OTHER_LOADER | FLAG_SANITIZED;

/// The flags that say why the library will not be in the command; 0 if it will, or if nobody knows.
pub fn why_blind(command: &OsStr) -> u32 {
    let list = command_variable("LD_PRELOAD").unwrap_or_default();
    let mut libraries = list.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' '));
    match libraries.any(executable::must_be_first) {
        true => FLAG_SANITIZED,
        false => why_blind_by_file(command),
    }
}

fn why_blind_by_file(command: &OsStr) -> u32 {
    let Some(mut path) = find(command) else { return 0 };
    for _ in 0..SCRIPTS {
        let (Ok(bytes), Ok(about)) = (head(&path), path.metadata()) else { return 0 };
        let mode = about.permissions().mode();
        let other_user = about.uid() != rustix::process::geteuid().as_raw();
        let other_group = about.gid() != rustix::process::getegid().as_raw();
        if mode & libc::S_ISUID != 0 && other_user || mode & libc::S_ISGID != 0 && other_group {
            return FLAG_PRIVILEGED;
        }
        match bytes.strip_prefix(b"#!") {
            Some(line) => {
                let text = line.trim_ascii_start();
                let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
                path = crate::procfs::path_of(text[..end].to_vec());
            }
            None if bytes.starts_with(b"\x7fELF") => return of_program(&path, &bytes),
            None => return 0,
        }
    }
    0
}

/// The beginning of a program's file.
pub fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As execvp(3) looks for it.
fn find(command: &OsStr) -> Option<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Some(command.into());
    }
    let list = std::env::var_os("PATH")?;
    let is_executable = |path: &PathBuf| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && Path::new(path).is_file()
    };
    std::env::split_paths(&list).map(|folder| folder.join(command)).find(is_executable)
}

/// The same of an executable file that begins so.
fn of_program(path: &Path, bytes: &[u8]) -> u32 {
    let needs_first =
        || File::open(path).is_ok_and(|file| executable::needs_first(&ReadCache::new(file)));
    match of_elf(bytes) {
        0 if needs_first() => FLAG_SANITIZED,
        flags => flags,
    }
}

/// The same of the beginning of an executable file.
pub fn of_elf(bytes: &[u8]) -> u32 {
    match executable::loader(bytes) {
        Loader::Unknown => 0,
        Loader::None => FLAG_STATIC,
        Loader::Named(name) if name == LOADER.as_bytes() => 0,
        Loader::Named(_) | Loader::Other => FLAG_OTHER_LOADER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_this_machine() {
        assert_eq!(why_blind(OsStr::new("sh")), 0);
        assert_eq!(why_blind(OsStr::new("/bin/true")), 0);
        assert_eq!(why_blind(OsStr::new("/no/such/file")), 0);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\ntrue\n").unwrap();
        assert_eq!(why_blind(script.as_os_str()), 0);
        let strange = folder.path().join("strange");
        std::fs::write(&strange, b"\x7fELF\x01\x01\x01").unwrap();
        assert_eq!(why_blind(strange.as_os_str()), FLAG_OTHER_LOADER);
    }
}
