//! Events checked against types that the test makes itself: paths, bits, structures without a name,
//! constants; and what is refused.

use std::sync::Arc;

use crate::btf_types::Types;
use weigh_schema::ring::Layout;
use weigh_trace::btf::{Btf, BtfError};
use weigh_trace::condition::{Right, Source, Test};
use weigh_trace::event::Event;
use weigh_trace::filter::Comparison;
use weigh_trace::generate::{Access, Buffer, Maps, Slot, program};
use weigh_trace::path_resolve::{Bits, End, Hop, PathEnd};
use weigh_trace::predicate;
use weigh_trace::probe::{Content, Probe};
use weigh_trace::signature::Attach;
use weigh_trace::state::State;

/// `TRACE(x)(struct outer *o, int n)`, and a function `f(int n)` that returns an int.
fn sample() -> Vec<u8> {
    let mut types = Types::default();
    let int = types.add("int", 1, 0, 4, &[1 << 24 | 32]);
    let unsigned = types.add("u32", 1, 0, 4, &[32]);
    let long = types.add("long", 1, 0, 8, &[1 << 24 | 64]);
    let wide = types.add("u64", 1, 0, 8, &[64]);
    let character = types.add("char", 1, 0, 1, &[1 << 24 | 8]);
    let name = types.add("", 3, 0, 0, &[character, int, 16]);
    let (a, b) = (types.name("RED"), types.name("GREEN"));
    let color = types.add("color", 6, 2, 4, &[a, 1, b, 7]);
    let inner = types.members(
        "inner",
        4,
        32,
        &[("low", unsigned, 0, 3), ("high", unsigned, 3, 10), ("name", name, 32, 0)],
    );
    let to_inner = types.add("", 2, 0, inner, &[]);
    let pair = types.add("", 3, 0, 0, &[to_inner, int, 2]);
    let either = types.members("", 5, 8, &[("word", unsigned, 0, 0), ("sign", int, 0, 0)]);
    let outer = types.members(
        "outer",
        4,
        56,
        &[
            ("", either, 0, 0),
            ("long", long, 320, 0),
            ("wide", wide, 384, 0),
            ("in", to_inner, 64, 0),
            ("two", pair, 128, 0),
            ("color", color, 256, 0),
        ],
    );
    let to_outer = types.add("", 2, 0, outer, &[]);
    let (data, o, n) = (types.name("__data"), types.name("o"), types.name("n"));
    let bare = types.add("", 13, 3, 0, &[0, to_outer, 0, to_outer, 0, int]);
    let to_bare = types.add("", 2, 0, bare, &[]);
    types.add("btf_trace_x", 8, 0, to_bare, &[]);
    let named = types.add("", 13, 3, int, &[data, to_outer, o, to_outer, n, int]);
    types.add("__traceiter_x", 12, 0, named, &[]);
    let function = types.add("", 13, 1, int, &[n, int]);
    types.add("f", 12, 0, function, &[]);
    types.finish()
}

fn check(text: &str) -> Result<Probe, String> {
    let btf = Btf::new(sample()).unwrap();
    let event = Event::parse(text).map_err(|refusal| refusal.to_string())?;
    Probe::check(&btf, &event, &[]).map_err(|refusal| refusal.to_string())
}

fn place(text: &str) -> PathEnd {
    let probe = check(&format!("x{{v={text}}}")).unwrap();
    match &probe.fields[0].content {
        Content::Number(Source::PathEnd(place)) => place.clone(),
        other => panic!("{other:?}"),
    }
}

const fn typed(offset: u32) -> Hop {
    Hop { offset, is_typed: true }
}

#[test]
fn paths_are_followed_to_the_bit() {
    let word = place("o->sign");
    assert_eq!((word.slot, &word.hops[..], word.bytes, word.is_signed), (0, &[][..], 4, true));
    assert_eq!(word.end, End::Loaded { hop: typed(0), bits: None });
    let bits = place("o.in.high");
    assert_eq!(bits.hops, [typed(8)]);
    let expected = Some(Bits { first: 3, count: 10 });
    assert_eq!((bits.end, bits.bytes), (End::Loaded { hop: typed(0), bits: expected }, 2));
    let low = place("o->two[1]->low");
    assert_eq!((&low.hops[..], low.bytes), (&[typed(24)][..], 1));
    assert_eq!(place("n").slot, 8);
    assert_eq!(place("arg1").slot, 8);
    assert_eq!(place("o[1].color").end, End::Loaded { hop: typed(88), bits: None });
}

