//! What is attached to the kernel, part by part: all programs are loaded once, and their links come
//! and go with those who ask.
//!
//! Loading makes the kernel verify every program, which takes seconds; attaching takes a fifth of a
//! millisecond for each (`tests/attaching.rs` measures both), and what is loaded and not attached costs
//! nobody any time.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use libbpf_rs::skel::Skel as _;
use weigh_schema::subsystem::{CPU_COUNTERS, ON_REQUEST_BY_PART, PARTS, SUBSYSTEMS, Subsystem};

use super::functions::let_go;
use super::kernel_calls::KernelCalls;
use super::links::{Outcome, Plan};
use super::program_names::{ALWAYS, INTERRUPTS, WITHOUT_INTERRUPTS, owners, root_of};
use super::program_parts::{ANYTHING, bits};
use crate::job::{JobError, bpf};

const TCP: &str = "tcp";
const BLOCK: &str = "block";

/// What is no part: counters, and numbers of each part.
const ON_REQUEST: u64 = ((1 << (CPU_COUNTERS.len() + 1)) - 1) << PARTS;

/// The parts that no configuration has defined.
const BUILT_IN: u64 = (1 << SUBSYSTEMS.len()) - 1;

impl KernelCalls {
    /// Attaches these parts of those that were chosen, and lets go of the others; what this side holds
    /// by itself stays. What has been attached goes on undisturbed.
    pub fn attach_only(&mut self, parts: u64) -> Result<(), JobError> {
        self.wait_for_change();
        let plan = self.plan(parts);
        match self.changing.links().map(|links| links.change(plan)) {
            Some(outcome) => self.take_in_change(outcome),
            None => Err(lost()),
        }
    }

    /// Attaches what is attached once more: other programs of it are wanted.
    pub(super) fn attach_again(&mut self) -> Result<(), JobError> {
        self.wait_for_change();
        self.attach_only(self.attached_now)
    }

    /// The same as [`KernelCalls::attach_only`], by a thread of its own: it is over once [`KernelCalls::end_attach`] says what came of it. Nothing must
    /// be under way.
    pub fn begin_attach(&mut self, parts: u64) {
        self.wait_for_change();
        let plan = self.plan(parts);
        if self.settled == Some(plan) {
            self.ended = Some(Ok(()));
            return;
        }
        // Nobody is told of what is about to go.
        self.attached_now &= plan.parts;
        match self.changing.begin(plan) {
            Some(outcome) => self.ended = Some(self.take_in_change(outcome)),
            None if !self.changing.is_under_way() => self.ended = Some(Err(lost())),
            None => {}
        }
    }

    /// What came of what was begun, if it is over.
    pub fn end_attach(&mut self) -> Option<Result<(), JobError>> {
        if let Some(outcome) = self.changing.end() {
            self.ended = Some(self.take_in_change(outcome));
        }
        self.ended.take()
    }

