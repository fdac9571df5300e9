//! What a user without rights may have the agent follow, declared in one table.
//!
//! Reads checked events; emits the same, held to the user's own threads, or with less of them. Refuses what
//! would tell of others, or of where the kernel lies.
//!
//! Each tracepoint that is granted is passed in the thread itself, never in an interrupt: what an interrupt does
//! is not the thread's own work, while the thread that it interrupts is the user's. What a probe may read, in its
//! fields and in its filters alike (a filter that may ask tells), are the places that are named here, and no others,
//! however they are written; addresses of the kernel are none of them.

use crate::btf::Btf;
use crate::condition::{Right, Source, Test, TextSource};
use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::event::{CallMoment, Event, Field, Point};
use crate::filter::Filter;
use crate::owner::Owner;
use crate::path::Path;
use crate::path_resolve::{End, PathEnd, Shape, Walker};
use crate::probe::{Content, ID, Probe, ProbeField, chosen};
use crate::signature::{Attach, Signature};

/// A tracepoint that is granted.
#[derive(Debug)]
pub struct Granted {
    /// Its group.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Numbers that may be read there, with a blank between them.
    pub numbers: &'static str,
    /// Texts that may be.
    pub texts: &'static str,
    /// When it is passed.
    pub when: &'static str,
}

const fn granted(
    (group, name): (&'static str, &'static str),
    numbers: &'static str,
    texts: &'static str,
    when: &'static str,
) -> Granted {
    Granted { group, name, numbers, texts, when }
}

impl Granted {
    /// All that may be read there.
    fn places(&self) -> Vec<&'static str> {
        self.numbers.split(' ').chain(self.texts.split_ascii_whitespace()).collect()
    }
}

/// All of them. Registers are those of either kind of processor.
pub const GRANTED: &[Granted] = &[
    granted(
        ("raw_syscalls", "sys_enter"),
        "id arg1 regs->orig_ax regs->di regs->si regs->dx regs->r10 regs->r8 regs->r9 \
         regs->syscallno regs->regs[0] regs->orig_x0 regs->regs[1] regs->regs[2] regs->regs[3] regs->regs[4] regs->regs[5]",
        "",
        "a system call of the thread begins",
    ),
    granted(
        ("raw_syscalls", "sys_exit"),
        // What the program has left there at the beginning of the call, and not what the call has put there.
        "ret regs->orig_ax regs->di regs->si regs->dx regs->r10 regs->r8 regs->r9 \
         regs->syscallno regs->orig_x0 regs->regs[1] regs->regs[2] regs->regs[3] regs->regs[4] regs->regs[5]",
        "",
        "a system call of the thread ends",
    ),
    granted(
        ("sched", "sched_switch"),
        "preempt prev_state prev->pid prev->tgid",
        "prev->comm",
        "the thread leaves its CPU; who comes next is another's",
    ),
    granted(
        ("sched", "sched_process_fork"),
        "parent->pid parent->tgid child->pid child->tgid",
        "",
        "the thread makes another one, or a process",
    ),
    granted(
        ("sched", "sched_process_exec"),
        "p->pid p->tgid old_pid",
        "p->comm bprm->filename",
        "the thread has executed a program; one with more rights is not his to see",
    ),
    granted(
        ("sched", "sched_process_exit"),
        "p->pid p->tgid p->exit_code group_dead",
        "p->comm",
        "the thread ends",
    ),
    granted(
        ("task", "task_newtask"),
        "task->pid task->tgid clone_flags",
        "",
        "the thread makes another one, or a process",
    ),
    granted(("signal", "signal_deliver"), "sig", "", "the thread takes a signal"),
    granted(
        ("exceptions", "page_fault_user"),
        "address error_code",
        "",
        "the thread's program touches memory that is not there yet",
    ),
    granted(
        ("sock", "sock_send_length"),
        "ret flags",
        "",
        "the thread has sent something through a socket",
    ),
    granted(
        ("sock", "sock_recv_length"),
        "ret flags",
        "",
        "the thread has received something through a socket",
    ),
];

/// Probes of a stream, those that were removed counted as well.
pub const MOST_PROBES: usize = 16;
/// Bytes of all rings of a stream.
pub const MOST_RING_BYTES: usize = 32 << 20;

/// What would help a user who is refused.
const HELP: &str = "root, or who has CAP_BPF and CAP_PERFMON, may follow it without the agent";

/// Whether a user may follow what an event names, by its name alone: nothing is opened or looked up for that.
pub fn may_follow(event: &Event) -> Result<(), Refusal> {
    find(event).map(drop)
}

