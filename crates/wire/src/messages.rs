//! The list of requests and answers. A new request is a line here and an arm in its handler, which does not compile
//! without it.
//!
//! libweigh's messages are declared in `weigh_schema::library`, for its header is derived from there ([`crate::library`]).

use std::io;

use serde::{Deserialize, Serialize};
use weigh_schema::call::WrittenFound;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd};
use weigh_schema::io::{FileId, Tally};
use weigh_schema::library::Followed;
use weigh_schema::limit::OnLimit;
use weigh_schema::stream::{
    AgentStatus, CollectorSwitch, PageViewer, PolicyChange, PushedEvent, PushedSample, StreamRead,
    StreamRecords,
};

use crate::frame::{Message, Payload, Rule};

/// Bytes of a request with a name and some numbers.
const TINY: usize = 1 << 10;
/// Bytes of values that are published at once.
const PUSH: usize = 1 << 15;
/// Bytes of a small message.
const SMALL: usize = 1 << 16;
/// Bytes of a piece of records.
const RECORDS: usize = 1 << 24;
/// Bytes of an answer with all processes that the kernel side keeps.
const PROCESSES: usize = 1 << 27;

macro_rules! messages {
    ($( $(#[$doc:meta])* $type:ident = $first:literal {
        $( $(#[doc = $help:literal])+ $name:ident $(($payload:ty))?, $bytes:expr, $descriptors:literal; )+
    } )+) => {
        /// All messages, as they are declared.
        pub(crate) const LIST: &str =
            stringify!($( $type = $first { $( $name $(($payload))?, $bytes, $descriptors; )+ } )+);

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub enum $type { $( $(#[doc = $help])+ $name $(($payload))?, )+ }

            const _: () = {
                #[repr(u64)]
                enum Number { $( $name, )+ }

                impl Message for $type {
                    fn kind(&self) -> u64 {
                        $first + match self { $( Self::$name { .. } => Number::$name as u64, )+ }
                    }

                    fn rule(kind: u64) -> Option<Rule> {
                        let rules = [$( Rule { bytes: $bytes, descriptors: $descriptors }, )+];
                        rules.get(usize::try_from(kind.checked_sub($first)?).ok()?).copied()
                    }

                    fn encode_payload(&self, to: &mut Vec<u8>) -> io::Result<()> {
                        match self {
                            $( Self::$name $( (messages!(@ payload $payload)) )? => {
                                $( <$payload as Payload>::write(messages!(@ payload $payload), to)?; )?
                            } )+
                        }
                        let _ = to;
                        Ok(())
                    }

                    fn decode_payload(kind: u64, payload: &[u8]) -> Option<Self> {
                        $( if kind == $first + Number::$name as u64 {
                            return messages!(@decode $name payload $($payload)?);
                        } )+
                        None
                    }
                }
            };
        )+
    };
    (@ $name:ident $payload:ty) => { $name };
    (@decode $name:ident $bytes:ident) => { $bytes.is_empty().then_some(Self::$name) };
    (@decode $name:ident $bytes:ident $payload:ty) => {
        Some(Self::$name(<$payload as Payload>::read($bytes)?))
    };
}

messages! {
    /// Asked of one who follows a job.
    JobRequest = 0x100 {
        /// To get ready; the first request, and the only one of its kind.
        Open(JobParts), SMALL, 0;
        /// To follow the process that the descriptor stands for; once.
        Arm, 0, 1;
        /// Events since the last time.
        Events, 0, 0;
        /// The job, brought up to date.
        Read, 0, 0;
        /// The job as last known.
        Glance, 0, 0;
        /// The processes that are alive.
        Living, 0, 0;
        /// The processes that are kept.
        Processes, 0, 0;
        /// To look after limits.
        SetLimits(Limits), SMALL, 0;
        /// What a look at the pages has found.
        SetUnseen(UnseenMemory), SMALL, 0;
        /// To stop no process any more.
        Release, 0, 0;
        /// To kill a process that goes on growing.
        SetEnding, 0, 0;
        /// To kill a process that forks.
        SetKilling, 0, 0;
        /// The state of the collectors.
        Statuses, 0, 0;
        /// Notes on values.
        Notes, 0, 0;
        /// Whether opens are counted.
        CountsOpens, 0, 0;
        /// How often a file was opened.
        TakeOpens(FileKey), SMALL, 0;
    }

    /// Asked of one who follows what a job reads and writes.
    FileRequest = 0x200 {
        /// To get ready; the first request, and the only one of its kind.
        Open(FileParts), SMALL, 0;
        /// To follow the command that the descriptor stands for; once.
        Arm, 0, 1;
        /// To follow the process that the descriptor stands for, which runs already; once.
        Join, 0, 1;
        /// Whether the process that the descriptor stands for is one of the job.
        IsMember, 0, 1;
        /// Records since the last time.
        Records, 0, 0;
        /// What is kept of files that are open.
        Uses, 0, 0;
        /// What devices did with files.
        Devices, 0, 0;
        /// The processes that live.
        Processes, 0, 0;
        /// AIO requests that no call has handed over.
        Requests, 0, 0;
        /// What found no room.
        Rest, 0, 0;
        /// To report the names of these files again.
        ForgetNames(Vec<FileId>), SMALL, 0;
        /// To follow no longer.
        Detach, 0, 0;
    }

    /// Asked of one who follows what a job writes to devices.
    WriteRequest = 0x300 {
        /// To get ready; the first request, and the only one of its kind.
        Open, 0, 0;
        /// To follow the command that the descriptor stands for; once.
        Arm, 0, 1;
        /// To follow no longer, and to report what was found.
        Found, 0, 0;
    }

    /// Asked of the agent itself, in one datagram. Refusals are libweigh's answers, for a client may be turned away before
    /// it has asked.
    AgentRequest = 0x400 {
        /// One who follows something: a stream to it comes with the answer.
        Follow(Followed), 64, 0;
        /// The agent's streams of records: a stream to where they are comes with the answer.
        Watch, 0, 0;
    }

    /// Asked of the agent's streams of records.
    StreamRequest = 0x500 {
        /// How the agent and its streams stand.
        Status, 0, 0;
        /// Records of a stream.
        Read(StreamRead), TINY, 0;
        /// To change the policy of a stream; of root, or the agent's own user.
        SetPolicy(PolicyChange), TINY, 0;
        /// To read the node so often, in milliseconds; of the same.
        SetInterval(u64), TINY, 0;
        /// To read a collector of the node, or not; of the same.
        SetCollector(CollectorSwitch), TINY, 0;
        /// To publish values.
        Push(Vec<PushedSample>), PUSH, 0;
        /// The address of the page, with the token of who has connected.
        PageUrl, 0, 0;
        /// To show this connection from now on what the holder of the token may see, and no more.
        Login(String), TINY, 0;
        /// To publish an event.
        PushEvent(PushedEvent), SMALL, 0;
    }

    /// What any of them is answered.
    Answer = 0x8000 {
        /// It was done.
        Done, 0, 0;
        /// It was not, or cannot be: why.
        Refused(String), SMALL, 0;
        /// One who follows a job is ready; the descriptor wakes.
        JobOpened, 0, 1;
        /// One who follows files is ready; the descriptor wakes.
        FilesOpened(FilesOpened), SMALL, 1;
        /// The job, and with a fresh reading some of the living.
        Job(Box<JobReport>), PROCESSES, 0;
        /// Events, and whether there are more.
        Events(EventBatch), PROCESSES, 0;
        /// Processes.
        Processes(Vec<ProcessEnd>), PROCESSES, 0;
        /// The limits that are looked after.
        Limits(Vec<String>), SMALL, 0;
        /// The state of the collectors.
        Statuses(Vec<CollectorStatus>), PROCESSES, 0;
        /// Notes on values.
        Notes(Vec<Note>), PROCESSES, 0;
        /// How often a file was opened.
        Opens(Option<u64>), SMALL, 0;
        /// Yes or no.
        Is(bool), SMALL, 0;
        /// How much was seen until now; what it was comes next, as [`Answer::Records`].
        Tally(Tally), SMALL, 0;
        /// A piece of records; in a list an empty one is the last.
        Records(Records), RECORDS, 0;
        /// What was written to devices.
        Found(WrittenFound), SMALL, 0;
        /// How the agent and its streams stand.
        Status(Box<AgentStatus>), PROCESSES, 0;
        /// Records of a stream.
        Stream(Box<StreamRecords>), RECORDS, 0;
        /// Where the page is.
        PageUrl(String), SMALL, 0;
        /// Whose token it is.
        Viewer(PageViewer), SMALL, 0;
    }
}

/// Which of its optional parts are measured of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "their names say it")]
pub struct JobParts {
    pub calls: bool,
    pub network: bool,
    pub files: bool,
}

/// What is reported of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileParts {
    /// Layout of the records.
    pub layout: u64,
    /// Each call, not sums.
    pub each: bool,
    /// By thread, not by process.
    pub threads: bool,
}

/// Limits to look after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Metric, limit, mark.
    pub limits: Vec<(String, f64, f64)>,
    /// What is done to a process that crosses one: it is stopped (`stop`, `kill`), and killed if it goes on growing
    /// (`kill`).
    pub on_limit: OnLimit,
}

/// Bytes of memory that a look at the pages has found, and how many processes had departed by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see above")]
pub struct UnseenMemory {
    pub bytes: u64,
    pub departures: u64,
}

/// One who follows files has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesOpened {
    /// When, by the agent's monotonic clock.
    pub began_ns: u64,
    /// How long ago that is.
    pub elapsed_ns: u64,
    /// What this kernel lacks.
    pub missing: Vec<String>,
}

/// The job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as weigh_collect's JobReader and Members have them")]
pub struct JobReport {
    pub reading: JobReading,
    pub unsettled: u64,
    pub ended_ns: Option<u64>,
    pub departures: u64,
    pub living: Vec<ProcessEnd>,
}

/// Events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventBatch {
    /// In their order.
    pub events: Vec<Event>,
    /// Whether there are more.
    pub has_more: bool,
}

/// Records as the kernel side wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(pub Vec<u8>);

impl Payload for Records {
    fn write(&self, to: &mut Vec<u8>) -> io::Result<()> {
        to.extend_from_slice(&self.0);
        Ok(())
    }

    fn read(bytes: &[u8]) -> Option<Records> {
        Some(Records(bytes.to_vec()))
    }
}
