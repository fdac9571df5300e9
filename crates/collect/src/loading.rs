//! Loads BPF objects: several programs at once, and without libbpf's searches through the kernel's types.
//!
//! libbpf opens the object, relocates it and makes its maps, but looks at all of the kernel's types for each program, and
//! loads one program after the other. So it is told of another kind of section: each of its programs is loaded as two instructions
//! that do nothing, while threads load the real one, whose descriptor then takes that one's place. Where the kernel
//! refuses a program, its reasons go to `complaints`.

mod kernel_functions;
mod sections;
mod table;
mod target;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf as _, Error, OpenObject};

use self::kernel_functions::KernelFunctions;
pub(crate) use self::table::Large;
use self::table::{Table, put_in_place_of};
use self::target::Target;
use crate::core_types::CoreTypes;
use crate::libbpf_log;
use crate::offers::Offers;

/// As all objects say.
const LICENSE: &CStr = c"Dual BSD/GPL";

/// More at once do not help: the longest program takes a fifth of the time of all.
const THREADS: usize = 8;

/// Room for what the kernel says of a program that it refuses.
const LOG_BYTES: usize = 1 << 20;

/// Opens an object. The types have to stay until it is loaded.
pub(crate) fn open<B: SkelBuilder<'static>>(
    mut builder: B,
    object: &[u8],
    offers: &Offers<'_>,
) -> libbpf_rs::Result<(CoreTypes, B::Output)> {
    sections::register();
    let types = offers.types_of(object);
    types.give(builder.object_builder_mut())?;
    Ok((types, builder.open(forever())?))
}

/// libbpf's objects refer to their storage; a job is followed until weigh ends.
fn forever() -> &'static mut MaybeUninit<OpenObject> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

thread_local! {
    /// What this thread is loading.
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

/// Loads an object that was opened by [`open`].
pub(crate) fn load<S: OpenSkel<'static>>(
    open: S,
    offers: &Offers<'_>,
) -> libbpf_rs::Result<S::Output> {
    load_with(open, offers, None)
}

/// The same, with a table that is made meanwhile.
pub(crate) fn load_with<S: OpenSkel<'static>>(
    mut open: S,
    offers: &Offers<'_>,
    large: Option<&Large>,
) -> libbpf_rs::Result<S::Output> {
    let table = large.and_then(|large| Table::of(&mut open, large)).map(Arc::new);
    let (queue, queued) = mpsc::channel();
    let mut targets = HashMap::new();
    for program in open.open_object().progs().filter(|program| program.autoload()) {
        let section = program.section().to_string_lossy().into_owned();
        if let Some(target) = Target::of_section(&section, offers) {
            targets.insert(program.as_libbpf_object().as_ptr(), target);
        }
    }
    let functions = KernelFunctions::new(offers);
    let loading =
        Loading { functions, targets, queue, to_make: table.clone(), table, late: Vec::new() };
    let table = loading.table.clone();
    LOADING.with(|current| current.replace(Some(loading)));
    let queued = Mutex::new(queued);
    thread::scope(|scope| {
        let helpers = thread::available_parallelism().map_or(1, usize::from).min(THREADS) - 1;
        // Where there may be no more threads, this one loads all.
        let helper = |_| thread::Builder::new().spawn_scoped(scope, || load_queued(&queued)).ok();
        let helpers: Vec<_> = (0..helpers).map_while(helper).collect();
        let opened = open.load();
        let loading = LOADING.with(|current| current.replace(None));
        // With it the queue ends.
        loading.into_iter().filter(|_| opened.is_ok()).for_each(Loading::queue_late);
        let mut loaded = load_queued(&queued);
        for helper in helpers {
            // What it had taken over is nothing but a substitute.
            let lost = |_| Error::from(io::Error::other("a thread that loads programs failed"));
            loaded.extend(helper.join().map_err(lost)?);
        }
        let skeleton = opened?;
        table.map_or(Ok(()), |table| table.make())?;
        loaded.into_iter().try_for_each(|(program, loaded)| put_in_place(&program, loaded?))?;
        Ok(skeleton)
    })
}

struct Loading {
    functions: KernelFunctions,
    targets: HashMap<*mut sys::bpf_program, Target>,
    queue: Sender<Work>,
    table: Option<Arc<Table>>,
    /// The same until a thread is told to make it.
    to_make: Option<Arc<Table>>,
    /// Programs that refer to it.
    late: Vec<Program>,
}

/// What the threads do.
enum Work {
    Make(Arc<Table>),
    Load(Program),
}

/// A program as libbpf would load it.
struct Program {
    of_libbpf: *mut sys::bpf_program,
    name: CString,
    instructions: Vec<sys::bpf_insn>,
    options: sys::bpf_prog_load_opts,
    /// Holds what the options refer to.
    _target: Target,
    /// What has to be made before.
    table: Option<Arc<Table>>,
}

// SAFETY: the pointers are to what the object owns, which is not touched until all programs are loaded.
unsafe impl Send for Program {}

type Loaded = Vec<(Program, libbpf_rs::Result<OwnedFd>)>;

/// Loads what is queued until nothing more comes.
fn load_queued(queued: &Mutex<Receiver<Work>>) -> Loaded {
    let mut loaded = Vec::new();
    loop {
        let next = queued.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            // Code that needs it asks once more, and gets the reason why there is none.
            Ok(Work::Make(table)) => drop(table.make()),
            Ok(Work::Load(program)) => {
                let outcome = program.load_when_ready();
                loaded.push((program, outcome));
            }
            Err(_) => return loaded,
        }
    }
}

