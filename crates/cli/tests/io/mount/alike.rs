//! The same calls in a folder and in a mount of another one: what they return and leave behind is the same.

use std::fmt::Debug;
use std::fs::{File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, IFlags, Mode, OFlags, RenameFlags,
    Timespec, Timestamps, XattrFlags,
};

use super::{Served, WAYS, can_mount, folders, is_kernel_from};

/// What was done, and what came of it.
#[derive(Default)]
struct Deeds(Vec<String>);

impl Deeds {
    fn did(&mut self, what: &str, came: impl Debug) {
        self.0.push(format!("{what}: {came:?}"));
    }
}

/// The error's number: its text may have a path in it.
fn came<T>(result: std::io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}

fn file(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    options.open(path)
}

/// All that belongs to a file but for times and place.
fn facts(path: &Path) -> Result<String, Option<i32>> {
    let known = came(path.symlink_metadata())?;
    let (mode, links, owner) = (known.mode(), known.nlink(), (known.uid(), known.gid()));
    Ok(format!("{mode:o} {links} {owner:?} {} {} {:x}", known.len(), known.blocks(), known.rdev()))
}

fn names(at: &Path, deeds: &mut Deeds) {
    let [one, two, folder, inner] = ["one", "two", "folder", "folder/inner"].map(|n| at.join(n));
    std::fs::write(&one, "1").expect("written");
    std::fs::write(&two, "22").expect("written");
    let rename =
        |from: &Path, to: &Path, flags| rustix::fs::renameat_with(CWD, from, CWD, to, flags);
    deeds.did("no replacing", rename(&one, &two, RenameFlags::NOREPLACE));
    deeds.did("exchange", rename(&one, &two, RenameFlags::EXCHANGE));
    deeds.did("exchanged", (facts(&one), facts(&two)));
    deeds.did("folder", came(std::fs::create_dir(&folder)));
    deeds.did("into itself", came(std::fs::rename(&folder, folder.join("self"))));
    deeds.did("over a folder", came(std::fs::rename(&one, &folder)));
    deeds.did("into it", came(std::fs::rename(&one, &inner)));
    deeds.did("not empty", came(std::fs::remove_dir(&folder)));
    deeds.did("gone", facts(&one));
    deeds.did("linked", came(std::fs::hard_link(&inner, &one)));
    deeds.did("links", (facts(&one), facts(&inner)));
    deeds.did(
        "same inode",
        one.metadata().expect("it is").ino() == inner.metadata().expect("it is").ino(),
    );
    deeds.did("folders are not linked", came(std::fs::hard_link(&folder, at.join("other"))));
    deeds.did("link", came(std::os::unix::fs::symlink("folder/../two", at.join("link"))));
    deeds.did(
        "read",
        (came(std::fs::read_link(at.join("link"))), came(std::fs::read_to_string(at.join("link")))),
    );
    deeds.did("not followed", came(file(&at.join("link"), OFlags::NOFOLLOW)).map(drop));
    deeds.did(
        "link of a link",
        rustix::fs::linkat(CWD, at.join("link"), CWD, at.join("again"), AtFlags::empty()),
    );
    deeds.did("linked links", (facts(&at.join("again")), facts(&at.join("link"))));
    deeds.did("too long", came(File::create(at.join("n".repeat(256)))).map(drop));
    deeds.did("under a file", came(File::create(two.join("x"))).map(drop));
    deeds.did("no file", came(File::open(at.join("none"))).map(drop));
    deeds.did("not new", came(File::options().write(true).create_new(true).open(&two)).map(drop));
    let many = at.join("many");
    std::fs::create_dir(&many).expect("made");
    (0..300).for_each(|i| drop(File::create(many.join(format!("file-{i:03}"))).expect("made")));
    let mut listed: Vec<_> =
        many.read_dir().expect("listed").map(|e| e.expect("one").file_name()).collect();
    listed.sort();
    deeds.did("listed", listed);
    let special = |name: &str, kind, device| {
        rustix::fs::mknodat(CWD, at.join(name), kind, Mode::from_raw_mode(0o640), device)
    };
    deeds.did("pipe", special("pipe", FileType::Fifo, 0));
    deeds.did("null", special("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3)));
    deeds.did("special", (facts(&at.join("pipe")), facts(&at.join("null"))));
    deeds.did(
        "null takes all",
        file(&at.join("null"), OFlags::empty()).and_then(|mut f| f.write(b"x")).is_ok(),
    );
    let mut pipe = file(&at.join("pipe"), OFlags::empty()).expect("a pipe");
    let mut through = [0; 7];
    deeds.did(
        "through the pipe",
        (came(pipe.write_all(b"through")), came(pipe.read_exact(&mut through)), through),
    );
    deeds.did("socket", came(std::os::unix::net::UnixListener::bind(at.join("socket"))).map(drop));
    deeds.did("it is one", came(at.join("socket").metadata()).map(|m| m.file_type().is_socket()));
}

fn contents(at: &Path, deeds: &mut Deeds, is_direct_alike: bool) {
    let path = at.join("sparse");
    let open = File::create_new(&path).expect("made");
    let open = (open, file(&path, OFlags::empty()).expect("opens")).1;
    deeds.did("size", came(open.set_len(1 << 20)));
    deeds.did("written", came(open.write_all_at(&[7; 8192], 512 << 10)));
    let data = |from| rustix::fs::seek(&open, rustix::fs::SeekFrom::Data(from));
    let hole = |from| rustix::fs::seek(&open, rustix::fs::SeekFrom::Hole(from));
    deeds.did("data, hole", (data(0), hole(512 << 10), data(1 << 20), hole(0)));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    deeds.did("punched", rustix::fs::fallocate(&open, punch, 512 << 10, 4096));
    deeds.did("after it", (data(0), facts(&path)));
    deeds.did("allocated", rustix::fs::fallocate(&open, FallocateFlags::empty(), 0, (1 << 20) + 5));
    deeds.did("longer", open.metadata().expect("known").len());
    let mut last = Vec::new();
    deeds.did(
        "read on",
        came((&open).seek(SeekFrom::End(-3)).and_then(|_| (&open).read_to_end(&mut last))),
    );
    let mut added = File::options().append(true).open(&path).expect("opens");
    deeds.did("added", (came(added.write_all(b"end")), came(added.stream_position())));
    deeds.did("synced", (came(open.sync_all()), came(open.sync_data())));
    deeds.did("folder synced", came(File::open(at).and_then(|folder| folder.sync_all())));
    let other = File::create_new(at.join("copy")).expect("made");
    let (mut from, mut to) = (512 << 10, 5);
    deeds.did(
        "copied",
        rustix::fs::copy_file_range(&open, Some(&mut from), &other, Some(&mut to), 9001),
    );
    deeds.did(
        "copy",
        (facts(&at.join("copy")).map(|f| f.len()), other.metadata().map(|m| m.len()).ok()),
    );
    let second = file(&path, OFlags::empty()).expect("opens");
    let lock = |file: &File, how| rustix::fs::flock(file, how);
    deeds.did(
        "locked",
        (
            lock(&open, FlockOperation::NonBlockingLockExclusive),
            lock(&second, FlockOperation::NonBlockingLockShared),
        ),
    );
    deeds.did(
        "unlocked",
        (lock(&open, FlockOperation::Unlock), lock(&second, FlockOperation::NonBlockingLockShared)),
    );
    if is_direct_alike {
        let direct = file(&path, OFlags::DIRECT).expect("opens");
        deeds.did("not aligned", came(direct.write_at(b"odd", 1)));
    }
    std::fs::remove_file(&path).expect("removed");
    deeds.did(
        "without a name",
        (came(open.write_all_at(b"still", 0)), open.metadata().expect("known").nlink()),
    );
    let mut still = [0; 5];
    deeds.did("it is there", (came(open.read_exact_at(&mut still, 0)), still, facts(&path)));
    deeds.did("cut", (came(File::create(at.join("copy"))).map(drop), facts(&at.join("copy"))));
}

fn notes(at: &Path, deeds: &mut Deeds) {
    let path = at.join("noted");
    std::fs::write(&path, "x").expect("written");
    let set = |name: &str, value: &[u8], how| rustix::fs::setxattr(&path, name, value, how);
    deeds.did("set", set("user.one", b"value", XattrFlags::CREATE));
    deeds.did("set again", set("user.one", b"v", XattrFlags::CREATE));
    deeds.did("not there", set("user.two", b"v", XattrFlags::REPLACE));
    deeds.did("no such kind", set("nonsense.two", b"v", XattrFlags::empty()));
    deeds.did("too large", set("user.big", &vec![1; 70_000], XattrFlags::empty()));
    let mut value = [0; 64];
    deeds.did("got", (rustix::fs::getxattr(&path, "user.one", &mut value[..]), value));
    deeds.did("no room", rustix::fs::getxattr(&path, "user.one", &mut value[..2]));
    deeds.did("none", rustix::fs::getxattr(&path, "user.none", &mut value[..]));
    let mut list = [0; 64];
    deeds.did("listed", (rustix::fs::listxattr(&path, &mut list[..]), list));
    deeds.did(
        "removed",
        (rustix::fs::removexattr(&path, "user.one"), rustix::fs::removexattr(&path, "user.one")),
    );
    // Version 2; the owner rwx, group 4711 r-x, the group none, the mask r-x, others none.
    let none = 0xffff_ffff_u32;
    let entries = [(1_u16, 7_u16, none), (4, 0, none), (8, 5, 4711), (16, 5, none), (32, 0, none)];
    let entry = |(tag, bits, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let list: Vec<u8> =
        [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat();
    let folder = at.join("shared");
    std::fs::create_dir(&folder).expect("made");
    let set = rustix::fs::setxattr(&folder, "system.posix_acl_default", &list, XattrFlags::empty());
    deeds.did("access list", set);
    deeds.did(
        "made in it",
        came(File::options().write(true).create_new(true).mode(0o666).open(folder.join("heir")))
            .map(drop),
    );
    deeds.did("heir", facts(&folder.join("heir")));
}

fn times(at: &Path, deeds: &mut Deeds) {
    let path = at.join("timed");
    std::fs::write(&path, "x").expect("written");
    let known = || {
        path.metadata()
            .map(|m| ((m.atime(), m.atime_nsec()), (m.mtime(), m.mtime_nsec())))
            .expect("known")
    };
    let at_time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let set = |last_access, last_modification| {
        let times = Timestamps { last_access, last_modification };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())
    };
    deeds
        .did("both", (set(at_time(1_000_000_007, 123_456_789), at_time(-1, 500_000_000)), known()));
    deeds.did("one", (set(at_time(0, rustix::fs::UTIME_OMIT), at_time(5, 6)), known()));
    deeds.did("now", set(at_time(0, rustix::fs::UTIME_NOW), at_time(0, rustix::fs::UTIME_OMIT)));
    let age = SystemTime::now()
        .duration_since(path.metadata().expect("known").accessed().expect("a time"));
    deeds.did("it is now", age.map_or(true, |age| age < Duration::from_secs(60)));
    deeds.did("bits", came(std::fs::set_permissions(&path, Permissions::from_mode(0o6751))));
    deeds.did("owner", (came(std::os::unix::fs::chown(&path, Some(12), Some(34))), facts(&path)));
}

/// What `lsattr` shows and `chattr` changes.
fn flags(at: &Path, deeds: &mut Deeds) {
    let path = at.join("flagged");
    std::fs::write(&path, "x").expect("written");
    for path in [path.as_path(), at] {
        let open = File::open(path).expect("opens");
        let get = || rustix::fs::ioctl_getflags(&open);
        deeds.did("at first", get());
        let set = |flags: IFlags| rustix::fs::ioctl_setflags(&open, flags);
        let own = get().unwrap_or(IFlags::empty());
        deeds.did("not to be dumped", (set(own | IFlags::NODUMP), get()));
        deeds.did("for good", (set(own | IFlags::IMMUTABLE), get()));
        deeds.did("then", came(std::fs::set_permissions(path, Permissions::from_mode(0o750))));
        deeds.did("as before", (set(own), get()));
    }
    let open = File::open(&path).expect("opens");
    deeds.did("another's", rustix::termios::tcgetattr(&open).map(drop));
    let mut shell = Command::new("bash");
    let path = path.display();
    shell.args(["-c", &format!("chattr +d {path} 2>&1 | grep -o '[A-Z][a-z]* not permitted'")]);
    let output = shell.uid(65534).gid(65533).env("LC_ALL", "C").output().expect("it runs");
    deeds.did("another user", String::from_utf8_lossy(&output.stdout));
}

/// What another user may, and whose his files are.
fn others(at: &Path, deeds: &mut Deeds) {
    let shared = at.join("group");
    std::fs::create_dir(&shared).expect("made");
    std::os::unix::fs::chown(&shared, None, Some(4711)).expect("given");
    std::fs::set_permissions(&shared, Permissions::from_mode(0o2777)).expect("set");
    let program = at.join("program");
    std::fs::write(&program, "#!/bin/sh\necho runs\n").expect("written");
    std::fs::set_permissions(&program, Permissions::from_mode(0o6777)).expect("set");
    std::fs::write(at.join("secret"), "s").expect("written");
    std::fs::set_permissions(at.join("secret"), Permissions::from_mode(0o600)).expect("set");
    std::fs::set_permissions(at, Permissions::from_mode(0o1777)).expect("set");
    let script = "umask 027; echo x > own; mkdir group/inner; echo y > group/file; ln -s own mine; mkfifo fifo; \
        cat secret; rm secret; mv secret mine2; chmod 777 secret; mknod dev c 1 3; \
        ./program; echo '#' >> program; ln own hard; chown 0 own; chgrp 4711 own; \
        stat -c '%n %u:%g %a %h' own group/inner group/file fifo program hard mine; touch -d @77 own; stat -c %Y own";
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(at).uid(65534).gid(65533).env("LC_ALL", "C");
    let output = shell.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    deeds.did("another user", String::from_utf8_lossy(&said).lines().collect::<Vec<_>>());
}

/// All of it, and in the end what is there.
fn all(at: &Path, is_direct_alike: bool) -> Vec<String> {
    let mut deeds = Deeds::default();
    let mut part = |name: &str, work: &dyn Fn(&Path, &mut Deeds)| {
        let at = at.join(name);
        std::fs::create_dir(&at).expect("a folder");
        work(&at, &mut deeds);
    };
    part("names", &names);
    part("contents", &|at, deeds| contents(at, deeds, is_direct_alike));
    part("notes", &notes);
    part("times", &times);
    part("flags", &flags);
    part("others", &others);
    let totals = rustix::fs::statvfs(at).expect("totals");
    deeds.did("totals", (totals.f_bsize, totals.f_frsize, totals.f_blocks, totals.f_namemax));
    deeds.0
}

/// All files below a folder, and what is known of them.
fn tree(at: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "-printf", "%p %M %n %U:%G %s %b %l\\n"]).current_dir(at);
    let output = find.output().expect("find runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn a_mount_does_what_the_folder_does() {
    if !can_mount() {
        return;
    }
    for way in WAYS {
        let scratch = folders();
        let served = Served::start(&scratch, way);
        let is_direct_alike = way.is_empty() && is_kernel_from(6, 9);
        let there = all(&scratch.path("at"), is_direct_alike);
        let here = all(&scratch.path("bare"), is_direct_alike);
        for (mounted, bare) in there.iter().zip(&here) {
            assert_eq!(mounted, bare, "{way:?}: mounted, and bare");
        }
        assert_eq!(there.len(), here.len());
        assert_eq!(tree(&scratch.path("at")), tree(&scratch.path("bare")), "{way:?}");
        let (status, report) = served.interrupt();
        assert_eq!(status, Some(0), "{way:?}: {report}");
        // The device is not part of the tree: what is left lies in the source.
        assert_eq!(tree(&scratch.path("source")), tree(&scratch.path("bare")), "{way:?}");
    }
}
