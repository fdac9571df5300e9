//! Programs as probes need them, read from a small library: `f` is `push %rbp; nop; pop %rbp; ret`, and the
//! point `who:what` is its `nop`.
#![cfg(target_arch = "x86_64")]

use std::io::Cursor;

use weigh_trace::error::Wrong;
use weigh_trace::executable::{Executable, ExecutableError};
use weigh_trace::operand::Operand;
use weigh_trace::signature::{Attach, Signature, of_usdt, of_user};

const LIBRARY: &[u8] = include_bytes!("../../../../fuzz/seeds/executables/point");

fn read(bytes: &[u8]) -> Result<Executable, ExecutableError> {
    Executable::read("lib.so", Box::new(Cursor::new(bytes.to_vec())))
}

fn offset(signature: &Signature) -> u64 {
    let Attach::User { sites, .. } = &signature.attach else { panic!("{signature:?}") };
    assert_eq!(sites.len(), 1);
    sites[0].offset
}

#[test]
fn a_function_is_where_its_bytes_are() {
    let library = read(LIBRARY).unwrap();
    let at = |name, plus, returns| of_user(&library, name, plus, returns);
    let begin = offset(&at("f", 0, false).unwrap());
    assert_eq!(LIBRARY[begin as usize..][..4], [0x55, 0x90, 0x5d, 0xc3]);
    assert_eq!(offset(&at("f", 0, true).unwrap()), begin);
    assert_eq!(offset(&at("f", 3, false).unwrap()), begin + 3);
    let address = library.functions()[0].address;
    assert_eq!(offset(&at("", address, true).unwrap()), begin);
    assert_eq!(offset(&at("", address + 2, false).unwrap()), begin + 2);
    for (name, plus, returns) in
        [("g", 0, false), ("f", 4, false), ("f", 3, true), ("", 0, false), ("f", u64::MAX, false)]
    {
        assert!(at(name, plus, returns).is_err(), "{name}+{plus}");
    }
    let (wrong, near) = at("ff", 0, false).unwrap_err();
    assert!(matches!(wrong, Wrong::NoUserFunction { all: 1, .. }), "{wrong}");
    assert_eq!(near, ["f"]);
}

#[test]
fn a_probe_is_never_put_into_the_middle_of_an_instruction() {
    let mut bytes = LIBRARY.to_vec();
    let begin = offset(&of_user(&read(LIBRARY).unwrap(), "f", 0, false).unwrap()) as usize;
    // `mov %rsp,%rbp; ret`
    bytes[begin..begin + 4].copy_from_slice(&[0x48, 0x89, 0xe5, 0xc3]);
    let library = read(&bytes).unwrap();
    let allowed = |plus| of_user(&library, "f", plus, false).is_ok();
    assert_eq!([0, 1, 2, 3].map(allowed), [true, false, false, true]);
}

#[test]
fn a_point_is_where_its_note_says() {
    let library = read(LIBRARY).unwrap();
    let signature = of_usdt(&library, "who", "what").unwrap();
    let Attach::User { sites, .. } = &signature.attach else { panic!("{signature:?}") };
    assert_eq!(LIBRARY[sites[0].offset as usize], 0x90);
    assert_ne!(sites[0].semaphore, 0);
    assert_eq!(sites[0].operands[2], Operand::Constant(5));
    let signed: Vec<bool> = signature.arguments.iter().map(|a| a.is_signed).collect();
    assert_eq!(signed, [true, false, false]);
    let (wrong, near) = of_usdt(&library, "who", "waht").unwrap_err();
    assert!(matches!(wrong, Wrong::NoUserPoint { all: 1, .. }), "{wrong}");
    assert_eq!(near, ["who:what"]);
}

#[test]
fn what_is_cut_short_or_of_another_machine_is_refused_and_nothing_worse() {
    for end in (0..LIBRARY.len()).step_by(7) {
        if let Ok(library) = read(&LIBRARY[..end]) {
            let _ = of_user(&library, "f", 1, false);
            let _ = of_usdt(&library, "who", "what");
        }
    }
    assert_eq!(read(b"#!/bin/sh\n").err(), Some(ExecutableError::NoElf));
    let with = |place: usize, value: u8| {
        let mut bytes = LIBRARY.to_vec();
        bytes[place] = value;
        read(&bytes).err()
    };
    assert_eq!(with(4, 1), Some(ExecutableError::OtherMachine), "32 bits");
    assert_eq!(with(18, 183), Some(ExecutableError::OtherMachine), "aarch64");
}
