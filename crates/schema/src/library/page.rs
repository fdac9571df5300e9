//! The layout of a program's page, and the messages on the socket.

use std::fmt::Write as _;
use std::sync::OnceLock;

use super::messages::Request;
use crate::resolved_config;
use crate::subsystem;

/// Bytes of an element of a page: a head, then elements with slots, then accounts, then numbers of each part.
pub const ELEMENT_BYTES: usize = 1536;
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
/// The first element with numbers of each part.
pub const FIRST_PARTS: usize = FIRST_ACCOUNT + ACCOUNTS;
/// Accounts of a page that can have such numbers at once.
pub const PARTS_ACCOUNTS: usize = 128;
/// Elements of a page.
pub const ELEMENTS: usize = FIRST_PARTS + PARTS_ACCOUNTS;
/// Programs that can be served at once.
pub const CLIENTS: u32 = 4096;
/// Words of a bit set of accounts.
pub const ACCOUNT_WORDS: usize = ACCOUNTS / 64;

/// Limits that a program can have at once: as many as a bit set of one word has room for, or fewer.
pub const LIMITS: usize = 32;

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
    ("passed", 1, "bit set of limits: set by the server, cleared by the program"),
    ("limited", LIMITS, "each an account's number + 1, cleared when it is passed; 0: no limit"),
    ("limit_at", LIMITS, "which number of that account, counted from its first"),
    ("limit_value", LIMITS, "what that number has to reach"),
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

/// What comes behind that: where numbers of each part of the kernel are.
pub const PARTS_ELEMENT: &str =
    "0: it has no numbers of each part; else the number of their element + 1: by the program";

/// Numbers of an account on a page, and of what is behind it.
pub fn account_on_page() -> usize {
    wanted_at() + 2
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

pub(super) fn page_text() -> String {
    let mut text = String::new();
    let constants = [
        ("ELEMENT_BYTES", ELEMENT_BYTES),
        ("SLOT_ELEMENTS", SLOT_ELEMENTS),
        ("SLOTS_PER_ELEMENT", SLOTS_PER_ELEMENT),
        ("MAX_SLOTS", SLOTS),
        ("MAX_ACCOUNTS", ACCOUNTS),
        ("ACCOUNT_WORDS", ACCOUNT_WORDS),
        ("LIMITS", LIMITS),
        ("MAX_CLIENTS", CLIENTS as usize),
        ("FIRST_SLOT_ELEMENT", 1),
        ("FIRST_ACCOUNT", FIRST_ACCOUNT),
        ("MAX_PARTS", PARTS_ACCOUNTS),
        ("FIRST_PARTS", FIRST_PARTS),
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
         /* The first is a head, then come slots, then accounts, then their numbers of each part. */\nunion element {{\n\
         \tstruct page_head head;\n\tstruct slot slots[SLOTS_PER_ELEMENT];\n\
         \tstruct {{\n\t\tstruct weigh_account account;\n\t\tWEIGH_U64 wanted; /* {} */\n\
         \t\tWEIGH_U64 parts_element; /* {} */\n\t}};\n\
         \tstruct weigh_parts parts;\n\tunsigned char bytes[ELEMENT_BYTES];\n}};\n",
        SLOT_BYTES / 8 - SLOT.len(),
        WANTED,
        PARTS_ELEMENT
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
