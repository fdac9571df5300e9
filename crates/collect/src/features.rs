//! The parts of the kernel side that a job can be followed without: sockets, io_uring, opened
//! files, calls that only function probes see. What of them this kernel offers is found in its
//! BTF before anything is loaded; what does not attach all the same is given up with its reason.

use std::os::fd::AsFd as _;

use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use libbpf_rs::{Link, OpenProgramMut, ProgramMut};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus, Note};
use weigh_schema::metric_name;
use weigh_schema::source_traits::SourceTraits;
use weigh_schema::{Mechanism, Quality};

use crate::follow::JobDetail;
use crate::layout::functions::{self, FunctionsSkel, FunctionsSkelBuilder, OpenFunctionsMaps};
use crate::layout::skeleton::{JobMaps, JobProgs, JobSkel, OpenJobProgs, types};
use crate::loading;
use crate::offers::Offers;

const FUNCTION_PROBES: &str =
    "function probes: a kernel with CONFIG_FUNCTION_TRACER that lets root use them";

/// What it is for, and what it takes.
pub(crate) const NETWORK: CollectorInfo = CollectorInfo::new(
    "network",
    "bytes, connections, retransmissions of sockets",
    Some(FUNCTION_PROBES),
)
.asks(SourceTraits::of_bpf(
    "sockets of the job",
    "a program in the kernel at each send and receive of the machine",
));

/// What it is for, and what it takes.
pub(crate) const IO_URING: CollectorInfo = CollectorInfo::new(
    "io_uring",
    "I/O by io_uring requests",
    Some("a kernel with CONFIG_IO_URING and its tracepoints"),
)
.asks(SourceTraits::of_bpf(
    "job",
    "a program in the kernel at each request of io_uring of the machine",
));

/// What it is for, and what it takes.
pub(crate) const CALLS: CollectorInfo = CollectorInfo::new(
    "calls",
    "I/O by splice, tee, vmsplice and AIO, which no tracepoint sees",
    Some(FUNCTION_PROBES),
)
.asks(SourceTraits::of_bpf("job", "a program in the kernel at each of these calls of the machine"));

/// What it is for, and what it takes.
pub(crate) const FILES: CollectorInfo = CollectorInfo::new(
    "files",
    "which process opened which file, and how often",
    Some(FUNCTION_PROBES),
)
.asks(SourceTraits::of_bpf("job", "a program in the kernel at each open of the machine"));

/// One optional collector: what it lacks, and for which metrics that matters.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    name: &'static str,
    missing: Vec<String>,
    working: usize,
    /// Why it is left out, if nobody wants it.
    disabled: Option<String>,
    metrics: &'static [&'static str],
}

impl Part {
    pub(crate) fn new(name: &'static str, metrics: &'static [&'static str]) -> Part {
        Part { name, missing: Vec::new(), working: 0, disabled: None, metrics }
    }

    /// One that is part of what level 3 sees, and can be turned off.
    fn of_calls(
        name: &'static str,
        metrics: &'static [&'static str],
        detail: JobDetail,
        is_on: bool,
    ) -> Part {
        let disabled = match (detail.calls, is_on) {
            (false, _) => Some("left out at this level; --level 3 follows it".to_string()),
            (_, false) => Some(format!("turned off by --without {name}")),
            _ => None,
        };
        Part { disabled, ..Part::new(name, metrics) }
    }

    /// Has a program loaded if the kernel offers what it is attached to.
    pub(crate) fn choose(&mut self, program: &mut OpenProgramMut<'_>, offered: bool, what: &str) {
        if self.is_disabled() {
            return;
        }
        if offered {
            program.set_autoload(true);
        } else {
            self.missing.push(format!("this kernel has no {what}"));
        }
    }

    /// Attaches a program that was loaded.
    pub(crate) fn attach(&mut self, program: &ProgramMut<'_>, links: &mut Vec<Link>) {
        if !program.autoload() {
            return;
        }
        match program.attach() {
            Ok(link) => {
                links.push(link);
                self.working += 1;
            }
            Err(error) => {
                self.missing.push(format!("{}: {error}", program.name().to_string_lossy()));
            }
        }
    }

    pub(crate) fn give_up(&mut self, reason: String) {
        self.working = 0;
        self.missing = vec![reason];
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled.is_some()
    }

    pub(crate) fn is_working(&self) -> bool {
        self.working > 0 && self.missing.is_empty()
    }

    fn reason(&self) -> Option<String> {
        if self.disabled.is_some() {
            return self.disabled.clone();
        }
        (!self.missing.is_empty()).then(|| self.missing.join("; "))
    }

    pub(crate) fn status(&self, lost: u64) -> CollectorStatus {
        let status = match (self.is_disabled(), self.working, self.missing.is_empty()) {
            (true, ..) => CollectorState::Disabled,
            (_, 0, _) => CollectorState::Unavailable,
            (_, _, true) => CollectorState::Active,
            (_, _, false) => CollectorState::Degraded,
        };
        CollectorStatus {
            lost,
            ..CollectorStatus::new(self.name, Mechanism::Bpf, status, self.reason())
        }
    }

