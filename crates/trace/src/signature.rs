//! What an event hands over: its arguments, with their types, and where a program finds them.
//!
//! Reads the kernel's types, and the symbols and notes of programs; emits signatures. Refuses events that do not exist, with the nearest
//! names that do.

use crate::btf::Btf;
use crate::error::Wrong;
use crate::executable::Executable;
use crate::operand::{Operand, Size};
use crate::suggest::nearest;
use crate::usdt::UsdtPoint;

mod call;
mod kernel;
mod layout;
mod registers;

pub use crate::error::NoSignature;
pub use call::of_call;
pub(crate) use call::{REGISTERS_OF_CALL, SAVED_HEAD, SAVED_REGISTERS, call_number_slot};
pub use kernel::{of_function, of_instruction, of_raw};
pub use layout::{Argument, Attach, CallArgument, CallPlace, OneCall, Signature, Site};
use registers::REGISTERS;

/// What a tracepoint hands over.
pub fn of_tracepoint(btf: &Btf, name: &str) -> Result<Signature, NoSignature> {
    let mut signature = kernel::typed_tracepoint(btf, name)?;
    call::extend(name, &mut signature.arguments);
    Ok(signature)
}

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