#[test]
fn types_of_a_module_go_on_where_those_of_the_kernel_end() {
    let kernel = sample();
    let word = |at: usize| u32::from_le_bytes(kernel[at..at + 4].try_into().unwrap());
    let before = word(20);
    let kernel = Arc::new(Btf::new(kernel).unwrap());
    let (outer, int) = (12, 1);
    assert_eq!((kernel.name(outer), kernel.name(int)), ("outer", "int"));
    let last = kernel.functions().map(|(id, _)| id).max().unwrap();
    let mut types = Types { before, count: last, ..Types::default() };
    let own = types.members("own", 4, 16, &[("at", int, 0, 0), ("of", outer + 1, 64, 0)]);
    assert_eq!(own, last + 1);
    let to_own = types.add("", 2, 0, own, &[]);
    let bare = types.add("", 13, 2, 0, &[0, to_own, 0, to_own]);
    let to_bare = types.add("", 2, 0, bare, &[]);
    let traced = types.add("btf_trace_z", 8, 0, to_bare, &[]);
    let (data, o) = (types.name("__data"), types.name("o"));
    let named = types.add("", 13, 2, int, &[data, to_own, o, to_own]);
    types.add("__traceiter_z", 12, 0, named, &[]);
    let module = types.finish();
    let btf = Btf::of_module("m", module.clone(), &kernel).unwrap();
    assert_eq!((btf.module(), btf.tracepoint("z")), (Some("m"), Some(traced)));
    assert_eq!(btf.tracepoints().collect::<Vec<_>>(), ["z"], "those of the kernel are its own");
    assert_eq!(btf.tracepoint("x"), None);
    let event = Event::parse("z{o->at, o->of->in->low}").unwrap();
    let probe = Probe::check(&btf, &event, &[]).unwrap();
    assert_eq!(probe.attach, Attach::Tracepoint { btf_id: traced, module: Some("m".to_string()) });
    assert_eq!(probe.fields[1].bytes, 1, "a field of bits of the kernel's");
    assert_eq!(btf.describe(to_own), "struct own *");
    for length in 0..module.len() {
        assert!(Btf::of_module("m", module[..length].to_vec(), &kernel).is_err(), "{length}");
    }
}

#[test]
fn what_is_wrong_is_named_with_what_exists() {
    for (text, words) in [
        ("y", &["no tracepoint 'y'"][..]),
        ("x{o->wrod}", &["struct outer", "'wrod'", "word"]),
        ("x{p->word}", &["no argument 'p'", "n, o"]),
        ("x{n->word}", &["int", "no members"]),
        ("x{o->two[2]}", &["2", "has 2"]),
        ("x{o->in->name[16]}", &["16"]),
        ("x if n == 2147483648", &["-2147483648 to 2147483647"]),
        ("x if o->in->low == 8", &["0 to 7"]),
        ("x if o->color == GREE", &["GREEN"]),
        ("x if o->in->name == 3", &["text"]),
        ("x if o->in->name < \"a\"", &["== or !="]),
        ("x if n == \"a\"", &["no text"]),
        ("x{str(o->wide)}", &["no text"]),
        ("x{ustr(n)}", &["no text"]),
        ("x if tgid < 0", &["never less"]),
        ("x if o->wide < -1", &["0 to 18446744073709551615"]),
        ("x if o->long > 9223372036854775807", &["never greater"]),
        ("x if n in 5..3", &["3..5 may be meant"]),
        ("x if o->in->name == \"a\\b\"", &["behind a \\"]),
        ("x if o->in->name == \"0123456789abcdef\"", &["15 bytes"]),
        ("fn:g", &["no function 'g'"]),
    ] {
        let said = check(text).unwrap_err();
        for word in words {
            assert!(said.contains(word), "{text} lacks {word:?}: {said}");
        }
        assert!(said.contains('^'), "{said}");
    }
}

