//! Whole analyses of kernels of a few functions, which have the names of real ones: the shipped
//! table places them.

use crate::sample::Piece::{ByPointer, Call, Endbr, Fentry, Jump, Loop, Return, Work};
use crate::sample::{Layout, Sample, TEXT, kallsyms};
use crate::*;

const NOTES: &[u8] =
    b"\x04\0\0\0\x03\0\0\0\x07\0\0\0OTH\0abc\0\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\xde\xad\xbe\xef";

/// `write` goes by vfs_write to security, to the slab through a function of lib/, by pointer to
/// ext4, and from there to the journal.
fn kernel() -> Sample {
    let mut sample = Sample::new()
        .function("__fentry__", &[Return])
        .function("__x64_sys_write", &[Fentry, Call("vfs_write"), Return])
        .function(
            "vfs_write",
            &[
                Fentry,
                Call("security_file_permission"),
                Call("security_file_permission"),
                Call("kasprintf"),
                ByPointer,
                Return,
            ],
        )
        .function("security_file_permission", &[Fentry, Work(30), Call("fsnotify"), Return])
        .function("fsnotify", &[Fentry, Work(2), Return])
        .function("kasprintf", &[Fentry, Call("__kmalloc"), Return])
        .function("__kmalloc", &[Endbr, Work(30), Call("mutex_lock"), Return])
        .function("mutex_lock", &[Fentry, Jump("schedule"), Return])
        .function("schedule", &[Work(30), Loop, Return])
        .function("ext4_file_write_iter", &[Fentry, Work(30), Call("jbd2__journal_start"), Return])
        .function("jbd2__journal_start", &[Fentry, Jump("start_this_handle")])
        .function("start_this_handle", &[Fentry, Work(30), Call("__kmalloc"), Loop])
        .function("tcp_sendmsg", &[Fentry, Work(30), Loop])
        .function("__x64_sys_getpid", &[Fentry, Work(3), Return])
        .function("__x64_sys_ni_syscall", &[Return])
        .table("ext4_file_operations", &["ext4_file_write_iter"])
        .table("nobodys_data", &["tcp_sendmsg"]);
    sample.notes = NOTES.to_vec();
    sample.btf = b"vfs_write __kmalloc ext4_file_write_iter start_this_handle schedule".to_vec();
    sample
}

/// Type information is read elsewhere: here it is the names, with spaces between.
fn typed_functions(btf: &[u8]) -> Result<HashSet<String>, String> {
    let names = std::str::from_utf8(btf).map_err(|error| error.to_string())?;
    Ok(names.split(' ').map(str::to_string).collect())
}

struct Asked<'a> {
    wanted: &'a [&'a str],
    told_apart: &'a [&'a str],
    moved: u64,
    filter_functions: Option<&'a str>,
    build_id: Option<&'a str>,
}

const ALL: Asked =
    Asked { wanted: &[], told_apart: &[], moved: 0, filter_functions: None, build_id: None };

fn ask(sample: &Sample, asked: &Asked) -> Result<Analysis, AnalysisError> {
    let (image, list) = (sample.elf(), sample.list(asked.moved));
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let (wanted, told_apart) = (names(asked.wanted), names(asked.told_apart));
    analyse(&Input {
        image: &image,
        symbols: Some(list.as_bytes()),
        btf: None,
        typed_functions,
        build_id: asked.build_id,
        filter_functions: asked.filter_functions,
        wanted: &wanted,
        told_apart: &told_apart,
        subsystems: &Subsystems::shipped(),
    })
}

/// The parts with their probes: `function sites callers [table] how`.
fn probes(analysis: &Analysis) -> Vec<(String, Vec<String>)> {
    let line = |probe: &Probe| {
        let table = if probe.by_table { " table" } else { "" };
        let callers = probe.callers.join(",");
        format!("{} {} {callers}{table} {:?}", probe.function, probe.sites, probe.allowed)
    };
    let part = |border: &SubsystemBorder| {
        (border.name.clone(), border.probes.iter().map(line).collect::<Vec<_>>())
    };
    analysis.subsystems.iter().map(part).filter(|(_, probes)| !probes.is_empty()).collect()
}

fn expected(parts: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect();
    parts.iter().map(|(name, lines)| (name.to_string(), owned(lines))).collect()
}