/// Holds an event to what its owner may see: returns what is left of it, its probe, and what was left out. What was
/// not asked for by name (the fields of a set, all arguments) may be left out; all else is refused.
pub fn confine(
    btf: &Btf,
    event: Event,
    signature: &Signature,
    filters: &[(String, Filter)],
    owner: &Owner,
    may_leave_out: bool,
) -> Result<(Event, Probe, Vec<String>), Refusal> {
    let granted = find(&event)?;
    if !matches!(signature.attach, Attach::Tracepoint { module: None, .. } | Attach::Call { .. }) {
        return Err(not_followed(&event, "it is not the kernel's own tracepoint of that name"));
    }
    let places = GrantedFields::of(btf, &event, signature, granted);
    let mut event = event;
    let may_leave_out = may_leave_out || event.fields.is_none();
    let probe = Probe::of(btf, &event, signature, filters)?;
    let is_id_wrong = |probe: &Probe| {
        probe.has_own_id && probe.id.as_ref().is_some_and(|id| !places.grant_number(id))
    };
    let mut wrong: Vec<&str> = Vec::new();
    if is_id_wrong(&probe) {
        wrong.push(ID);
    }
    wrong.extend(probe.fields.iter().filter(|f| !places.grant(f)).map(|f| f.name.as_str()));
    if let Some(first) = wrong.first()
        && !may_leave_out
    {
        let span = event.fields.iter().flatten().chain(&event.more).find(|f| f.name == *first);
        let span = span.map_or(event.span, |field| field.span);
        return Err(refused(&event, span, first, granted));
    }
    let fields: Vec<Field> = chosen(btf, &event, signature);
    let left_out: Vec<String> = wrong.iter().map(|name| (*name).to_string()).collect();
    let kept = fields.into_iter().filter(|field| !left_out.contains(&field.name));
    event.fields = Some(kept.collect());
    event.more.clear();
    let mut probe = Probe::of(btf, &event, signature, filters)?;
    if !probe.fields.iter().all(|field| places.grant(field)) || is_id_wrong(&probe) {
        return Err(refused(&event, event.span, "a field", granted));
    }
    if probe.test.as_ref().is_some_and(|test| !places.grant_test(test)) {
        return Err(refused(&event, event.span, "what the filter looks at", granted));
    }
    if !probe.has_own_id {
        // It would be the first argument, which is an address more often than not.
        probe.id = None;
    }
    probe.owner = Some(owner.clone());
    Ok((event, probe, left_out))
}

fn refused(event: &Event, span: Span, what: &str, granted: &Granted) -> Refusal {
    let wrong = format!(
        "'{what}' is not a user's to see: the agent grants of {} only {}, tgid, tid, cpu, comm and ustack; {HELP}",
        granted.name,
        granted.places().join(", ")
    );
    span.refuse(&event.text, Wrong::NotAUsers(wrong))
}

fn find(event: &Event) -> Result<&'static Granted, Refusal> {
    let why = match &event.point {
        Point::Tracepoint { name, .. } => {
            match GRANTED.iter().find(|granted| granted.name == name) {
                Some(granted) => return Ok(granted),
                None => "it is passed in interrupts, or tells of others",
            }
        }
        Point::Call { moment, .. } => {
            let name = if *moment == CallMoment::Enter { "sys_enter" } else { "sys_exit" };
            match GRANTED.iter().find(|granted| granted.name == name) {
                Some(granted) => return Ok(granted),
                None => "it is not granted",
            }
        }
        Point::Function { .. } => "functions of the kernel handle what is anybody's",
        Point::Raw { .. } => "its arguments are addresses as often as not",
        Point::User { .. } | Point::Usdt { .. } => {
            "a place in a program is probed in every process of the machine that has the file"
        }
    };
    Err(not_followed(event, why))
}

fn not_followed(event: &Event, why: &str) -> Refusal {
    let wrong = format!("the agent does not follow it for a user: {why}; {HELP}");
    let near = GRANTED.iter().map(|granted| format!("{}:{}", granted.group, granted.name));
    event.span.refuse(&event.text, Wrong::NotAUsers(wrong)).near(near.collect())
}

/// The places of a tracepoint that are granted, as this kernel has them.
struct GrantedFields {
    numbers: Vec<PathEnd>,
    texts: Vec<PathEnd>,
}

