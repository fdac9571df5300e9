//! What the kernel hands over at tracepoints and functions, by its types.

use super::layout::{Argument, Attach, Signature};
use super::registers::{REGISTER_NAMES, REGISTERS};
use crate::btf::{Btf, BtfError, TypeKind};
use crate::error::{NoSignature, Wrong};
use crate::suggest::nearest;

fn damaged(error: BtfError) -> NoSignature {
    (Wrong::Btf(error), Vec::new())
}

/// What a tracepoint hands over by its types alone.
pub(super) fn typed_tracepoint(btf: &Btf, name: &str) -> Result<Signature, NoSignature> {
    let Some(btf_id) = btf.tracepoint(name) else {
        let wrong = Wrong::NoTracepoint(name.to_string());
        return Err((wrong, nearest(name, btf.tracepoints())));
    };
    // The prototype of its programs has no names; the function that calls them has.
    let named = btf.caller(name).and_then(|id| prototype(btf, id).ok());
    let prototype = prototype(btf, btf_id).map_err(damaged)?;
    let mut arguments = arguments(btf, prototype, 1).map_err(damaged)?;
    if let Some(named) = named {
        for (argument, member) in arguments.iter_mut().zip(btf.members(named).iter().skip(1)) {
            if !member.name.is_empty() {
                argument.name = member.name.to_string();
            }
        }
    }
    let module = btf.module().map(str::to_string);
    Ok(Signature { attach: Attach::Tracepoint { btf_id, module }, arguments, call: None })
}

/// What a tracepoint hands over whose types nobody tells: so many numbers.
pub fn of_raw(name: &str, count: u8) -> Signature {
    let argument = |number| of_kernel(format!("arg{number}"), 0, i16::from(number) * 8);
    let arguments = (0..count).map(argument).collect();
    Signature { attach: Attach::Raw { name: name.to_string() }, arguments, call: None }
}

/// What a function of the kernel is given, or returns.
pub fn of_function(btf: &Btf, name: &str, returns: bool) -> Result<Signature, NoSignature> {
    let Some(btf_id) = btf.function(name) else {
        let names = btf.functions().map(|(_, name)| name);
        return Err((Wrong::NoFunction(name.to_string()), nearest(name, names)));
    };
    let prototype = prototype(btf, btf_id).map_err(damaged)?;
    let mut arguments = arguments(btf, prototype, 0).map_err(damaged)?;
    if returns
        && let Ok(TypeKind::Prototype(kind)) = btf.kind(prototype)
        && kind != 0
    {
        let slot = arguments.last().map_or(0, |last| next_slot(btf, last));
        arguments.push(of_kernel("ret".to_string(), kind, slot));
    }
    let module = btf.module().map(str::to_string);
    Ok(Signature { attach: Attach::Function { btf_id, module, returns }, arguments, call: None })
}

/// What an instruction of a function hands over: registers, in which whatever lies then, by the names that the first
/// arguments of a function have, and their own.
pub fn of_instruction(btf: &Btf, name: &str, plus: u64) -> Result<Signature, NoSignature> {
    // That it is there, or what is near.
    let function = of_function(btf, name, false)?;
    let module = match function.attach {
        Attach::Function { module: Some(module), .. } => format!("{module}:"),
        _ => String::new(),
    };
    let of = |name: String, slot: i16| of_kernel(name, 0, slot);
    let first = REGISTERS.0.iter().enumerate().map(|(n, slot)| of(format!("arg{n}"), *slot));
    let all = REGISTER_NAMES.iter().map(|(name, slot)| of((*name).to_string(), *slot));
    let attach = Attach::Instruction { name: format!("{module}{name}"), plus };
    Ok(Signature { attach, arguments: first.chain(all).collect(), call: None })
}

fn of_kernel(name: String, kind: u32, slot: i16) -> Argument {
    Argument { name, kind, slot, is_signed: false, why_not: None, of_call: None }
}

fn prototype(btf: &Btf, mut id: u32) -> Result<u32, BtfError> {
    for _ in 0..4 {
        let (bare, kind) = btf.bare(id)?;
        match kind {
            TypeKind::Pointer(next) | TypeKind::Function(next) => id = next,
            TypeKind::Prototype(_) => return Ok(bare),
            _ => break,
        }
    }
    Err(BtfError::Astray(id))
}

fn arguments(btf: &Btf, prototype: u32, skipped: usize) -> Result<Vec<Argument>, BtfError> {
    let mut arguments: Vec<Argument> = Vec::new();
    for member in btf.members(prototype).into_iter().skip(skipped) {
        // The last of a function that takes any number has no type.
        if member.kind == 0 {
            break;
        }
        let name = match member.name {
            "" => format!("arg{}", arguments.len()),
            name => name.to_string(),
        };
        let slot = arguments.last().map_or(0, |last| next_slot(btf, last));
        arguments.push(of_kernel(name, member.kind, slot));
    }
    Ok(arguments)
}

fn next_slot(btf: &Btf, argument: &Argument) -> i16 {
    let slots = btf.size(argument.kind).unwrap_or(8).div_ceil(8).clamp(1, 16);
    argument.slot.saturating_add(slots as i16 * 8)
}