#[test]
fn every_crossing_is_found_and_nothing_else() {
    let analysis = ask(&kernel(), &ALL).expect("it is analysed");
    let wanted: &[(&str, &[&str])] = &[
        // From lib/ on behalf of vfs, from a lock on behalf of the slab.
        ("sched", &["schedule 1 memory Kprobe"]),
        ("memory", &["__kmalloc 2 vfs,journal Fentry"]),
        ("file_system", &["ext4_file_write_iter 0 vfs table Fentry"]),
        // jbd2__journal_start is there to jump to the other.
        ("journal", &["start_this_handle 1 file_system Fentry"]),
        ("security", &["security_file_permission 2 vfs Kprobe"]),
    ];
    assert_eq!(probes(&analysis), expected(wanted));
    let border =
        |name: &str| analysis.subsystems.iter().find(|border| border.name == name).expect("a part");
    // fsnotify is over before a probe would be.
    assert_eq!((border("vfs").callees, border("vfs").small, border("vfs").sites), (1, 1, 1));
    assert_eq!((border("journal").callees, border("journal").wrappers), (1, 1));
    assert_eq!((border("file_system").callees, border("file_system").by_table_only), (1, 1));
    assert!(analysis.subsystems.iter().all(|border| border.name != "tcp"), "no table leads there");
    assert_eq!((analysis.entries, analysis.tables), (2, 1));
    assert_eq!(analysis.build_id.as_deref(), Some("deadbeef"));
    assert_eq!(analysis.allowed_by, [Evidence::Code, Evidence::Btf]);
    // Those of `__fentry__` are none.
    assert_eq!(
        (analysis.code.calls, analysis.code.tail_jumps, analysis.code.by_pointer),
        (9, 2, 1)
    );
    let kept = serde_json::to_string(&analysis).expect("JSON");
    assert_eq!(serde_json::from_str::<Analysis>(&kept).expect("JSON"), analysis);
}

#[test]
fn a_kernel_that_lies_elsewhere_gives_the_same() {
    let moved = Asked { moved: 0x1a00_0000, ..ALL };
    let here = ask(&kernel(), &ALL).expect("it is analysed");
    assert_eq!(ask(&kernel(), &moved).expect("it is analysed"), here);
}

#[test]
fn only_what_the_wanted_calls_reach_is_there() {
    let analysis = ask(&kernel(), &Asked { wanted: &["getpid"], ..ALL }).expect("it is analysed");
    assert!(probes(&analysis).is_empty());
    assert_eq!((analysis.entries, analysis.reached), (1, 1));
    let unknown = ask(&kernel(), &Asked { wanted: &["write", "wirte"], ..ALL });
    let said = unknown.expect_err("it is refused").to_string();
    assert_eq!(said, "this kernel has no system call \"wirte\" (no function __x64_sys_wirte)");
}

#[test]
fn what_is_not_told_apart_is_its_callers() {
    let sample = || kernel().table("sys_call_table", &["__x64_sys_ni_syscall", "__x64_sys_write"]);
    let of = |parts: &[&str]| ask(&sample(), &Asked { told_apart: parts, ..ALL });
    // By way of ext4, which calls for vfs then.
    let two = of(&["vfs", "journal"]).expect("it is analysed");
    assert_eq!(probes(&two), expected(&[("journal", &["start_this_handle 1 vfs Fentry"])]));
    assert_eq!(two.calls, [(1, "vfs".to_string())].into());
    // The call's own code is of a part that nobody asked for.
    let one = of(&["journal"]).expect("it is analysed");
    assert_eq!(probes(&one), expected(&[("journal", &["start_this_handle 1 no part Fentry"])]));
    assert!(one.calls.is_empty(), "{:?}", one.calls);
    let said = of(&["jurnal"]).expect_err("it is refused").to_string();
    assert!(
        said.starts_with("there is no part of the kernel \"jurnal\"; there are sched, "),
        "{said}"
    );
}

#[test]
fn what_ftrace_does_not_offer_is_left_to_kprobes() {
    let offered = Some("vfs_write\nstart_this_handle\nmutex_lock [some]\n");
    let analysis =
        ask(&kernel(), &Asked { filter_functions: offered, ..ALL }).expect("it is analysed");
    let by_fentry: Vec<&str> = analysis
        .subsystems
        .iter()
        .flat_map(|border| &border.probes)
        .filter(|probe| probe.allowed == Allowed::Fentry)
        .map(|probe| probe.function.as_str())
        .collect();
    assert_eq!(by_fentry, ["start_this_handle"]);
}

