//! What an event hands over: its arguments, with their types, and where a program finds them.
//!
//! Reads the kernel's types; emits signatures. Refuses events that do not exist, with the nearest
//! names that do.

use crate::btf::{Btf, BtfError, Kind};
use crate::error::Wrong;
use crate::near::nearest;

/// A value that an event hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: u32,
    /// Where it lies in what the program is given, in bytes.
    pub slot: i16,
}

/// How a program comes to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attach {
    /// At a tracepoint, by the type of its programs.
    Tracepoint {
        /// Which type.
        btf_id: u32,
    },
    /// At a function of the kernel.
    Function {
        /// Which type.
        btf_id: u32,
        /// When it returns.
        returns: bool,
    },
    /// At a function of a program or library.
    User {
        /// The file.
        path: String,
        /// The function.
        function: String,
        /// When it returns.
        returns: bool,
    },
}

/// An event, as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// How a program comes to be called.
    pub attach: Attach,
    /// What it is given.
    pub arguments: Vec<Argument>,
}

/// Why there is none: what is wrong, and the nearest names.
pub type NoSignature = (Wrong, Vec<String>);

fn damaged(error: BtfError) -> NoSignature {
    (Wrong::Btf(error), Vec::new())
}

/// What a tracepoint hands over.
pub fn of_tracepoint(btf: &Btf, name: &str) -> Result<Signature, NoSignature> {
    let Some(btf_id) = btf.tracepoint(name) else {
        let wrong = Wrong::NoTracepoint(name.to_string());
        return Err((wrong, nearest(name, btf.tracepoints())));
    };
    // The prototype of its programs has no names; the function that calls them has.
    let named = btf.function(&format!("__traceiter_{name}"));
    let named = named.and_then(|id| prototype(btf, id).ok());
    let prototype = prototype(btf, btf_id).map_err(damaged)?;
    let mut arguments = arguments(btf, prototype, 1).map_err(damaged)?;
    if let Some(named) = named {
        for (argument, member) in arguments.iter_mut().zip(btf.members(named).iter().skip(1)) {
            if !member.name.is_empty() {
                argument.name = member.name.to_string();
            }
        }
    }
    Ok(Signature { attach: Attach::Tracepoint { btf_id }, arguments })
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
        && let Ok(Kind::Prototype(kind)) = btf.kind(prototype)
        && kind != 0
    {
        let slot = arguments.last().map_or(0, |last| next_slot(btf, last));
        arguments.push(Argument { name: "ret".to_string(), kind, slot });
    }
    Ok(Signature { attach: Attach::Function { btf_id, returns }, arguments })
}

/// Where the first six arguments, and what is returned, lie in the registers that are handed over.
#[cfg(target_arch = "x86_64")]
const REGISTERS: ([i16; 6], i16) = ([112, 104, 96, 88, 72, 64], 80);
#[cfg(target_arch = "aarch64")]
const REGISTERS: ([i16; 6], i16) = ([0, 8, 16, 24, 32, 40], 0);

/// What a function of a program is given, or returns: registers, for nobody tells their types.
pub fn of_user(path: &str, function: &str, returns: bool) -> Signature {
    let argument =
        |(n, slot): (usize, &i16)| Argument { name: format!("arg{n}"), kind: 0, slot: *slot };
    let arguments = match returns {
        false => REGISTERS.0.iter().enumerate().map(argument).collect(),
        true => vec![Argument { name: "ret".to_string(), kind: 0, slot: REGISTERS.1 }],
    };
    let attach = Attach::User { path: path.to_string(), function: function.to_string(), returns };
    Signature { attach, arguments }
}

fn prototype(btf: &Btf, mut id: u32) -> Result<u32, BtfError> {
    for _ in 0..4 {
        let (bare, kind) = btf.bare(id)?;
        match kind {
            Kind::Pointer(next) | Kind::Function(next) => id = next,
            Kind::Prototype(_) => return Ok(bare),
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
        arguments.push(Argument { name, kind: member.kind, slot });
    }
    Ok(arguments)
}

fn next_slot(btf: &Btf, argument: &Argument) -> i16 {
    let slots = btf.size(argument.kind).unwrap_or(8).div_ceil(8).clamp(1, 16);
    argument.slot.saturating_add(slots as i16 * 8)
}
