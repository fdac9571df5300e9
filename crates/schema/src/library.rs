//! What libweigh, the kernel side and libweigh's server share, declared once: the layout of a
//! program's page, the messages on the socket, and the reasons why something is not measured.
//!
//! Derived: `page.h`, for libweigh and the BPF programs; `weigh_account.h`, and the numbers of an account in Python and
//! Rust, for users.

mod python;
mod rust;

use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::resolved_config;
use crate::subsystem::{self, SUBSYSTEMS};

pub use python::python_fields;
pub use rust::rust_account;

/// Bytes of an element of a page: a head, then elements with slots, then accounts.
pub const ELEMENT_BYTES: usize = 1408;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 64;
/// Elements that hold slots.
pub const SLOT_ELEMENTS: usize = 256;
/// Slots of each: a power of two, so that the verifier sees where a slot is.
pub const SLOTS_PER_ELEMENT: usize = 16;
/// Slots of a page: threads of a program that can be measured at once.
pub const SLOTS: usize = SLOT_ELEMENTS * SLOTS_PER_ELEMENT;
/// Accounts of a page: tokens of a program that can be in use at once.
pub const ACCOUNTS: usize = 1024;
/// The first element that is an account.
pub const FIRST_ACCOUNT: usize = 1 + SLOT_ELEMENTS;
/// Elements of a page.
pub const ELEMENTS: usize = FIRST_ACCOUNT + ACCOUNTS;
/// Programs that can be served at once.
pub const CLIENTS: u32 = 4096;
/// Words of a bit set of accounts.
pub const ACCOUNT_WORDS: usize = ACCOUNTS / 64;

/// Where the agent listens.
pub const SOCKET: &str = "/run/weigh/agent.sock";
/// What names another place.
pub const SOCKET_VARIABLE: &str = "WEIGH_SOCKET";
/// What names the place for the library that `weigh calls` loads into programs: a program that uses libweigh itself
/// is served at another one, for a thread can be in one server's accounts only.
pub const INSIDE_VARIABLE: &str = "WEIGH_CALLS_SOCKET";

/// What a page begins with: name, how many numbers, and what they are.
pub const PAGE_HEAD: &[(&str, usize, &str)] = &[
    ("served", 1, "1 while somebody serves the program; 0 from the server's orderly end on"),
    ("available", 1, "bit set of the parts of the kernel that can be seen"),
    ("attached", 1, "bit set of those that are seen now"),
    ("looked", 1, "each how many milliseconds it is looked for what has settled; 0: it is not"),
    ("refused", 1, "tokens that found no account"),
    ("watched", ACCOUNT_WORDS, "bit set of accounts: set by the program, cleared when settled"),
    ("settled", ACCOUNT_WORDS, "bit set of accounts: set by the server, cleared by the program"),
];

/// Where a thread of a program says what is to be accounted.
pub const SLOT: &[(&str, &str)] = &[
    ("request", "0: nothing; else the account's number + 1, and above it a running number"),
    ("wanted", "bit set of subsystems"),
    ("ticket", "of the thread that the slot belongs to"),
    ("calls", "0: an interval that the program ends itself; else calls that are left of it"),
];

/// A message of a program, in its order on the socket.
pub const REQUEST: &[(&str, &str)] = &[
    ("layout", "WEIGH_LAYOUT of who sends"),
    ("kind", "enum weigh_request_kind"),
    ("number", "of the thread or process that it is about"),
    (
        "value",
        "of WEIGH_ASK_JOIN: the slot; of WEIGH_ASK_ENTER and WEIGH_ASK_WANT: the parts; of WEIGH_ASK_COUNT: the counters",
    ),
];

/// An answer, in its order on the socket. A page or a descriptor comes with it.
pub const REPLY: &[(&str, &str)] = &[
    ("layout", "WEIGH_LAYOUT of who sends"),
    ("reason", "enum weigh_reason; 0: it was done"),
    (
        "value",
        "of WEIGH_ASK_JOIN: the ticket; of WEIGH_ASK_COUNT: the counters whose descriptors come along, as a group",
    ),
    ("flags", "of WEIGH_ASK_ENTER: WEIGH_FOLLOWS_CALLS, WEIGH_CONFIGURED"),
];

