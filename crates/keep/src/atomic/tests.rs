//! What is there before a file is written, and what is there afterwards.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

fn write(path: &Path, text: &str) {
    let mut file = AtomicFile::create_at(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.commit().unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let names = std::fs::read_dir(folder).unwrap().map(name);
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_no_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o600.into()).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    symlink("fifo", at("link")).unwrap();
    for (name, kind) in
        [("fifo", "FIFO"), ("socket", "socket"), ("folder", "folder"), ("link", "FIFO")]
    {
        let before = std::fs::symlink_metadata(at(name)).unwrap();
        let Err(refused) = AtomicFile::create_at(&at(name)) else { panic!("{name} is taken") };
        assert!(matches!(refused, KeepError::NoFile { .. }), "{refused}");
        let refused = refused.to_string();
        assert!(
            refused.contains(kind) && refused.contains(at(name).to_str().unwrap()),
            "{refused}"
        );
        let after = std::fs::symlink_metadata(at(name)).unwrap();
        assert_eq!((before.ino(), before.file_type()), (after.ino(), after.file_type()));
    }
    assert_eq!(names(folder.path()), ["fifo", "folder", "link", "socket"]);
}

#[test]
fn links_lead_to_the_file_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("far")).unwrap();
    std::fs::write(at("far/there"), "old").unwrap();
    for (link, to, target) in [
        ("one", "far/there", "far/there"),
        ("two", "three", "far/new"),
        ("three", "far/new", "far/new"),
    ] {
        symlink(to, at(link)).unwrap();
        if link != "two" {
            write(&at(link), link);
            assert_eq!(std::fs::read_to_string(at(target)).unwrap(), link);
        }
    }
    write(&at("two"), "by two links");
    assert_eq!(std::fs::read_to_string(at("far/new")).unwrap(), "by two links");
    for link in ["one", "two", "three"] {
        assert!(at(link).is_symlink(), "{link}");
    }
    assert_eq!(names(&at("far")), ["new", "there"]);
    symlink("round", at("round")).unwrap();
    assert!(matches!(place_of_file(&at("round")), Err(KeepError::Write { .. })));
}

#[test]
fn the_file_keeps_the_rights_of_the_one_it_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for mode in [0o600, 0o640, 0o444] {
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        write(&path, "new");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files_beside_it_stay_whatever_they_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let taken = [".tmp".to_string(), format!(".{}-0.tmp", std::process::id())];
    let taken = taken.map(|end| folder.path().join(format!("file{end}")));
    taken.iter().for_each(|path| std::fs::write(path, "a user's").unwrap());
    let (one, other) =
        (AtomicFile::create_at(&path).unwrap(), AtomicFile::create_at(&path).unwrap());
    assert_ne!(one.temporary, other.temporary);
    other.commit().unwrap();
    drop(one);
    for taken in taken {
        assert_eq!(std::fs::read_to_string(taken).unwrap(), "a user's");
    }
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn a_name_may_be_as_long_as_the_file_system_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n".repeat(255));
    write(&path, "new");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "new");
}

#[test]
fn errors_name_what_the_user_named() {
    let path = Path::new("/nowhere-at-all/file");
    let Err(error) = AtomicFile::create_at(path) else { panic!("there is no such folder") };
    assert!(error.to_string().starts_with("cannot write /nowhere-at-all/file: "), "{error}");
}
