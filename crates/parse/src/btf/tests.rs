use std::collections::HashSet;

use super::types::*;
use super::*;

/// BTF of these types, each as its words, and strings.
fn btf(types: &[&[u32]], strings: &str) -> Vec<u8> {
    let types: Vec<u32> = types.concat();
    let length = 4 * types.len() as u32;
    let header = [0x0001_eb9f, 24, 0, length, length, strings.len() as u32];
    let words = header.into_iter().chain(types).flat_map(u32::to_le_bytes);
    words.chain(strings.bytes()).collect()
}

const STRINGS: &str = "\0task\0int\0pid\0next\0other\0at\0flags___old\0btf_trace_fork\0run\0";

fn name(of: &str) -> u32 {
    STRINGS.find(&format!("\0{of}\0")).unwrap() as u32 + 1
}

fn info(kind: u32, count: u32) -> u32 {
    kind << 24 | count
}

/// `struct task { int pid; struct task *next; struct other at[3]; }`, `struct other { int pid; }`, a structure that
/// nobody asks for, an enumeration, a tracepoint and a function.
fn kernel() -> Vec<u8> {
    btf(
        &[
            &[name("int"), info(INT, 0), 4, 32],
            &[name("other"), info(STRUCT, 1), 4, name("pid"), 1, 0],
            &[0, info(POINTER, 0), 5],
            &[0, info(ARRAY, 0), 0, 2, 1, 3],
            &[
                name("task"),
                info(STRUCT, 3),
                32,
                name("pid"),
                1,
                0,
                name("next"),
                3,
                64,
                name("at"),
                4,
                128,
            ],
            &[name("run"), info(STRUCT, 1), 8, name("next"), 3, 0],
            &[name("flags___old"), info(ENUM, 1), 4, name("at"), 7],
            &[0, info(PROTOTYPE, 3), 0, 0, 3, 0, 1, 0, 1],
            &[0, info(POINTER, 0), 8],
            &[name("btf_trace_fork"), info(TYPEDEF, 0), 9],
            &[name("run"), info(FUNCTION, 1), 8],
        ],
        STRINGS,
    )
}

#[test]
fn functions_structures_and_tracepoints_are_found_by_name() {
    let bytes = kernel();
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.function("run"), Some(11));
    assert_eq!(btf.function("task"), None);
    assert_eq!(btf.structure("run"), Some(6));
    assert_eq!(btf.structure("as"), None);
    assert_eq!(btf.tracepoint_arguments("fork"), Some(2));
    assert_eq!(btf.tracepoint_arguments("exec"), None);
}

#[test]
fn a_subset_holds_what_is_asked_for_with_what_that_holds() {
    let bytes = kernel();
    let names = ["task", "flags", "absent"].map(|name| name.as_bytes().to_vec());
    let subset = Btf::parse(&bytes).unwrap().subset(&HashSet::from(names)).unwrap();
    assert_eq!(subset.missing, HashSet::from([b"absent".to_vec()]));
    let small = Btf::parse(&subset.bytes).unwrap();
    let names: Vec<&[u8]> = small.ids().map(|id| small.name(id)).collect();
    assert_eq!(names, [&b"task"[..], b"int", b"", b"", b"other", b"flags___old"]);
    let at = small.at(1).unwrap();
    let words: Vec<u32> = (0..12).map(|n| small.word(at + 4 * n)).collect();
    assert_eq!([words[1], words[2]], [info(STRUCT, 3), 32]);
    let members: Vec<_> = words[3..].chunks(3).map(|m| (small.string(m[0]), m[1], m[2])).collect();
    assert_eq!(members, [(&b"pid"[..], 2, 0), (b"next", 3, 64), (b"at", 4, 128)]);
    assert_eq!(small.target(3), Some(0), "what a pointer leads to is left out");
    assert_eq!(small.word(small.at(4).unwrap() + 12), 5);
}

#[test]
fn what_is_no_btf_or_is_cut_short_or_of_a_new_kind_is_refused() {
    let bytes = kernel();
    for end in 0..bytes.len() {
        assert!(Btf::parse(&bytes[..end]).is_none(), "{end}");
    }
    assert!(Btf::parse(&btf(&[&[0, info(20, 0), 0]], "\0")).is_none());
    assert!(Btf::parse(&btf(&[&[0, info(STRUCT, 9), 0, 0]], "\0")).is_none());
}

#[test]
fn a_type_that_holds_itself_is_refused_or_ends() {
    let bytes =
        btf(&[&[1, info(STRUCT, 1), 4, 0, 2, 0], &[0, info(ARRAY, 0), 0, 1, 1, 1]], "\0t\0");
    let names = HashSet::from([b"t".to_vec()]);
    assert!(Btf::parse(&bytes).unwrap().subset(&names).is_some());
}

#[test]
fn flavors_are_taken_off_names() {
    assert_eq!(essential(b"task___old"), b"task");
    assert_eq!(essential(b"a___b___c"), b"a___b");
    assert_eq!(essential(b"___builtin"), b"___builtin");
    assert_eq!(essential(b"plain_name"), b"plain_name");
}

#[test]
fn an_object_that_is_none_has_no_relocations() {
    assert!(relocated_types(b"\x7fELF").is_none());
    assert!(relocated_types(&kernel()).is_none());
}

#[test]
fn a_name_is_told_from_all_that_share_its_beginning_and_end() {
    let names: Vec<String> = (0..300).map(|n| format!("function_{n:03}_of_the_kernel")).collect();
    let strings = format!("\0{}\0", names.join("\0"));
    let begin = |name: &str| strings.find(&format!("\0{name}\0")).unwrap() as u32 + 1;
    let types: Vec<[u32; 3]> =
        names.iter().map(|name| [begin(name), info(FUNCTION, 1), 0]).collect();
    let types: Vec<&[u32]> = types.iter().map(|words| &words[..]).collect();
    let bytes = btf(&types, &strings);
    let kernel = Btf::parse(&bytes).unwrap();
    for (id, name) in (1..).zip(&names) {
        assert_eq!(kernel.function(name), Some(id), "{name}");
        assert_eq!(kernel.structure(name), None);
    }
    assert_eq!(kernel.function("function_300_of_the_kernel"), None);
    assert_eq!(kernel.function("function"), None);
    assert_eq!(kernel.function(""), None);
}
