//! What an event hands over: its arguments, with their types, and where a program finds them.
//!
//! Reads the kernel's types, and the symbols and notes of programs; emits signatures. Refuses events that do not exist, with the nearest
//! names that do.

use crate::btf::{Btf, BtfError, Kind};
use crate::error::Wrong;
use crate::executable::Executable;
use crate::operand::{Operand, Size};
use crate::suggest::nearest;
use crate::syscall::ArgumentKind;
use crate::usdt::UsdtPoint;

mod call;

pub use call::of_call;
pub(crate) use call::{REGISTERS_OF_CALL, SAVED_HEAD, SAVED_REGISTERS, call_number_slot};

/// A value that an event hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: u32,
    /// Where it lies in what the program is given, in bytes; of a program's, its number among the operands
    /// of each site.
    pub slot: i16,
    /// Whether it can be below 0, if nobody knows its type.
    pub is_signed: bool,
    /// Why it cannot be had, if it cannot.
    pub why_not: Option<String>,
    /// Of a system call: where its value lies, and what it is.
    pub of_call: Option<CallArgument>,
}

/// An argument of a system call, which the kernel's types do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallArgument {
    /// Where it lies.
    pub place: CallPlace,
    /// What it is.
    pub kind: ArgumentKind,
    /// Whether it is a field where none are named.
    pub is_default: bool,
}

/// Where a value of a system call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// In what the program is given.
    Given,
    /// In the registers that the slot leads to, so many bytes behind their beginning.
    Register(u32),
    /// In what was saved as the call began: a text.
    SavedText {
        /// Where, in bytes behind the beginning of what was saved.
        saved: u32,
        /// Where its address is there.
        saved_register: u32,
        /// In which register that was.
        register: u32,
    },
    /// In what was saved as the call began: a register.
    SavedRegister {
        /// Where, in bytes behind the beginning of what was saved.
        saved: u32,
        /// Which.
        register: u32,
    },
    /// How long the call took, by what was saved as it began.
    Duration,
}

/// How a program comes to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attach {
    /// At a tracepoint, by the type of its programs.
    Tracepoint {
        /// Which type.
        btf_id: u32,
        /// Whose, if it is a module's.
        module: Option<String>,
    },
    /// At a tracepoint, by its name.
    Raw {
        /// The name.
        name: String,
    },
    /// At the begin and the end of system calls: what is known at the begin is kept until the end.
    Call {
        /// The type of the tracepoint where they begin.
        enter: u32,
        /// The type of the one where they end.
        exit: u32,
        /// Bytes that are kept of each.
        saved_bytes: u32,
    },
    /// At a function of the kernel.
    Function {
        /// Which type.
        btf_id: u32,
        /// Whose, if it is a module's.
        module: Option<String>,
        /// When it returns.
        returns: bool,
    },
    /// In a program or library.
    User {
        /// The file.
        path: String,
        /// Where in it: points may have several places.
        sites: Vec<Site>,
        /// When the function there returns.
        returns: bool,
    },
}

/// A place in a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where, in bytes from the file's beginning.
    pub offset: u64,
    /// Where the number lies that says to the program how many look at it; 0 if nowhere.
    pub semaphore: u64,
    /// Where the arguments are.
    pub operands: Vec<Operand>,
}

/// An event, as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// How a program comes to be called.
    pub attach: Attach,
    /// What it is given.
    pub arguments: Vec<Argument>,
    /// The system call that alone is meant.
    pub call: Option<OneCall>,
}

impl Signature {
    /// Whether the event happens in a program, not in the kernel.
    pub fn is_in_program(&self) -> bool {
        matches!(self.attach, Attach::User { .. })
    }
}

/// One system call among all, at a tracepoint that all of them pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneCall {
    /// Its number.
    pub number: u32,
    /// Which argument of the tracepoint has the number.
    pub number_of: &'static str,
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
    call::extend(name, &mut arguments);
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
        && let Ok(Kind::Prototype(kind)) = btf.kind(prototype)
        && kind != 0
    {
        let slot = arguments.last().map_or(0, |last| next_slot(btf, last));
        arguments.push(of_kernel("ret".to_string(), kind, slot));
    }
    let module = btf.module().map(str::to_string);
    Ok(Signature { attach: Attach::Function { btf_id, module, returns }, arguments, call: None })
}

