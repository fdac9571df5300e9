//! Signatures of system calls, at the two tracepoints that all of them pass.
//!
//! Reads where the kernel keeps a call's registers (`struct pt_regs`), and the table of arguments; emits arguments by
//! name. Needs neither tracefs nor function probes.

use super::kernel::typed_tracepoint;
use super::layout::{Argument, Attach, CallArgument, CallPlace, OneCall, Signature};
use crate::btf::Btf;
use crate::error::NoSignature;
use crate::event::{CallMoment, TEXT_BYTES};
use crate::syscall::{self, ArgumentKind};
use crate::vocabulary::Vocabulary;

const ENTER: &str = "sys_enter";
const EXIT: &str = "sys_exit";
/// Where the tracepoints hand over the registers, and the number or the result.
const REGISTERS: i16 = 0;
const SECOND: i16 = 8;
/// What is kept of a call: when it began, its registers, then each text with a word that says whether it was read.
pub(crate) const SAVED_REGISTERS: u32 = 8;
pub(crate) const SAVED_HEAD: u32 = SAVED_REGISTERS + 6 * 8;
pub(crate) const SAVED_TEXT: u32 = 8 + TEXT_BYTES;
/// Texts that are kept of a call at most; the stack of a program has room for no more.
const SAVED_TEXTS: u32 = 4;

/// Where `struct pt_regs` has a call's arguments as it begins.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const REGISTERS_OF_CALL: [u32; 6] = [112, 104, 96, 56, 72, 64];
#[cfg(target_arch = "aarch64")]
pub(crate) const REGISTERS_OF_CALL: [u32; 6] = [0, 8, 16, 24, 32, 40];
/// Where it has the call's number, also at its end.
const NUMBER_AT: u32 = if cfg!(target_arch = "aarch64") { 280 } else { 120 };

const NUMBER: ArgumentKind = number(if cfg!(target_arch = "aarch64") { 4 } else { 8 }, None);

const fn number(bytes: u32, names: Option<Vocabulary>) -> ArgumentKind {
    ArgumentKind::Number { bytes, is_signed: true, names }
}

/// A system call, at one of its moments.
pub fn of_call(btf: &Btf, name: &str, moment: CallMoment) -> Result<Signature, NoSignature> {
    let (enter, exit) = (typed_tracepoint(btf, ENTER)?, typed_tracepoint(btf, EXIT)?);
    let mut texts = 0;
    // At the end alone the registers may be those of another program.
    let all = if moment == CallMoment::Exit { Vec::new() } else { syscall::arguments(name) };
    let mut arguments: Vec<Argument> = Vec::new();
    for (number, (name, kind)) in all.into_iter().enumerate() {
        let place = place_of(number, kind, moment, &mut texts);
        arguments.push(of(name, REGISTERS, place, kind, true));
    }
    if moment == CallMoment::Enter {
        arguments.push(of("id", SECOND, CallPlace::Given, number(8, None), false));
    } else {
        let results = number(8, Some(Vocabulary::Results));
        arguments.push(of("ret", SECOND, CallPlace::Given, results, true));
        arguments.push(of("id", REGISTERS, CallPlace::Register(NUMBER_AT), NUMBER, false));
    }
    if moment == CallMoment::Whole {
        let kind = ArgumentKind::Number { bytes: 8, is_signed: false, names: None };
        arguments.push(of("duration_ns", REGISTERS, CallPlace::Duration, kind, true));
    }
    arguments.extend(enter.arguments.iter().find(|argument| argument.name == "regs").cloned());
    let call = syscall::number_of(name).map(|number| OneCall { number, number_of: "id" });
    let attach = match (moment, &enter.attach, &exit.attach) {
        (CallMoment::Enter, ..) => enter.attach,
        (CallMoment::Exit, ..) => exit.attach,
        (
            CallMoment::Whole,
            Attach::Tracepoint { btf_id: enter, .. },
            Attach::Tracepoint { btf_id: exit, .. },
        ) => Attach::Call {
            enter: *enter,
            exit: *exit,
            saved_bytes: SAVED_HEAD + texts * SAVED_TEXT,
        },
        (CallMoment::Whole, ..) => exit.attach,
    };
    Ok(Signature { attach, arguments, call })
}

/// Where the number of a call is handed over as it begins.
pub(crate) fn call_number_slot() -> i16 {
    SECOND
}

fn place_of(number: usize, kind: ArgumentKind, moment: CallMoment, texts: &mut u32) -> CallPlace {
    let register = REGISTERS_OF_CALL.get(number).copied().unwrap_or_default();
    let saved_register = SAVED_REGISTERS + 8 * number as u32;
    match moment {
        CallMoment::Enter | CallMoment::Exit => CallPlace::Register(register),
        CallMoment::Whole if kind == ArgumentKind::Text && *texts < SAVED_TEXTS => {
            *texts += 1;
            let saved = SAVED_HEAD + (*texts - 1) * SAVED_TEXT;
            CallPlace::SavedText { saved, saved_register, register }
        }
        CallMoment::Whole => CallPlace::SavedRegister { saved: saved_register, register },
    }
}

/// What the tracepoints of all system calls hand over beside registers: the call's name, and errors by theirs.
pub(super) fn extend(tracepoint: &str, arguments: &mut Vec<Argument>) {
    let place = match tracepoint {
        ENTER => (SECOND, CallPlace::Given),
        EXIT => (REGISTERS, CallPlace::Register(NUMBER_AT)),
        _ => return,
    };
    let bytes = if tracepoint == ENTER { number(8, None) } else { NUMBER };
    let names = match bytes {
        ArgumentKind::Number { bytes, .. } => number(bytes, Some(Vocabulary::Syscalls)),
        other => other,
    };
    if let Some(ret) = arguments.iter_mut().find(|argument| argument.name == "ret") {
        let kind = number(8, Some(Vocabulary::Results));
        ret.of_call = Some(CallArgument { place: CallPlace::Given, kind, is_default: true });
    }
    arguments.push(of("name", place.0, place.1, names, true));
}

fn of(name: &str, slot: i16, place: CallPlace, kind: ArgumentKind, is_default: bool) -> Argument {
    Argument {
        name: name.to_string(),
        kind: 0,
        slot,
        is_signed: false,
        why_not: None,
        of_call: Some(CallArgument { place, kind, is_default }),
    }
}