    /// What it means for its metrics that it does not work: `quality`, and what is left out.
    pub(crate) fn notes(&self, quality: Quality, without: &str) -> Vec<Note> {
        let Some(reason) = self.reason() else { return Vec::new() };
        let note = |metric: &&str| Note::new(metric, quality, format!("{without}{reason}"));
        self.metrics.iter().map(note).collect()
    }
}

const NET: &[&str] = &[
    metric_name::net_sent_bytes_total,
    metric_name::net_received_bytes_total,
    metric_name::net_connections_total,
    metric_name::net_retransmits_total,
];
const IO: &[&str] = &[
    metric_name::io_read_bytes_total,
    metric_name::io_written_bytes_total,
    metric_name::io_read_calls_total,
    metric_name::io_write_calls_total,
];
const OPENED: &[&str] = &[metric_name::files_opened_total];

/// All optional parts.
pub(crate) struct Parts {
    pub(crate) network: Part,
    uring: Part,
    pub(crate) files: Part,
    /// splice, tee, vmsplice, AIO.
    calls: Part,
    /// Whether sockets are followed by function probes, for want of tracepoints.
    sockets_by_function: bool,
}

impl Parts {
    pub(crate) fn new(detail: JobDetail) -> Parts {
        Parts {
            network: Part::of_calls(NETWORK.name, NET, detail, detail.network),
            uring: Part::new(IO_URING.name, IO),
            files: Part::of_calls(FILES.name, OPENED, detail, detail.files),
            calls: Part::new(CALLS.name, IO),
            sockets_by_function: false,
        }
    }

    /// Chooses the programs to load.
    pub(crate) fn choose(&mut self, programs: &mut OpenJobProgs<'_>, offers: &Offers<'_>) {
        let lengths = offers.tracepoint("sock_send_length");
        self.sockets_by_function = !lengths && !self.network.is_disabled();
        if lengths {
            let what = "tracepoint sock_send_length";
            self.network.choose(&mut programs.on_sock_send, true, what);
            self.network.choose(&mut programs.on_sock_receive, true, what);
        }
        for (program, name) in [
            (&mut programs.on_sock_state, "inet_sock_set_state"),
            (&mut programs.on_retransmit, "tcp_retransmit_skb"),
            (&mut programs.on_sock_destroy, "tcp_destroy_sock"),
        ] {
            self.network.choose(program, offers.tracepoint(name), &format!("tracepoint {name}"));
        }
        match offers.tracepoint_arguments("io_uring_complete") {
            Some(3) => self.uring.choose(&mut programs.uring__complete, true, ""),
            Some(_) => self.uring.choose(&mut programs.uring__complete_pieces, true, ""),
            None => self.uring.give_up("this kernel has no tracepoint io_uring_complete".into()),
        }
        if offers.tracepoint("io_uring_submit_req") {
            self.uring.choose(&mut programs.uring__submit, true, "");
        } else {
            let name = "io_uring_submit_sqe";
            let offered = offers.tracepoint(name);
            let what = format!("tracepoint {name}");
            self.uring.choose(&mut programs.uring__submit_entry, offered, &what);
        }
    }

    /// Attaches what was loaded.
    pub(crate) fn attach(&mut self, programs: &JobProgs<'_>, links: &mut Vec<Link>) {
        for program in [
            &programs.on_sock_send,
            &programs.on_sock_receive,
            &programs.on_sock_state,
            &programs.on_retransmit,
            &programs.on_sock_destroy,
        ] {
            self.network.attach(program, links);
        }
        for program in [
            &programs.uring__complete,
            &programs.uring__complete_pieces,
            &programs.uring__submit,
            &programs.uring__submit_entry,
        ] {
            self.uring.attach(program, links);
        }
    }

