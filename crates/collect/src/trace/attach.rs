//! Programs into the kernel, and onto their points.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::libbpf_sys as sys;

use super::error::TraceError;
use super::instruction::{self, Instruction};
use super::{modules, user};
use crate::join::descriptor;
use crate::standing_threads::for_each;

/// Where a program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// At the tracepoint whose programs are of this type.
    Tracepoint {
        /// The type's number in the kernel's own type information, or in that of a module.
        btf_id: u32,
        /// Which module.
        module: Option<String>,
    },
    /// At the tracepoint of that name, whatever its types are.
    Raw {
        /// The name.
        name: String,
    },
    /// At a function of the kernel.
    Function {
        /// The function's number there.
        btf_id: u32,
        /// Which module.
        module: Option<String>,
        /// When it returns.
        returns: bool,
    },
    /// At an instruction of the kernel.
    Instruction(Instruction),
    /// In a program or library, in whatever process has it.
    User(UserPlace),
}

/// A place in a program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPlace {
    /// The file.
    pub path: PathBuf,
    /// Where, in bytes from its beginning.
    pub offset: u64,
    /// Where a number lies that the kernel raises while this is attached; 0: nowhere.
    pub semaphore: u64,
    /// When the function there returns.
    pub returns: bool,
}

/// What is attached, for as long as this lives.
pub(super) type Link = OwnedFd;

/// What is attached: it goes on into the program that stands in the table. Which that is can be changed
/// while it is attached: an event is the old one's or the new one's, never of both and never of none. The
/// kernel makes a plain jump of it. `r2 = table; r3 = 0; tail_call; r0 = 0; exit`.
pub(super) fn entry(table: i32) -> [u64; 6] {
    [0x1218 | u64::from(table.cast_unsigned()) << 32, 0, 0x03b7, 0x0c_0000_0085, 0x00b7, 0x95]
}

/// What the verifier may say.
const LOG_BYTES: usize = 1 << 20;
/// Lines of that which are told.
const TOLD: usize = 8;

/// Has the kernel check a program.
pub(super) fn load(name: &str, point: &Point, code: &[u64]) -> Result<OwnedFd, TraceError> {
    load_once(point, code, &mut []).or_else(|_| {
        let mut log = vec![0u8; LOG_BYTES];
        load_once(point, code, &mut log).map_err(|error| TraceError::Load {
            probe: name.to_string(),
            error,
            said: last_words(&log) + hint(point),
        })
    })
}

fn load_once(point: &Point, code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    let kind = match point {
        Point::Tracepoint { .. } => sys::BPF_TRACE_RAW_TP,
        Point::Raw { .. } | Point::Instruction(_) => 0,
        Point::Function { returns: false, .. } => sys::BPF_TRACE_FENTRY,
        Point::Function { returns: true, .. } => sys::BPF_TRACE_FEXIT,
        Point::User(_) => user::attach_type(),
    };
    load_as(point, kind, code, log)
}

/// Has the kernel check a program that will be attached in that way.
pub(super) fn load_as(
    point: &Point,
    kind: sys::bpf_attach_type,
    code: &[u64],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let mut types = None;
    let (program, attach_btf_id) = match point {
        Point::Tracepoint { btf_id, module } | Point::Function { btf_id, module, .. } => {
            types = module.as_deref().map(modules::types_of).transpose()?;
            (sys::BPF_PROG_TYPE_TRACING, *btf_id)
        }
        Point::Raw { .. } => (sys::BPF_PROG_TYPE_RAW_TRACEPOINT, 0),
        Point::Instruction(_) | Point::User(_) => (sys::BPF_PROG_TYPE_KPROBE, 0),
    };
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        expected_attach_type: kind,
        attach_btf_id,
        attach_btf_obj_fd: types.as_ref().map_or(0, |types| types.as_raw_fd().cast_unsigned()),
        ..Default::default()
    };
    if !log.is_empty() {
        options.log_level = 1;
        options.log_size = log.len() as u32;
        options.log_buf = log.as_mut_ptr().cast();
    }
    // SAFETY: names, instructions (each of 8 bytes, as the kernel's) and options outlive the call;
    // what the kernel makes of the instructions it checks itself.
    descriptor(unsafe {
        sys::bpf_prog_load(
            program,
            c"weigh_trace".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as sys::size_t,
            &mut options,
        )
    })
}

