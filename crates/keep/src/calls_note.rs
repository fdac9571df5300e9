//! What is known of all calls of a file together, as its metadata has it.

/// Calls that were not told one by one, and so have no row.
pub(crate) const UNTOLD: &str = "weigh.untold";
/// Calls, or what they left behind, for which the kernel side had no room.
pub(crate) const LOST: &str = "weigh.lost";
/// Bits of what came later of calls that were not told.
pub(crate) const UNTOLD_LATER: &str = "weigh.untold_later";
/// Calls of which what came later stands with another one.
pub(crate) const MERGED_LATER: &str = "weigh.merged_later";
/// Calls of which what came later is not known, for their bits were not told.
pub(crate) const UNKNOWN_LATER: &str = "weigh.unknown_later";
/// What was followed.
pub(crate) const COMMAND: &str = "weigh.command";
/// Its bytes, where they are no UTF-8.
pub(crate) const COMMAND_BASE64: &str = "weigh.command_base64";
/// The numbers among these, and what readers of reports know them by.
pub(crate) const NUMBERS: [(&str, &str); 5] = [
    (UNTOLD, "untold_total"),
    (LOST, "lost_total"),
    (UNTOLD_LATER, "untold_later_total"),
    (MERGED_LATER, "merged_later_total"),
    (UNKNOWN_LATER, "unknown_later_total"),
];

/// What is known of all calls together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsNote {
    /// What was followed, in words.
    pub command: String,
    /// Its words in Base64, each ended by a NUL byte, where they are no UTF-8.
    pub command_base64: Option<String>,
    /// Calls that have no row, for they came too fast.
    pub untold: u64,
    /// Calls, or what they left behind, for which the kernel side had no room.
    pub lost: u64,
    /// Bits of what came later of calls that are in no row, for they came too fast.
    pub untold_later: u64,
    /// Calls of which what came later stands with another of their kind, for there was no room for each.
    pub merged_later: u64,
    /// Calls of which what came later is not known, for bits of it came too fast; found out when the file
    /// is written.
    pub unknown_later: u64,
}

/// What is said of the file as a whole.
pub(crate) fn notes(note: &CallsNote) -> Vec<(String, String)> {
    let numbers = [
        (UNTOLD, note.untold),
        (LOST, note.lost),
        (UNTOLD_LATER, note.untold_later),
        (MERGED_LATER, note.merged_later),
        (UNKNOWN_LATER, note.unknown_later),
    ];
    let numbers = numbers.map(|(key, number)| (key.to_string(), number.to_string()));
    let texts = [(COMMAND, Some(&note.command)), (COMMAND_BASE64, note.command_base64.as_ref())];
    let texts = texts.into_iter().filter_map(|(key, text)| Some((key.to_string(), text?.clone())));
    texts.chain(numbers).collect()
}