/// Where the first six arguments, and what is returned, lie in the registers that are handed over.
#[cfg(target_arch = "x86_64")]
const REGISTERS: ([i16; 6], i16) = ([112, 104, 96, 88, 72, 64], 80);
#[cfg(target_arch = "aarch64")]
const REGISTERS: ([i16; 6], i16) = ([0, 8, 16, 24, 32, 40], 0);

/// What a function of a program is given, or returns: registers, for nobody tells their types.
pub fn of_user(
    file: &Executable,
    name: &str,
    plus: u64,
    returns: bool,
) -> Result<Signature, NoSignature> {
    let offset = file.place(name, plus, returns)?;
    let register = |slot: &i16| Operand::Register { slot: *slot, size: Size::WHOLE };
    let (operands, arguments) = match returns {
        false => {
            let names = (0..REGISTERS.0.len()).map(|number| format!("arg{number}"));
            let arguments = names.enumerate().map(|(number, name)| of_program(name, number));
            (REGISTERS.0.iter().map(register).collect(), arguments.collect())
        }
        true => (vec![register(&REGISTERS.1)], vec![of_program("ret".to_string(), 0)]),
    };
    let sites = vec![Site { offset, semaphore: 0, operands }];
    let attach = Attach::User { path: file.path().to_string(), sites, returns };
    Ok(Signature { attach, arguments, call: None })
}

/// What a point hands over that was compiled into a program.
pub fn of_usdt(file: &Executable, provider: &str, name: &str) -> Result<Signature, NoSignature> {
    let is_it = |point: &&UsdtPoint| point.provider == provider && point.name == name;
    let found: Vec<&UsdtPoint> = file.points().iter().filter(is_it).collect();
    let (path, asked) = (file.path().to_string(), format!("{provider}:{name}"));
    if found.is_empty() {
        let all: Vec<String> =
            file.points().iter().map(|p| format!("{}:{}", p.provider, p.name)).collect();
        let near = nearest(&asked, all.iter().map(String::as_str));
        return Err((Wrong::NoUserPoint { path, name: asked, all: all.len() }, near));
    }
    let damaged = || {
        (
            Wrong::Executable { path: path.clone(), why: format!("{asked} lies outside of it") },
            Vec::new(),
        )
    };
    let mut sites = Vec::new();
    for point in &found {
        let semaphore = match point.semaphore {
            0 => 0,
            address => file.offset(address, false).ok_or_else(damaged)?,
        };
        let offset = file.offset(point.address, true).ok_or_else(damaged)?;
        sites.push(Site { offset, semaphore, operands: point.arguments.clone() });
    }
    let most = found.iter().map(|point| point.arguments.len()).max().unwrap_or(0);
    let arguments = (0..most).map(|number| usdt_argument(&found, number)).collect();
    Ok(Signature { attach: Attach::User { path, sites, returns: false }, arguments, call: None })
}

/// An argument that is somewhere at each place of its point.
fn usdt_argument(found: &[&UsdtPoint], number: usize) -> Argument {
    let mut argument = of_program(format!("arg{number}"), number);
    for point in found {
        match point.arguments.get(number) {
            Some(Operand::Other(place)) => {
                argument.why_not = Some(format!("it lies where it cannot be followed: {place}"));
            }
            Some(operand) => argument.is_signed |= operand.is_signed(),
            None => argument.why_not = Some("not every place of the point has it".to_string()),
        }
    }
    argument
}

fn of_program(name: String, number: usize) -> Argument {
    Argument { name, kind: 0, slot: number as i16, is_signed: false, why_not: None, of_call: None }
}

fn of_kernel(name: String, kind: u32, slot: i16) -> Argument {
    Argument { name, kind, slot, is_signed: false, why_not: None, of_call: None }
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
        arguments.push(of_kernel(name, member.kind, slot));
    }
    Ok(arguments)
}

fn next_slot(btf: &Btf, argument: &Argument) -> i16 {
    let slots = btf.size(argument.kind).unwrap_or(8).div_ceil(8).clamp(1, 16);
    argument.slot.saturating_add(slots as i16 * 8)
}