/// What may be the reason.
fn hint(point: &Point) -> &'static str {
    match point {
        Point::Tracepoint { .. } | Point::User(_) => "",
        Point::Raw { .. } => "; has its module gone?",
        Point::Instruction(_) => instruction::HINT,
        Point::Function { .. } => {
            "; not every kernel lets functions be probed, nor every function: `weigh doctor` says \
             whether this one does"
        }
    }
}

fn last_words(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
    lines.iter().skip(lines.len().saturating_sub(TOLD)).map(|line| format!("\n  {line}")).collect()
}

/// Attaches a program.
pub(super) fn attach(
    name: &str,
    program: BorrowedFd<'_>,
    point: &Point,
) -> Result<Link, TraceError> {
    let hint = hint(point);
    let probe = || name.to_string();
    let link = match point {
        Point::User(place) => user::attach(program, place),
        Point::Instruction(instruction) => instruction::attach(program, instruction),
        Point::Raw { name } => raw(name, program),
        // SAFETY: the program is loaded; its point was given when it was.
        _ => descriptor(unsafe {
            sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd())
        }),
    };
    link.map_err(|error| TraceError::Attach { probe: probe(), error: in_words(error), hint })
}

/// The kernel's own "not supported", which C libraries have no words for.
fn in_words(error: io::Error) -> io::Error {
    const ENOTSUPP: i32 = 524;
    match error.raw_os_error() {
        Some(ENOTSUPP) => io::Error::other("this kernel does not support it (ENOTSUPP)"),
        _ => error,
    }
}

/// More arguments no tracepoint has for programs.
pub const MOST_ARGUMENTS: u8 = 12;

/// How many arguments a tracepoint hands over, by its name: the kernel attaches no program that reads more. One
/// that reads the last is attached for a moment.
pub fn raw_arguments(name: &str) -> io::Result<u8> {
    let point = Point::Raw { name: name.to_string() };
    for count in (1..=MOST_ARGUMENTS).rev() {
        // r0 = *(u64 *)(r1 + offset); r0 = 0; exit
        let load = 0x1079 | (u64::from(count - 1) * 8) << 16;
        let program = load_as(&point, 0, &[load, 0x00b7, 0x95], &mut [])?;
        match raw(name, program.as_fd()) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            attached => return attached.map(|_| count),
        }
    }
    Ok(0)
}

/// By its name.
fn raw(name: &str, program: BorrowedFd<'_>) -> io::Result<Link> {
    let name = CString::new(name)?;
    // SAFETY: the program is loaded, and the name outlives the call.
    descriptor(unsafe { sys::bpf_raw_tracepoint_open(name.as_ptr(), program.as_raw_fd()) })
}

/// So many are let go of at once.
const AT_ONCE: usize = 64;

/// Lets go of what is attached: the kernel waits for each place in a program, and may do so for many at once.
pub(super) fn let_go(mut links: Vec<Link>) {
    let each = links.len().div_ceil(AT_ONCE).max(1);
    let mut pieces = Vec::new();
    while !links.is_empty() {
        pieces.push(links.split_off(links.len().saturating_sub(each)));
    }
    for_each("let-go", pieces, drop::<Vec<Link>>);
}

/// How often the kernel did not call a program because it was at work already.
pub(super) fn missed(program: BorrowedFd<'_>) -> u64 {
    let mut info = sys::bpf_prog_info::default();
    let mut length = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: the program is loaded; the structure is so long, and plain data of which all zeros is
    // a valid value.
    let failed = unsafe {
        let info = std::ptr::from_mut(&mut info).cast();
        sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), info, &mut length)
    };
    if failed == 0 { info.recursion_misses } else { 0 }
}