impl Program {
    fn load_when_ready(&self) -> libbpf_rs::Result<OwnedFd> {
        self.table.as_ref().map_or(Ok(()), |table| table.make())?;
        self.load().or_else(|error| self.load_with_reasons(error))
    }

    fn load(&self) -> libbpf_rs::Result<OwnedFd> {
        self.load_with(&self.options)
    }

    fn load_with(&self, options: &sys::bpf_prog_load_opts) -> libbpf_rs::Result<OwnedFd> {
        let mut options = *options;
        // SAFETY: name, license, instructions and options are valid for the call; a descriptor that is returned is new.
        unsafe {
            let descriptor = sys::bpf_prog_load(
                sys::BPF_PROG_TYPE_TRACING,
                self.name.as_ptr(),
                LICENSE.as_ptr(),
                self.instructions.as_ptr(),
                self.instructions.len() as sys::size_t,
                &mut options,
            );
            match descriptor {
                0.. => Ok(OwnedFd::from_raw_fd(descriptor)),
                _ => Err(Error::from_raw_os_error(-descriptor)),
            }
        }
    }

    /// Once more, for the kernel to say why it refuses.
    fn load_with_reasons(&self, error: Error) -> libbpf_rs::Result<OwnedFd> {
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = self.options;
        options.log_level = 1;
        options.log_size = log.len() as u32;
        options.log_buf = log.as_mut_ptr().cast();
        let loaded = self.load_with(&options);
        if loaded.is_err() {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            libbpf_log::add(&String::from_utf8_lossy(&log[..end]));
            libbpf_log::add(&format!("prog '{}': {error}", self.name.to_string_lossy()));
        }
        loaded.map_err(|_| error)
    }
}

/// The descriptor that libbpf knows becomes that of the real program.
fn put_in_place(program: &Program, loaded: OwnedFd) -> libbpf_rs::Result<()> {
    // SAFETY: the object is still there, and loaded: the descriptor is its own, and stays so.
    unsafe { Ok(put_in_place_of(sys::bpf_program__fd(program.of_libbpf), &loaded)?) }
}

/// `r0 = 0; exit`
fn nothing() -> [sys::bpf_insn; 2] {
    [0xb7, 0x95].map(|code| sys::bpf_insn { code, ..Default::default() })
}

impl Loading {
    /// Takes a program over, and has libbpf load nothing in its place.
    ///
    /// # Safety
    /// Both must be what libbpf has handed out for a program that it is about to load.
    unsafe fn take_over(
        &mut self,
        program: *mut sys::bpf_program,
        options: *mut sys::bpf_prog_load_opts,
    ) -> Result<(), c_int> {
        let target = self.targets.remove(&program).ok_or(libc::ESRCH)?;
        // SAFETY: the caller vouches for both; what is copied outlives the load.
        unsafe {
            let mut own = *options;
            own.attach_btf_id = target.type_id;
            own.attach_btf_obj_fd = target.module.as_ref().map_or(0, |fd| fd.as_raw_fd() as u32);
            let instructions = self.functions.put_into(program);
            let name = CStr::from_ptr(sys::bpf_program__name(program)).to_owned();
            let mut nothing = nothing();
            let length = nothing.len() as sys::size_t;
            let set = sys::bpf_program__set_insns(program, nothing.as_mut_ptr(), length);
            if set < 0 {
                return Err(-set);
            }
            (*options).expected_attach_type = 0;
            (*options).prog_btf_fd = 0;
            (*options).prog_flags = 0;
            ((*options).func_info_cnt, (*options).line_info_cnt) = (0, 0);
            let of_libbpf = program;
            let table = self.table.clone().filter(|table| table.is_used_by(&instructions));
            let taken =
                Program { of_libbpf, name, instructions, options: own, _target: target, table };
            self.queue(taken)
        }
    }

    /// Those first that need not wait. All maps are made by now.
    fn queue(&mut self, program: Program) -> Result<(), c_int> {
        if let Some(table) = self.to_make.take() {
            self.hand_over(Work::Make(table))?;
        }
        if program.table.is_some() {
            self.late.push(program);
            return Ok(());
        }
        self.hand_over(Work::Load(program))
    }

    fn hand_over(&self, work: Work) -> Result<(), c_int> {
        self.queue.send(work).map_err(|_| libc::EINVAL)
    }

    fn queue_late(self) {
        for program in self.late {
            // The queue is read until its end.
            let _ = self.queue.send(Work::Load(program));
        }
    }

    /// Lets libbpf load a program, with the kernel's functions in it.
    ///
    /// # Safety
    /// The program must be one that libbpf is about to load.
    unsafe fn only_put_in(&mut self, program: *mut sys::bpf_program) -> Result<(), c_int> {
        // SAFETY: the caller vouches for it; libbpf copies the instructions.
        unsafe {
            let mut instructions = self.functions.put_into(program);
            if let Some(table) = self.table.as_ref().filter(|table| table.is_used_by(&instructions))
            {
                table.make().map_err(|_| libc::ENOMEM)?;
            }
            let length = instructions.len() as sys::size_t;
            match sys::bpf_program__set_insns(program, instructions.as_mut_ptr(), length) {
                0 => Ok(()),
                error => Err(-error),
            }
        }
    }
}