#[test]
fn the_image_s_own_symbols_do_as_well() {
    let by_list = ask(&kernel(), &ALL).expect("it is analysed");
    // More than a group of names, of all lengths, so that there are markers.
    let more: String = (0..700u64)
        .map(|n| {
            format!(
                "{:016x} d {}\n",
                0xffff_ffff_8270_0000 + n * 8,
                "v".repeat(n as usize % 200 + 1)
            )
        })
        .collect();
    for layout in [Layout::Old, Layout::Ordered, Layout::New] {
        let mut sample = kernel();
        sample.rodata = kallsyms(&(sample.list(0) + &more), layout);
        let image = sample.elf();
        let input = Input {
            image: &image,
            symbols: None,
            btf: None,
            typed_functions,
            build_id: None,
            filter_functions: None,
            wanted: &[],
            told_apart: &[],
            subsystems: &Subsystems::shipped(),
        };
        let found = analyse(&input).expect("it is analysed");
        assert_eq!(found.symbols, Source::Embedded);
        assert_eq!(Analysis { symbols: Source::List, ..found }, by_list, "{layout:?}");

        // A byte wrong in what says where the rest is: refused, or other names; no panic.
        for at in (0..sample.rodata.len()).step_by(211) {
            let mut damaged = kernel();
            damaged.rodata = sample.rodata.clone();
            damaged.rodata[at] ^= 0x41;
            let image = damaged.elf();
            let elf = Elf::open(&image).expect("an ELF file");
            let _ = symbols::embedded::find(&elf);
        }
    }
}

#[test]
fn another_kernel_or_its_symbols_are_refused() {
    let other = ask(&kernel(), &Asked { build_id: Some("00"), ..ALL }).expect_err("it is refused");
    assert!(matches!(other, AnalysisError::OtherBuild { .. }), "{other}");
    assert!(ask(&kernel(), &Asked { build_id: Some("deadbeef"), ..ALL }).is_ok());

    let (image, subsystems) = (kernel().elf(), Subsystems::shipped());
    let with = |list: String| {
        analyse(&Input {
            image: &image,
            symbols: Some(list.as_bytes()),
            btf: None,
            typed_functions,
            build_id: None,
            filter_functions: None,
            wanted: &[],
            told_apart: &[],
            subsystems: &subsystems,
        })
    };
    let other = kernel().list(0).replace("81000080", "81000088").replace("810000c0", "810000c4");
    assert!(matches!(with(other), Err(AnalysisError::OtherSymbols { .. })));
    let far: String =
        kernel().list(0).lines().skip(1).map(|l| l.replace("f81", "fa1") + "\n").collect();
    let far = format!("{TEXT:x} T _text\n{far}");
    assert!(matches!(with(far), Err(AnalysisError::Symbols(SymbolsError::OtherKernel { .. }))));
}

#[test]
fn images_that_are_none_say_what_is_wrong() {
    let said = |image: &[u8]| {
        let input = Input {
            image,
            symbols: None,
            btf: None,
            typed_functions,
            build_id: None,
            filter_functions: None,
            wanted: &[],
            told_apart: &[],
            subsystems: &Subsystems::shipped(),
        };
        analyse(&input).expect_err("it is refused").to_string()
    };
    assert!(said(b"").contains("neither an ELF file nor an x86 boot image"));
    assert!(said(b"\x7fELF").contains("ELF file cannot be read"));
    let mut sample = kernel();
    sample.machine = 183;
    assert!(said(&sample.elf()).contains("for aarch64; x86_64 was expected"));
    assert!(
        said(&kernel().elf()).contains("a list of symbols (/proc/kallsyms, System.map) is needed")
    );
    let empty = Sample::new().function("_text", &[Return]);
    let said = ask(&empty, &ALL).expect_err("it is refused").to_string();
    assert!(said.contains("no functions __x64_sys_*"), "{said}");
}

#[test]
fn no_image_makes_it_panic() {
    let image = kernel().elf();
    let list = kernel().list(0);
    let subsystems = Subsystems::shipped();
    for at in 0..image.len() {
        let mut damaged = image.clone();
        for value in [0, 0x80, 0xff] {
            damaged[at] = value;
            let input = Input {
                image: &damaged,
                symbols: Some(list.as_bytes()),
                btf: None,
                typed_functions,
                build_id: None,
                filter_functions: None,
                wanted: &[],
                told_apart: &[],
                subsystems: &subsystems,
            };
            // The table is 1.1 MB: unpacking it each time is what takes long.
            if at % 499 == 0 {
                let _ = analyse(&input);
            } else {
                let _ = Elf::open(&damaged).map(|elf| elf.build_id());
            }
        }
    }
}
