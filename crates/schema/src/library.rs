//! What libweigh, the kernel side and libweigh's server share, declared once: the layout of a
//! program's page, the messages on the socket, and the reasons why something is not measured.
//!
//! Derived: `page.h`, for libweigh and the BPF programs; `weigh_account.h`, and the numbers of an account in Python and
//! Rust, for users.

mod messages;
mod page;
mod python;
mod rust;

use std::fmt::Write as _;

use crate::subsystem::{self, SUBSYSTEMS};

pub use messages::{Followed, Reason, Request};
use page::page_text;
pub use page::{
    ACCOUNT_WORDS, ACCOUNTS, CLIENTS, CONFIGURED, ELEMENT_BYTES, ELEMENTS, FIRST_ACCOUNT,
    FOLLOWS_CALLS, INSIDE_VARIABLE, LIMITS, PAGE_HEAD, REPLY, REQUEST, SLOT, SLOT_BYTES,
    SLOT_ELEMENTS, SLOTS, SLOTS_PER_ELEMENT, SOCKET, SOCKET_VARIABLE, STREAMS_OF_A_USER, WANTED,
    account_on_page, layout, wanted_at,
};
pub use python::python_fields;
pub use rust::rust_account;

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