impl GrantedFields {
    fn of(btf: &Btf, event: &Event, signature: &Signature, granted: &Granted) -> GrantedFields {
        let name = event.name();
        let place = |text: &str| {
            let arguments = &signature.arguments;
            let walker = Walker { btf, arguments, event: &name, text, is_in_program: false };
            let path = Path::parse(&mut Cursor::new(text).ok()?).ok()??;
            // Not every kernel has all of them.
            walker.follow(&path).ok()
        };
        let is_number = |place: &PathEnd| {
            matches!(place.shape, Shape::Unsigned | Shape::Signed | Shape::Bool | Shape::Enum(_))
        };
        GrantedFields {
            numbers: granted.numbers.split(' ').filter_map(place).filter(is_number).collect(),
            texts: granted.texts.split_ascii_whitespace().filter_map(place).collect(),
        }
    }

    fn grant(&self, field: &ProbeField) -> bool {
        match &field.content {
            Content::Number(source) => self.grant_number(source),
            // The thread's own memory, where a number leads that may be read anyway.
            Content::Text { source: TextSource::PathEnd(place), is_user: true } => {
                self.grant_place(place)
            }
            Content::Text { source, is_user } => !is_user && self.grant_text(source),
            // The thread's own functions, which it could be asked for anyway.
            Content::Stack { is_user } => *is_user,
            // A packet may be anybody's.
            Content::Bytes { .. } | Content::Packet(_) | Content::Address(_) => false,
        }
    }

    fn grant_number(&self, source: &Source) -> bool {
        match source {
            Source::Tgid | Source::Tid | Source::Cpu | Source::Event | Source::Size => true,
            // What fills it has been looked at.
            Source::Id => false,
            // It is the CPU's, and so tells of others.
            Source::Counter(_) => false,
            // It may be anybody's.
            Source::Packet(_) | Source::PacketKept | Source::PacketLength => false,
            Source::Cast(of, _) => self.grant_number(of),
            Source::PathEnd(place) => self.grant_place(place),
        }
    }

    /// The same bytes, or fewer of them, whatever they are taken for.
    fn grant_place(&self, place: &PathEnd) -> bool {
        let is_same = |granted: &PathEnd| {
            (granted.slot, &granted.hops, granted.end) == (place.slot, &place.hops, place.end)
                && loaded_bytes(place) <= granted.bytes
        };
        match place.end {
            // What was kept of the thread's own memory, where a register led that may be read.
            End::SavedText { register, .. } | End::SavedRegister { register, .. } => {
                self.numbers.iter().any(|granted| {
                    matches!(granted.end, End::Loaded { hop, bits: None } if hop.offset == register)
                        && granted.slot == place.slot
                })
            }
            End::Duration => true,
            _ => self.numbers.iter().any(is_same),
        }
    }

    fn grant_text(&self, source: &TextSource) -> bool {
        match source {
            TextSource::Comm => true,
            TextSource::PathEnd(place) if place.meaning.is_of_program() => self.grant_place(place),
            TextSource::PathEnd(place) if matches!(place.end, End::SavedText { .. }) => {
                self.grant_place(place)
            }
            TextSource::PathEnd(place) => self.texts.contains(place),
        }
    }

    fn grant_test(&self, test: &Test) -> bool {
        match test {
            Test::And(a, b) | Test::Or(a, b) => self.grant_test(a) && self.grant_test(b),
            Test::Not(of) => self.grant_test(of),
            Test::Number { left, right, .. } => {
                let right = match right {
                    Right::Constant(_) => true,
                    Right::Source(source) => self.grant_number(source),
                };
                self.grant_number(left) && right
            }
            Test::Text { source, .. } => self.grant_text(source),
            Test::Address { .. } => false,
        }
    }
}

/// Bytes that are loaded to get a place.
fn loaded_bytes(place: &PathEnd) -> u32 {
    match place.end {
        End::Loaded { bits: Some(bits), .. } => (bits.first + bits.count).div_ceil(8),
        _ => place.bytes,
    }
}

#[cfg(test)]
mod tests {
    use weigh_schema::library::STREAMS_OF_A_USER;

    use super::*;

    #[test]
    fn the_reference_has_the_whole_table() {
        let reference = include_str!("../../../docs/trace.md");
        for granted in GRANTED {
            let Granted { group, name, when, .. } = granted;
            let line =
                format!("| `{group}:{name}` | `{}` | {when} |", granted.places().join("`, `"));
            assert!(reference.contains(&line), "docs/trace.md lacks: {line}");
        }
        for limit in [
            format!("{STREAMS_OF_A_USER} streams"),
            format!("{MOST_PROBES} probes"),
            format!("{} MiB", MOST_RING_BYTES >> 20),
        ] {
            assert!(reference.contains(&limit), "docs/trace.md lacks: {limit}");
        }
    }
}
