//! The rules by which accesses are counted, in C (BPF programs, preload library) and in Rust (ptrace), give the same
//! numbers for the same accesses.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use weigh_schema::io::{
    Counting, Deed, FIELDS, Fold, Moved, Numbers, SEEN, SIZES, STRIDES, Transfer,
};

/// Files, and accesses to one of them at most.
const FILES: usize = 3000;
const MOST_ACCESSES: u64 = 80;

#[derive(Clone, Copy, Debug)]
enum Access {
    Move { moved: Moved, is_direct: bool },
    Sync,
}

/// Numbers that look random, the same ones each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Nearly always small, or where another access ends: so that ranges meet, and strides repeat.
    fn offset(&mut self, last_end: u64) -> u64 {
        match self.below(8) {
            0..3 => last_end,
            3..6 => 512 * self.below(24),
            6 => last_end + 4096 * self.below(3),
            _ => 1 << self.below(62),
        }
    }

    fn access(&mut self, last_end: u64) -> Access {
        if self.below(12) == 0 {
            return Access::Sync;
        }
        let transfer = Transfer::ALL[self.below(Transfer::ALL.len() as u64) as usize];
        let bytes = match self.below(6) {
            0 => 0,
            1 => 1 + self.below(600),
            2 => 1 << self.below(40),
            _ => 512 * self.below(9),
        };
        let from = (self.below(7) > 0).then(|| self.offset(last_end));
        let is_direct = transfer != Transfer::Mapped && self.below(4) == 0;
        let direct = is_direct.then_some(bytes);
        let direction = self.below(2) as usize;
        let calls = self.below(3);
        Access::Move { moved: Moved { transfer, direction, calls, bytes, from, direct }, is_direct }
    }

    fn file(&mut self) -> Vec<Access> {
        let mut last_end = 0;
        let accesses = 1 + self.below(MOST_ACCESSES);
        let mut access = || {
            let access = self.access(last_end);
            if let Access::Move { moved: Moved { from: Some(from), bytes, .. }, .. } = access {
                last_end = from + bytes;
            }
            access
        };
        (0..accesses).map(|_| access()).collect()
    }
}

/// As `count.c` reads it.
fn words(access: &Access) -> [u64; 8] {
    let Access::Move { moved, is_direct } = access else { return [0, 0, 0, 0, 0, 0, 0, 1] };
    let Moved { transfer, direction, calls, bytes, from, .. } = *moved;
    let at = from.unwrap_or(0);
    let (placed, direct) = (u64::from(from.is_some()), u64::from(*is_direct));
    [transfer as u64, direction as u64, calls, bytes, at, placed, direct, 0]
}

fn count_in_rust(accesses: &[Access]) -> Counting {
    let mut counting = Counting::default();
    for access in accesses {
        match access {
            Access::Move { moved, .. } => counting.moved(moved),
            Access::Sync => counting.did(Deed::Sync, 0),
        }
    }
    counting
}

/// The same words as C has them; a least value that is none is 0 there.
fn numbers_in_words(numbers: &Numbers) -> Vec<u64> {
    let sums = numbers.bytes.iter().chain(&numbers.calls).flatten();
    let mut words: Vec<u64> = sums.chain(numbers.sizes.iter().flatten()).copied().collect();
    words.extend(FIELDS.iter().map(|field| match (field.fold(), numbers.get(*field)) {
        (Fold::Least, u64::MAX) => 0,
        (_, value) => value,
    }));
    words
}

/// Compiles the program with these options, and has it count.
fn count_in_c(folder: &Path, options: &[&str], input: &[u8]) -> Vec<u64> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::write(folder.join("io_numbers.h"), weigh_schema::io::c_header()).unwrap();
    let program = folder.join("count");
    let compiled = Command::new("cc")
        .args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(here.join("bpf"))
        .arg("-I")
        .arg(folder)
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/access_rules/count.c"))
        .status();
    assert!(compiled.unwrap().success());
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success());
    let words = output.stdout.chunks_exact(8);
    words.map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Stretches and strides that one direction's words hold, in any order.
/// Stretches, and strides with how often each was.
type Remembered = (Vec<(u64, u64)>, Vec<(i64, u64)>);

fn remembered(words: &[u64]) -> Remembered {
    let pairs: Vec<(u64, u64)> = words[4..].chunks_exact(2).map(|p| (p[0], p[1])).collect();
    let (seen, strides) = pairs.split_at(SEEN);
    let mut seen: Vec<_> = seen.iter().copied().filter(|(_, to)| *to > 0).collect();
    let strides = strides.iter().filter(|(_, times)| *times > 0);
    let mut strides: Vec<_> = strides.map(|(bytes, times)| (*bytes as i64, *times)).collect();
    seen.sort_unstable();
    strides.sort_unstable();
    (seen, strides)
}

fn compare(options: &[&str]) {
    let mut random = Random(0x5eed_0fac_ce55);
    let files: Vec<Vec<Access>> = (0..FILES).map(|_| random.file()).collect();
    let mut input = Vec::new();
    for file in &files {
        input.extend((file.len() as u64).to_ne_bytes());
        input.extend(file.iter().flat_map(words).flat_map(u64::to_ne_bytes));
    }
    let folder = tempfile::tempdir().unwrap();
    let counted = count_in_c(folder.path(), options, &input);
    let direction_words = 4 + 2 * SEEN + 2 * STRIDES;
    let of_file = Numbers::WORDS + 2 * direction_words;
    assert_eq!(counted.len(), FILES * of_file);
    for (file, counted) in files.iter().zip(counted.chunks_exact(of_file)) {
        let expected = count_in_rust(file);
        let (numbers, directions) = counted.split_at(Numbers::WORDS);
        assert_eq!(numbers, numbers_in_words(&expected.used.numbers), "{file:?}");
        for (direction, words) in
            expected.used.directions.iter().zip(directions.chunks_exact(direction_words))
        {
            let mut seen: Vec<_> = direction.seen.iter().map(|s| (s.from, s.to)).collect();
            let mut strides = direction.strides.clone();
            seen.sort_unstable();
            strides.sort_unstable();
            assert_eq!(remembered(words), (seen, strides), "{file:?}");
        }
    }
    assert!(files.iter().any(|file| file.len() > SIZES));
}

#[test]
fn the_library_counts_as_ptrace_does() {
    compare(&[]);
}

#[test]
fn bpf_programs_count_as_ptrace_does() {
    compare(&["-DWITHOUT_BRANCHES"]);
}