    /// Readable once what was begun is over.
    pub fn attached_fd(&self) -> BorrowedFd<'_> {
        self.changing.over()
    }

    fn wait_for_change(&mut self) {
        if let Some(outcome) = self.changing.wait() {
            self.ended = Some(self.take_in_change(outcome));
        }
    }

    fn plan(&mut self, parts: u64) -> Plan {
        // A program of several parts is not attached for one that it was not loaded for.
        let target =
            with_always((parts | self.held) & (self.chosen_parts() | ANYTHING | ON_REQUEST));
        if target & !self.attached_now & bits([TCP]) != 0 {
            self.forget_senders();
        }
        if target & !self.attached_now & bits([BLOCK]) != 0 {
            self.forget_requests();
        }
        self.attached_before = self.attached_now;
        // Of an interval the program itself reads them, but those of parts.
        let counts = self.follows_calls() || target & ON_REQUEST_BY_PART != 0;
        let counted = if counts { target & self.counting.available() } else { 0 };
        Plan { parts: target, packets: self.standby.seen, counted }
    }

    fn take_in_change(&mut self, outcome: Outcome) -> Result<(), JobError> {
        let Outcome { plan, error, failed, lacking, not_counted } = outcome;
        self.settled = Some(plan).filter(|_| {
            error.is_none() && failed.is_empty() && lacking == 0 && not_counted.is_none()
        });
        if let Some(error) = error {
            self.attached_now = self.attached_before;
            return Err(bpf("attach")(error.into()));
        }
        self.attached_now = plan.parts & !lacking;
        self.tell_of_packets(plan.packets);
        failed.into_iter().for_each(|(program, reason)| self.lacks(&program, reason));
        not_counted.into_iter().for_each(|error| self.counting.refuse(&error));
        Ok(())
    }

    /// Sockets that went while nobody looked still have their places. Nothing of theirs is under way: the part would
    /// not have been let go of.
    fn forget_senders(&mut self) {
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.sender_cookies.fill(0);
            variables.sender_layers = 0;
        }
    }

    /// Requests may have come to their end while nobody looked.
    fn forget_requests(&mut self) {
        if let Some(variables) = self.skeleton.maps.data_data.as_deref_mut() {
            variables.flight_epoch += 1;
        }
    }

    /// What stays attached, whatever clients ask for; from the next time on.
    pub fn hold(&mut self, parts: u64) {
        self.held = parts;
    }

    /// What this side holds.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Stops following: what is in the table stays readable.
    pub fn detach(&mut self) {
        self.held = 0;
        // It fails where something is attached, and nothing is.
        let _ = self.attach_only(0);
        let began = Instant::now();
        let_go(&mut self.functions);
        if let Some(functions) = &mut self.function_probes {
            functions.detach_seconds = began.elapsed().as_secs_f64();
        }
    }

    /// The parts that are attached now, as bits.
    pub fn attached_parts(&self) -> u64 {
        self.attached_now & self.available_parts()
    }

    /// Whether numbers of each part can be asked for.
    pub(super) fn tells_by_part(&self) -> bool {
        self.skeleton.maps.rodata_data.as_ref().is_some_and(|constants| constants.tells_by_part)
    }

    /// The functions are attached, and stay so.
    pub(super) fn took_functions(&mut self) {
        self.attached_now |= self.chosen_parts() & !BUILT_IN;
    }

    /// The parts that programs were loaded for, as bits.
    fn chosen_parts(&self) -> u64 {
        self.attached.iter().fold(0, |set, part| set | self.bit(&part.subsystem))
    }

    /// The bit of a part, built in or a configuration's.
    fn bit(&self, name: &str) -> u64 {
        let own = || self.own.as_deref()?.iter().position(|part| part.name == name);
        match Subsystem::named(name) {
            Some(part) => part.bit(),
            None => own().map_or(0, |place| 1 << (SUBSYSTEMS.len() + place)),
        }
    }

    /// The parts and counters that can be seen here, as bits. The remainder is one where the ends of
    /// calls are known.
    pub fn available_parts(&self) -> u64 {
        let seen = self.attached.iter().filter(|part| part.probes > 0);
        let seen = seen.fold(0, |set, part| set | self.bit(&part.subsystem));
        // What was attached for as long as calls were followed does not come back.
        let has_functions = self.has_functions_on_request || !self.functions.is_empty();
        let seen = if has_functions { seen } else { seen & BUILT_IN };
        let by_part = if self.tells_by_part() { ON_REQUEST_BY_PART } else { 0 };
        u64::from(self.follows_calls()) | seen | self.counting.available() | by_part
    }

    /// A program could not be attached: of those for different kernels one is enough.
    fn lacks(&mut self, program: &str, reason: String) {
        let is_twin = |other: &str| other != program && root_of(other) == root_of(program);
        let mut loaded = self.skeleton.object().progs().filter(|p| p.autoload());
        let has_twin = loaded.any(|p| is_twin(&p.name().to_string_lossy()));
        for part in owners(program) {
            if let Some(part) = self.attached.iter_mut().find(|known| known.subsystem == part)
                && !part.missing.contains(&reason)
            {
                part.probes = part.probes.saturating_sub(1);
                if !has_twin {
                    part.missing.push(reason.clone());
                }
            }
        }
    }
}

/// For a thread that has taken all links with it.
fn lost() -> JobError {
    bpf("attach")(std::io::Error::other("the thread that attaches has panicked").into())
}

/// With what has to be there for the times of these parts to be right.
fn with_always(parts: u64) -> u64 {
    let plain = bits(WITHOUT_INTERRUPTS) | ANYTHING | ON_REQUEST;
    let interrupts = match parts & !plain {
        0 => 0,
        _ => bits([INTERRUPTS]),
    };
    if parts == 0 { 0 } else { parts | ANYTHING | bits([ALWAYS]) | interrupts }
}