/// Whether a filter's test holds where the structure's two words of 64 bits are these.
fn holds(test: &Test, long: i64, wide: u64) -> bool {
    let value = |source: &Source| match source {
        Source::PathEnd(place) if place.is_signed => long.cast_unsigned(),
        _ => wide,
    };
    match test {
        Test::And(a, b) => holds(a, long, wide) && holds(b, long, wide),
        Test::Or(a, b) => holds(a, long, wide) || holds(b, long, wide),
        Test::Not(of) => !holds(of, long, wide),
        Test::Number { left, how, is_signed, right, .. } => {
            let right = match right {
                Right::Constant(constant) => *constant,
                Right::Source(source) => value(source),
            };
            let order = match is_signed {
                true => value(left).cast_signed().cmp(&right.cast_signed()),
                false => value(left).cmp(&right),
            };
            match how {
                Comparison::Equal => order.is_eq(),
                Comparison::Unequal => order.is_ne(),
                Comparison::Less => order.is_lt(),
                Comparison::AtMost => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::AtLeast => order.is_ge(),
            }
        }
        Test::Text { .. } | Test::Address { .. } => panic!("no text was asked for"),
    }
}

#[test]
fn numbers_of_64_bits_are_compared_as_they_are() {
    let edges = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
    type Compare = fn(&i128, &i128) -> bool;
    let compares: [(&str, Compare); 4] =
        [("<", i128::lt), ("<=", i128::le), (">", i128::gt), (">=", i128::ge)];
    for (mark, compare) in compares {
        for constant in edges {
            let Ok(probe) = check(&format!("x if o->long {mark} {constant}")) else {
                let is_never = edges.map(|edge| i128::from(edge.cast_signed()));
                assert!(!is_never.iter().any(|long| compare(long, &constant.into())), "{constant}");
                continue;
            };
            for long in edges.map(u64::cast_signed) {
                let is = holds(probe.test.as_ref().unwrap(), long, 0);
                assert_eq!(is, compare(&long.into(), &constant.into()), "{long} {mark} {constant}");
            }
        }
        let ways = ["o->long", "o->wide"];
        for (left, right) in [(ways[0], ways[1]), (ways[1], ways[0])] {
            let probe = check(&format!("x if {left} {mark} {right}")).unwrap();
            for (long, wide) in edges.iter().flat_map(|long| edges.map(|wide| (*long, wide))) {
                let long = long.cast_signed();
                let sides = [i128::from(long), i128::from(wide)];
                let [a, b] = if left == ways[0] { sides } else { [sides[1], sides[0]] };
                let is = holds(probe.test.as_ref().unwrap(), long, wide);
                assert_eq!(is, compare(&a, &b), "{a} {mark} {b}");
            }
        }
    }
}

#[test]
fn a_number_of_64_bits_may_lead_to_a_text_of_the_program() {
    let probe = check("x{name=ustr(o->wide)}").unwrap();
    assert!(matches!(probe.fields[0].content, Content::Text { is_user: true, .. }));
}

#[test]
fn a_cast_takes_the_lowest_bits_of_any_number() {
    for (text, bytes, is_signed) in [
        ("u8(o->wide)", 1, false),
        ("i16(o->word)", 2, true),
        ("u64(n)", 8, false),
        ("u32(tid)", 4, false),
        ("u16(o->in->high)", 2, false),
        ("u32(o)", 4, false),
    ] {
        let probe = check(&format!("x{{v={text}}}")).unwrap();
        let field = &probe.fields[0];
        assert_eq!((field.bytes, field.is_signed), (bytes, is_signed), "{text}");
        assert!(matches!(field.content, Content::Number(Source::Cast(..))), "{text}");
    }
    assert!(check("x if u8(o->wide) == 256").unwrap_err().contains("0 to 255"));
    assert!(check("x if i8(n) == -128 && u8(n) == i8(n)").is_ok());
    assert!(check("x{u8(o->in->name)}").unwrap_err().contains("cannot be compared"));
}

#[test]
fn constants_and_what_a_function_returns_are_known() {
    let probe = check("x if o->color == GREEN").unwrap();
    let Some(Test::Number { right: Right::Constant(7), .. }) = probe.test else {
        panic!("{:?}", probe.test)
    };
    let probe = check("fn:f%return{n, ret}").unwrap();
    let slots: Vec<_> = probe
        .fields
        .iter()
        .map(|field| match &field.content {
            Content::Number(Source::PathEnd(place)) => place.slot,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(slots, [0, 8], "what it returns lies behind its arguments");
    assert!(check("fn:f{ret}").is_err(), "it has not returned yet");
}

#[test]
fn an_instruction_hands_over_registers() {
    let probe = check("fn:f+0x1c{sp, arg0}").unwrap();
    assert_eq!(probe.attach, Attach::Instruction { name: "f".to_string(), plus: 0x1c });
    assert!(probe.fields.iter().all(|field| field.bytes == 8), "{:?}", probe.fields);
    // What first arguments of functions lie in, where nothing is named.
    let names: Vec<String> = check("fn:f+1").unwrap().fields.into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "comm"]);
    assert!(check("fn:f+1{n}").unwrap_err().contains("no argument"), "its types are of the call");
    assert!(check("fn:g+1").unwrap_err().contains("no function 'g'"));
}

