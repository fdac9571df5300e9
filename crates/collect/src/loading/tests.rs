use std::slice;

use libbpf_rs::{AsRawLibbpf as _, ObjectBuilder, libbpf_sys as sys};

use crate::core_types;
use crate::offers::Offers;

/// What relocations make of an instruction: not of one that refers to a map, by a descriptor.
type Instruction = Option<(u8, u8, u8, i16, i32)>;

/// The instructions of all programs after their relocations, by the kernel's types that the builder is given.
fn relocated(mut builder: ObjectBuilder, object: &[u8]) -> Vec<(String, Vec<Instruction>)> {
    let mut open = builder.open_memory(object).unwrap();
    open.progs_mut().for_each(|mut program| program.set_autoload(true));
    // SAFETY: the object is open; the instructions are its own, and copied while it is there.
    unsafe {
        assert_eq!(sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()), 0);
        let programs = open.progs().map(|program| {
            let raw = program.as_libbpf_object().as_ptr();
            let count = sys::bpf_program__insn_cnt(raw) as usize;
            let all = slice::from_raw_parts(sys::bpf_program__insns(raw), count);
            let plain = |i: &sys::bpf_insn| {
                let is_map = i.code == 0x18 && i.src_reg() != 0;
                (!is_map).then(|| (i.code, i.dst_reg(), i.src_reg(), i.off, i.imm))
            };
            (program.name().to_string_lossy().into_owned(), all.iter().map(plain).collect())
        });
        programs.collect()
    }
}

#[test]
fn relocations_by_a_part_of_the_types_are_those_by_all() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let kernel = core_types::of_this_kernel();
    let offers = Offers::new(&kernel);
    let objects: [&[u8]; 5] = [
        &crate::layout::skeleton::DATA,
        &crate::layout::functions::DATA,
        &crate::io::layout::skeleton::DATA,
        &crate::calls::layout::skeleton::DATA,
        &crate::trace::members::skeleton::DATA,
    ];
    for object in objects {
        let types = offers.types_of(object);
        let mut builder = ObjectBuilder::default();
        types.give(&mut builder).unwrap();
        let (by_part, by_all) =
            (relocated(builder, object), relocated(ObjectBuilder::default(), object));
        assert!(!by_all.is_empty() && by_part.len() == by_all.len());
        for (part, all) in by_part.iter().zip(&by_all) {
            assert_eq!(part.0, all.0);
            let differs = part.1.iter().zip(&all.1).position(|(part, all)| part != all);
            assert!(part.1.len() == all.1.len() && differs.is_none(), "{}: {differs:?}", all.0);
        }
    }
}
