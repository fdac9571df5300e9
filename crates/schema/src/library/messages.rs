//! What programs ask for, and the reasons why something is not measured, by their numbers.

use serde::{Deserialize, Serialize};

macro_rules! numbered {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $( $(#[doc = $help:literal])+ $name:ident = $c:literal, $text:literal; )+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $( $(#[doc = $help])+ $name, )+ }

        impl $type {
            /// All of them, by their numbers.
            pub const ALL: &'static [$type] = &[$( $type::$name, )+];

            /// The one of that number.
            pub fn numbered(number: u64) -> Option<$type> {
                $type::ALL.get(usize::try_from(number).ok()?).copied()
            }

            /// Its name in C.
            pub fn c_name(self) -> &'static str {
                match self { $( $type::$name => concat!($prefix, $c), )+ }
            }

            /// What it means.
            pub fn text(self) -> &'static str {
                match self { $( $type::$name => $text, )+ }
            }
        }
    };
}

numbered! {
    /// What a program can ask for.
    Request, "WEIGH_ASK_",
    /// A page of its own.
    Enter = "ENTER", "a page of its own";
    /// To account for one of its threads.
    Join = "JOIN", "to account for a thread, by a slot";
    /// To read another program's page.
    Peer = "PEER", "to read another program's page";
    /// To read it no more.
    Leave = "LEAVE", "to read another program's page no more";
    /// To be told when a watched account has settled.
    Watch = "WATCH", "to be told when a watched account has settled";
    /// Somebody who follows a job: `weigh run` asks for it.
    Follow = "FOLLOW", "a stream to somebody who follows a job in the kernel";
    /// These parts of the kernel, and no others any more.
    Want = "WANT", "these parts of the kernel, and no others any more";
    /// Counters of the CPU, of one of its threads.
    Count = "COUNT", "counters of the CPU, of a thread";
    /// What a configuration has made of the parts of the kernel.
    Configured = "CONFIGURED", "struct weigh_configured, in a file that nobody can write";
}

numbered! {
    /// What somebody follows who was asked for by weigh.
    #[derive(Serialize, Deserialize)]
    Followed, "WEIGH_FOLLOW_",
    /// A job's processes, and what they use.
    Job = "JOB", "a job's processes, and what they use";
    /// What a job reads and writes.
    Files = "FILES", "what a job reads and writes, by file";
    /// Events of the user's own threads, by probes that the agent attaches.
    Events = "EVENTS", "events of the user's own threads";
    /// What a job has written to devices.
    Writes = "WRITES", "what a job has written to devices";
}

numbered! {
    /// Why something is not measured.
    Reason, "WEIGH_",
    /// It is measured.
    Measured = "MEASURED", "it is measured";
    /// Nobody serves.
    NoServer = "NO_SERVER", "no agent of weigh answers";
    /// Nobody serves any more.
    Gone = "GONE", "the agent of weigh, or the stream that was read, has ended, or has dropped this program";
    /// Another layout.
    OtherVersion = "OTHER_VERSION", "the agent and libweigh are of different versions of weigh";
    /// Rights are missing.
    NotPermitted = "NOT_PERMITTED", "the process belongs to another user";
    /// Limits of the server.
    TooMany = "TOO_MANY", "as many programs are measured, or have just come, as the agent allows a user, or all of them";
    /// The process is not measured.
    NoProcess = "NO_PROCESS", "no such process is measured";
    /// The thread cannot be found.
    NoThread = "NO_THREAD", "the agent cannot see this thread: it is in another PID namespace";
    /// Threads of the program.
    NoSlot = "NO_SLOT", "as many threads of this program are measured as can be";
    /// Tokens of the program.
    NoAccount = "NO_ACCOUNT", "all accounts are taken: weigh_release() gives them back";
    /// An old handle.
    Forked = "FORKED", "the handle is of the process that this one was forked from";
    /// An old handle.
    Closed = "CLOSED", "the handle is closed";
    /// Two at once.
    Busy = "BUSY", "an interval of this thread is open already";
    /// Nothing to end.
    NotOpen = "NOT_OPEN", "no interval of this thread is open";
    /// An unknown token.
    NoToken = "NO_TOKEN", "nothing was accounted to this token";
    /// Memory is missing.
    NoMemory = "NO_MEMORY", "there is no memory for the accounts";
    /// A message that is none.
    NotUnderstood = "NOT_UNDERSTOOD", "the agent does not understand the request";
    /// The kernel refused.
    Kernel = "KERNEL_REFUSES", "the kernel refuses what the agent needs for it";
    /// The server has not got that part.
    NotSeen = "NOT_SEEN", "the weigh that measures does not see this part: it was started without it, or the kernel does not tell of it";
    /// The program has not asked for that part.
    NotWanted = "NOT_WANTED", "the program has not asked for this part, or has said that it does not want it";
    /// Nobody has the rights.
    NoRights = "NO_RIGHTS", "no agent of weigh answers, and the weigh that has started the program may not measure";
    /// There is none.
    NoCounter = "NO_COUNTER", "it is not counted: the CPU, or the virtual machine, has no such counter, or the weigh calls that measures was started without --counters";
    /// A stream that is not there.
    NoStream = "NO_STREAM", "no `weigh trace` listens there";
    /// A field that is none.
    NoField = "NO_FIELD", "the event has no field of that name";
    /// The stream says why not.
    Refused = "REFUSED", "the stream refuses what was asked for: its answer says why";
    /// A buffer that is none.
    NoBuffer = "NO_BUFFER", "the stream has no buffer of that name that can be read";
    /// Limits of the reader.
    TooManyPeers = "TOO_MANY_PEERS", "this program reads as many others' accounts as libweigh has room for: weigh_peer_close() gives one back";
    /// Nobody measured then; somebody may now.
    NotThen = "NOT_THEN", "nobody measured it when it was wanted";
    /// The configuration of the server.
    Removed = "REMOVED", "the configuration of the weigh that measures leaves this part out: weigh_why_text() names it";
    /// Another server, with other parts.
    OtherParts = "OTHER_PARTS", "the agent that measures now has another configuration than the one that this program found first: its parts are not those that the program knows";
    /// Limits of the program.
    TooManyLimits = "TOO_MANY_LIMITS", "this program has as many limits as libweigh has room for: weigh_unlimit() gives one back";
    /// A number that an account has not.
    NoNumber = "NO_NUMBER", "an account has no such number: expected WEIGH_NUMBER(name), and a value above 0";
}