    /// Loads and attaches the function probes, if this kernel lets functions be probed.
    pub(crate) fn open_functions(
        &mut self,
        main: &JobSkel<'static>,
        offers: &Offers<'_>,
        links: &mut Vec<Link>,
    ) -> Option<FunctionsSkel<'static>> {
        let outcome = match offers.function_probes() {
            Ok(()) => self
                .load_functions(main, offers, links)
                .map_err(|error| format!("function probes do not load: {error}")),
            Err(reason) => Err(reason),
        };
        outcome.map_err(|reason| self.without_functions(&reason)).ok()
    }

    fn without_functions(&mut self, reason: &str) {
        self.calls.give_up(reason.to_string());
        self.files.give_up(reason.to_string());
        if self.sockets_by_function {
            self.network.give_up(format!(
                "this kernel has no tracepoint sock_send_length (since 6.3), and {reason}"
            ));
        }
    }

    fn load_functions(
        &mut self,
        main: &JobSkel<'static>,
        offers: &Offers<'_>,
        links: &mut Vec<Link>,
    ) -> Result<FunctionsSkel<'static>, libbpf_rs::Error> {
        let builder = FunctionsSkelBuilder::default();
        let (_types, mut open) = loading::open(builder, &functions::DATA, offers)?;
        if let (Some(to), Some(from)) =
            (open.maps.rodata_data.as_deref_mut(), main.maps.rodata_data)
        {
            to.page_bytes = from.page_bytes;
            to.cpus = from.cpus;
            to.wake_mark = from.wake_mark;
        }
        share_maps(&mut open.maps, &main.maps)?;
        let by_function = self.sockets_by_function;
        for mut program in open.open_object_mut().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let Some((_, function)) = section.rsplit_once('/') else { continue };
            let socket = is_socket_function(function);
            let part = self.part_of(function);
            if !socket || by_function {
                // A kernel without one of these protocols, or past sendpage, lacks nothing.
                let offered = offers.function(function);
                if offered || !socket {
                    part.choose(&mut program, offered, &format!("function {function}"));
                }
            }
        }
        let skeleton = loading::load(open, offers)?;
        for program in skeleton.object().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let function = section.rsplit_once('/').map_or("", |(_, f)| f);
            self.part_of(function).attach(&program, links);
        }
        Ok(skeleton)
    }

    fn part_of(&mut self, function: &str) -> &mut Part {
        match function {
            "security_file_open" => &mut self.files,
            socket if is_socket_function(socket) => &mut self.network,
            _ => &mut self.calls,
        }
    }

    /// Where functions cannot be probed: `calls` is how many there were, if that is known.
    fn uncounted(&self, calls: Option<u64>) -> Vec<Note> {
        let reason = match (self.calls.reason(), calls) {
            (None, _) | (_, Some(0)) => return Vec::new(),
            (_, Some(calls)) => Note::uncounted_calls(calls),
            (Some(why), None) => Note::uncounted(&why),
        };
        let note = |metric: &&str| Note {
            metric: (*metric).to_string(),
            quality: Quality::Estimated,
            source: None,
            reason: reason.clone(),
        };
        IO.iter().map(note).collect()
    }

    pub(crate) fn statuses(&self, lost_files: u64, lost_calls: u64) -> Vec<CollectorStatus> {
        let mut statuses =
            vec![self.network.status(lost_calls), self.uring.status(0), self.calls.status(0)];
        // Where this does not work, another mechanism takes its place and speaks for both.
        if self.files.is_working() {
            statuses.push(self.files.status(lost_files));
        }
        statuses
    }

    /// `sees_calls`: each call of the job is looked at as it ends.
    pub(crate) fn notes(&self, job: &types::job, sees_calls: bool) -> Vec<Note> {
        let (lost_calls, hidden_requests) = (job.lost_calls, job.hidden_requests);
        let mut notes = self.network.notes(Quality::Unavailable, "");
        if hidden_requests > 0 {
            notes.extend(IO.iter().map(|metric| Note::new(metric, Quality::Estimated, format!(
                    "without {hidden_requests} requests of io_uring of which no result tells what they moved \
                     (IOSQE_CQE_SKIP_SUCCESS)"
                ))));
        }
        if lost_calls > 0 {
            let sums = [metric_name::net_sent_bytes_total, metric_name::net_received_bytes_total];
            notes.extend(sums.iter().chain(IO).map(|metric| Note::new(metric, Quality::Estimated, format!(
                    "without {lost_calls} socket calls that were under way while somebody attached \
                     to these functions or detached from them"
                ))));
        }
        notes.extend(self.files.notes(Quality::Unavailable, ""));
        if job.unreceived_bytes > 0 {
            notes.push(Note::new(
                metric_name::net_received_bytes_total,
                Quality::Estimated,
                format!(
                    "without {} bytes that were taken from its TCP sockets by splice(2) or TCP_ZEROCOPY_RECEIVE, or \
                     outside of the job",
                    job.unreceived_bytes
                ),
            ));
        }
        if !self.network.is_working() {
            let reason = "without send and recv calls on sockets, which were not followed";
            notes.extend(IO.iter().map(|metric| Note::new(metric, Quality::Estimated, reason)));
        }
        notes.extend(self.uring.notes(Quality::Estimated, "without io_uring: "));
        notes.extend(self.uncounted(sees_calls.then_some(job.uncounted_calls)));
        notes
    }
}

fn is_socket_function(function: &str) -> bool {
    ["_sendmsg", "_recvmsg", "_sendpage"].iter().any(|end| function.ends_with(end))
}

fn share_maps(to: &mut OpenFunctionsMaps<'_>, from: &JobMaps<'_>) -> Result<(), libbpf_rs::Error> {
    to.jobs.reuse_fd(from.jobs.as_fd())?;
    to.controls.reuse_fd(from.controls.as_fd())?;
    to.members.reuse_fd(from.members.as_fd())?;
    to.processes.reuse_fd(from.processes.as_fd())?;
    to.memories.reuse_fd(from.memories.as_fd())?;
    to.events.reuse_fd(from.events.as_fd())?;
    to.scratches.reuse_fd(from.scratches.as_fd())?;
    to.owners.reuse_fd(from.owners.as_fd())
}
