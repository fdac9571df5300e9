//! Files that are appended to: what is written lies where it lies in a folder that is not served, whichever flags the
//! open file had first, has now, or the call has.

use std::fmt::Debug;
use std::fs::File;
use std::io::{IoSlice, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::{Served, WAYS, can_mount, folders};

/// Of Linux 6.9; before, the call fails, here and there.
const NO_APPEND: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x20);
/// Instead of an offset: the file's own position.
const HERE: u64 = u64::MAX;
const SEEDS: [u64; 6] = [1, 7, 4711, 65_537, 1_000_003, 0xdead_beef];
const OPERATIONS: usize = 400;

/// A small generator (xorshift): the same numbers from the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What is to be done with one of a few open files.
#[derive(Clone, Debug)]
enum Deed {
    Open { path: &'static str, flags: OFlags },
    Write,
    WriteAt(u64),
    WriteBy(u64, ReadWriteFlags),
    Seek(u64),
    SetFlags(OFlags),
    Cut(u64),
    Read,
}

fn deed(random: &mut Random) -> Deed {
    let appending = [OFlags::empty(), OFlags::APPEND];
    let at = random.below(3000);
    match random.below(14) {
        0 | 1 => {
            let path = random.one_of(&["one", "two"]);
            let more = [OFlags::empty(), OFlags::empty(), OFlags::empty(), OFlags::TRUNC];
            Deed::Open { path, flags: random.one_of(&appending) | random.one_of(&more) }
        }
        2..=4 => Deed::Write,
        5 | 6 => Deed::WriteAt(at),
        7 | 8 => {
            let how = [ReadWriteFlags::empty(), ReadWriteFlags::APPEND, NO_APPEND];
            Deed::WriteBy(random.one_of(&[at, HERE]), random.one_of(&how))
        }
        9 => Deed::Seek(at),
        10 | 11 => Deed::SetFlags(random.one_of(&appending)),
        12 => Deed::Cut(at),
        _ => Deed::Read,
    }
}

fn said<T: Debug>(result: Result<T, impl Into<std::io::Error>>) -> String {
    format!("{:?}", result.map_err(|error| error.into().raw_os_error()))
}

/// Does it, and tells what came of it. What is not open yet is opened.
fn do_it(at: &Path, open: &mut Option<File>, deed: &Deed, data: &[u8]) -> String {
    match (deed, &mut *open) {
        (Deed::Open { path, flags }, _) => open_it(&at.join(path), *flags, open),
        (_, None) => open_it(&at.join("one"), OFlags::empty(), open),
        (_, Some(file)) => do_with(file, deed, data),
    }
}

fn open_it(path: &Path, flags: OFlags, open: &mut Option<File>) -> String {
    let mut options = File::options();
    options.read(true).write(true).create(true).custom_flags(flags.bits() as i32);
    let opened = options.open(path);
    let failed = opened.as_ref().err().and_then(std::io::Error::raw_os_error);
    *open = opened.ok();
    format!("{failed:?}")
}

fn do_with(file: &mut File, deed: &Deed, data: &[u8]) -> String {
    let mut read = vec![0; data.len()];
    let came = match deed {
        Deed::Open { .. } => String::new(),
        Deed::Write => said(file.write(data)),
        Deed::WriteAt(place) => said(file.write_at(data, *place)),
        Deed::WriteBy(place, how) => said(pwritev2(&*file, &[IoSlice::new(data)], *place, *how)),
        Deed::Seek(place) => said(file.seek(SeekFrom::Start(*place))),
        Deed::SetFlags(flags) => said(fcntl_setfl(&*file, *flags)),
        Deed::Cut(length) => said(file.set_len(*length)),
        Deed::Read => said(file.read(&mut read)),
    };
    let position = said(file.stream_position());
    let length = file.metadata().map_or(0, |known| known.len());
    format!("{came} {position} {length} {read:?}")
}

/// The same operations in two folders, step by step.
fn compare(seed: u64, folders: [&Path; 2], way: &[&str]) {
    let mut random = Random(seed);
    let mut open: [[Option<File>; 3]; 2] = Default::default();
    let mut done = Vec::new();
    for _ in 0..OPERATIONS {
        let which = random.below(3) as usize;
        let deed = deed(&mut random);
        let data = vec![b'a' + random.below(26) as u8; random.below(700) as usize];
        done.push(format!("{which} {deed:?} of {}", data.len()));
        let [there, here] =
            [0, 1].map(|side| do_it(folders[side], &mut open[side][which], &deed, &data));
        assert_eq!(there, here, "{way:?}, seed {seed}: mounted, and bare; the last of {done:#?}");
    }
    let content = |folder: &Path| ["one", "two"].map(|name| std::fs::read(folder.join(name)).ok());
    assert!(content(folders[0]) == content(folders[1]), "{way:?}, seed {seed}: {done:#?}");
}

#[test]
fn what_is_written_lies_where_it_lies_in_the_folder() {
    if !can_mount() {
        return;
    }
    for way in WAYS {
        for seed in SEEDS {
            let scratch = folders();
            let served = Served::start(&scratch, way);
            compare(seed, [&scratch.path("at"), &scratch.path("bare")], way);
            let (status, report) = served.interrupt();
            assert_eq!(status, Some(0), "{way:?}: {report}");
            for name in ["one", "two"] {
                let read = |folder: &str| std::fs::read(scratch.path(folder).join(name)).ok();
                assert!(read("source") == read("bare"), "{way:?}, seed {seed}: {name}");
            }
        }
    }
}

/// The program of which it was found: flags that are cleared, and set, after the open.
#[test]
fn flags_that_are_set_later_decide() {
    if !can_mount() {
        return;
    }
    for way in WAYS {
        let scratch = folders();
        let served = Served::start(&scratch, way);
        let path = scratch.path("at").join("f");
        let open = |flags: OFlags| {
            File::options().read(true).write(true).custom_flags(flags.bits() as i32).open(&path)
        };
        std::fs::write(&path, "0123456789").expect("written");
        let mut file = open(OFlags::APPEND).expect("opens");
        fcntl_setfl(&file, OFlags::empty()).expect("flags");
        file.write_all_at(b"A", 0).expect("written");
        file.seek(SeekFrom::Start(2)).expect("a file");
        file.write_all(b"B").expect("written");
        drop(file);
        let mut file = open(OFlags::empty()).expect("opens");
        fcntl_setfl(&file, OFlags::APPEND).expect("flags");
        file.write_all(b"C").expect("written");
        drop(file);
        let file = open(OFlags::APPEND).expect("opens");
        let expected = match pwritev2(&file, &[IoSlice::new(b"D")], 1, NO_APPEND) {
            Ok(_) => "ADB3456789C",
            Err(Errno::OPNOTSUPP) => "A1B3456789C",
            Err(error) => panic!("{error}"),
        };
        drop(file);
        assert_eq!(served.interrupt().0, Some(0));
        let found = std::fs::read_to_string(scratch.path("source").join("f")).expect("it is there");
        assert_eq!(found, expected, "{way:?}");
    }
}