#[test]
fn fields_lie_behind_the_header_without_gaps() {
    let probe = check("x{n, o, o->in->low, t=str(o->in->name), stack(2)}").unwrap();
    let mut places: Vec<_> = probe.fields.iter().map(|f| (f.offset, f.bytes)).collect();
    places.sort_unstable();
    let mut end = 40u32;
    let stack = places.last().copied().unwrap();
    for (offset, bytes) in places {
        let begin = if (offset, bytes) == stack { end.next_multiple_of(8) } else { end };
        assert_eq!(offset, begin);
        end = begin + bytes;
    }
    assert_eq!(probe.record_bytes, end.next_multiple_of(8));
    assert_eq!((probe.tail(), probe.fields[4].offset), (Some(4), stack.0), "what varies is last");
}

#[test]
fn filters_of_one_form_have_their_constants_in_order() {
    let test = |text: &str| check(text).unwrap().test.unwrap();
    let first = test("x if n in (1, 3..5) && !(n & 7 == 2)");
    assert_eq!(first.constants(), [1, 3, 5, 2]);
    assert!(first.has_form_of(&test("x if n in (9, 8..70) && !(n & 7 == 1)")));
    for other in ["x if n in (9, 8..70) && !(n & 6 == 1)", "x if n == 1", "x if n in (1, 2)"] {
        assert!(!first.has_form_of(&test(other)), "{other}");
    }
}

#[test]
fn every_program_ends_and_jumps_within_itself() {
    let state = State { probes: 2, cpus: 4 };
    for text in [
        "x",
        "x{o->in->high} if o->in->name != \"a\" every 1ms",
        "x if !(n in (1, 3..5)) at most 9/s",
    ] {
        let probe = check(text).unwrap();
        for access in [Access::Direct, Access::Helpers] {
            for (rings, is_shared, members) in [(1, true, None), (4, false, Some(5))] {
                let layout = Layout { rings, bytes: 4096 };
                let predicate = |text| Some(predicate::parse(text, &|_| None).unwrap());
                let buffer = |number, predicate| Buffer {
                    number,
                    rings: 4,
                    consumers: 6,
                    doorbell: 7,
                    layout,
                    is_shared,
                    key: 0x9e37_79b9_7f4a_7c15,
                    half: 1,
                    predicate,
                    flip: 1,
                    counts_records: is_shared,
                };
                let tests = [None, predicate("id != 3 && tid in (1, 2)"), predicate("size > 8")];
                let buffers = tests.into_iter().enumerate();
                let buffers = buffers.map(|(number, test)| buffer(number, test)).collect();
                let maps = Maps {
                    state: 3,
                    buffers,
                    members,
                    calls: None,
                    name_at: None,
                    pages: None,
                    counters: &[],
                };
                let code = program(
                    &probe,
                    Slot { number: 1, gate: 1, flip: 1, site: 0 },
                    &state,
                    &maps,
                    access,
                )
                .unwrap();
                assert_eq!(code.last().map(|last| last & 0xff), Some(0x95), "{text}: exit is last");
                let mut at = 0;
                while at < code.len() {
                    let kind = code[at] & 0xff;
                    if kind & 7 == 5 && ![0x85, 0x95].contains(&kind) {
                        let far = i64::from((code[at] >> 16) as u16 as i16);
                        let to = at as i64 + 1 + far;
                        assert!((0..code.len() as i64).contains(&to), "{text}: {at} to {to}");
                    }
                    at += if kind == 0x18 { 2 } else { 1 };
                }
            }
        }
    }
}

#[test]
fn bytes_that_are_cut_are_refused() {
    let whole = sample();
    for length in 0..whole.len() {
        assert!(Btf::new(whole[..length].to_vec()).is_err(), "{length}");
    }
    assert_eq!(Btf::new(b"\x7fELF".to_vec()).err(), Some(BtfError::NoBtf));
}