/// What a page has behind each account: with it a part that saw nothing is told from one that nobody asked for.
pub const WANTED: &str = "bit set of what its intervals were to account: by the program";

/// Numbers of an account on a page, and of what is behind it.
pub fn account_on_page() -> usize {
    wanted_at() + 1
}

/// Where [`WANTED`] is, counted from the account's first number.
pub fn wanted_at() -> usize {
    subsystem::account_length()
}

/// Streams of events that a user has at once: each may have several programs at the same place of the kernel,
/// which everybody pays for.
pub const STREAMS_OF_A_USER: usize = 4;

/// In a reply: each system call is followed, so that the end of a call is known to the kernel side.
pub const FOLLOWS_CALLS: u64 = 1;

/// In a reply: a configuration says which parts of the kernel there are; [`Request::Configured`] gives what it says.
pub const CONFIGURED: u64 = 2;

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
    /// What somebody follows who was asked for by [`Request::Follow`]: the value of that message.
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
}

/// Changes with the shared layout: a program that finds another number does not share.
pub fn layout() -> u64 {
    // Each message has it: it is found once.
    static LAYOUT: OnceLock<u64> = OnceLock::new();
    *LAYOUT.get_or_init(|| {
        let text = subsystem::c_header() + &page_text();
        // FNV-1a.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}

/// `weigh_account.h`: what users of libweigh read.
pub fn public_header() -> String {
    let accounts = subsystem::c_header();
    let mut text = accounts.trim_end().trim_end_matches("#endif").to_string();
    let _ = writeln!(
        text,
        "/* Tokens of a process that can be in use at once. */\n#define WEIGH_ACCOUNTS {ACCOUNTS}\n\n\
         /* Threads of a process that can be measured at once. */\n#define WEIGH_THREADS {SLOTS}\n\n\
         /* Why something is not measured; weigh_text() has it as text. */\nenum weigh_reason {{"
    );
    for reason in Reason::ALL {
        let _ = writeln!(
            text,
            "\t/* {} */\n\t{} = {},",
            reason.text(),
            reason.c_name(),
            *reason as u32
        );
    }
    text.push_str("};\n\n#endif\n");
    text
}

/// `page.h`: what only libweigh and the kernel side know. It needs `weigh_account.h` before it.
pub fn page_header() -> String {
    let mut text = String::from(
        "/* Derived from crates/schema/src/library.rs by `weigh generate`. */\n\
         #ifndef WEIGH_PAGE_H\n#define WEIGH_PAGE_H\n\n",
    );
    let _ = writeln!(
        text,
        "#define WEIGH_LAYOUT {:#018x}ULL\n#define WEIGH_AGENT_SOCKET \"{SOCKET}\"\n\
         #define WEIGH_AGENT_VARIABLE \"{SOCKET_VARIABLE}\"\n#define WEIGH_INSIDE_VARIABLE \"{INSIDE_VARIABLE}\"\n",
        layout()
    );
    text.push_str(&page_text());
    text.push_str("/* Texts of enum weigh_reason. */\n#define WEIGH_REASON_TEXTS \\\n");
    let texts: Vec<String> = Reason::ALL
        .iter()
        .map(|reason| format!("\t[{}] = \"{}\"", *reason as u32, reason.text()))
        .collect();
    text.push_str(&texts.join(", \\\n"));
    text.push_str("\n\n/* Names of enum weigh_subsystem. */\n#define WEIGH_PART_NAMES \\\n");
    let names: Vec<String> = SUBSYSTEMS
        .iter()
        .enumerate()
        .map(|(number, part)| format!("\t[{number}] = \"{}\"", part.name))
        .collect();
    text.push_str(&names.join(", \\\n"));
    text.push_str("\n\n#endif\n");
    text
}

fn page_text() -> String {
    let mut text = String::new();
    let constants = [
        ("ELEMENT_BYTES", ELEMENT_BYTES),
        ("SLOT_ELEMENTS", SLOT_ELEMENTS),
        ("SLOTS_PER_ELEMENT", SLOTS_PER_ELEMENT),
        ("MAX_SLOTS", SLOTS),
        ("MAX_ACCOUNTS", ACCOUNTS),
        ("ACCOUNT_WORDS", ACCOUNT_WORDS),
        ("MAX_CLIENTS", CLIENTS as usize),
        ("FIRST_SLOT_ELEMENT", 1),
        ("FIRST_ACCOUNT", FIRST_ACCOUNT),
        ("ELEMENTS", ELEMENTS),
    ];
    for (name, value) in constants {
        let _ = writeln!(text, "#define {name} {value}");
    }
    text.push_str("\n/* What a page begins with. */\nstruct page_head {\n");
    for (name, count, help) in PAGE_HEAD {
        let array = if *count > 1 { format!("[{count}]") } else { String::new() };
        let _ = writeln!(text, "\tWEIGH_U64 {name}{array}; /* {help} */");
    }
    text.push_str(
        "};\n\n/*\n * Where a thread of a program says what is to be accounted: written by the \
         program, and so it\n * may hold anything.\n */\nstruct slot {\n",
    );
    for (name, help) in SLOT {
        let _ = writeln!(text, "\tWEIGH_U64 {name}; /* {help} */");
    }
    let _ = writeln!(
        text,
        "\tWEIGH_U64 unused[{}];\n}};\n\n\
         /* The first is a head, then come slots, then accounts. */\nunion element {{\n\
         \tstruct page_head head;\n\tstruct slot slots[SLOTS_PER_ELEMENT];\n\
         \tstruct {{\n\t\tstruct weigh_account account;\n\t\tWEIGH_U64 wanted; /* {} */\n\t}};\n\
         \tunsigned char bytes[ELEMENT_BYTES];\n}};\n",
        SLOT_BYTES / 8 - SLOT.len(),
        WANTED
    );
    text.push_str("/* What a program can ask for. */\nenum weigh_request_kind {\n");
    for kind in Request::ALL {
        let _ = writeln!(text, "\t{} = {}, /* {} */", kind.c_name(), *kind as u32, kind.text());
    }
    let _ = writeln!(
        text,
        "}};\n\n#define WEIGH_FOLLOWS_CALLS {FOLLOWS_CALLS}\n#define WEIGH_CONFIGURED {CONFIGURED}\n"
    );
    for (name, fields) in [("request", REQUEST), ("reply", REPLY)] {
        let _ = writeln!(text, "struct weigh_{name} {{");
        for (field, help) in fields {
            let _ = writeln!(text, "\tWEIGH_U64 {field}; /* {help} */");
        }
        text.push_str("};\n\n");
    }
    text.push_str(&resolved_config::c_text());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_counter_is_not_counted_says_whose_lack_it_may_be_and_what_would_help() {
        let text = Reason::NoCounter.text();
        for word in ["CPU", "virtual machine", "weigh calls", "--counters"] {
            assert!(text.contains(word), "no {word}: {text}");
        }
    }

    #[test]
    fn everything_fits_into_its_element() {
        let head: usize = PAGE_HEAD.iter().map(|(_, count, _)| count * 8).sum();
        assert!(head <= ELEMENT_BYTES);
        assert!(SLOT.len() * 8 <= SLOT_BYTES);
        const { assert!(SLOTS_PER_ELEMENT * SLOT_BYTES <= ELEMENT_BYTES) };
        assert!(account_on_page() * 8 <= ELEMENT_BYTES);
        assert_eq!(ACCOUNTS % 64, 0);
    }

    #[test]
    fn what_a_page_takes_is_said_as_it_is() {
        let size = format!("{:.1} MiB", (ELEMENT_BYTES * ELEMENTS) as f64 / f64::from(1 << 20));
        let documents = [
            include_str!("../../../docs/libweigh.md"),
            include_str!("../../../packaging/weigh-agent.service"),
        ];
        let said = [format!("a page ({size})"), format!("four descriptors and {size},")];
        for (text, said) in documents.iter().zip(said) {
            assert!(text.contains(&said), "not there: {said}");
        }
    }

    #[test]
    fn reasons_are_found_by_the_numbers_that_c_has() {
        for reason in Reason::ALL {
            assert_eq!(Reason::numbered(*reason as u64), Some(*reason));
            let line = format!("{} = {},", reason.c_name(), *reason as u64);
            assert!(public_header().contains(&line), "{line}");
        }
        assert_eq!(Reason::numbered(Reason::ALL.len() as u64), None);
        assert_eq!(Request::numbered(u64::MAX), None);
    }
}
