//! Who is followed, where, and since when: what a recording says of it.

use std::time::{SystemTime, UNIX_EPOCH};

use weigh_account::shell_words;
use weigh_collect::clock::Moment;
use weigh_collect::host;
use weigh_schema::trace::Origin;

use super::settings::TraceSettings;

/// The longest command that is told, in characters.
const COMMAND_LENGTH: usize = 4096;

/// What is known before it begins.
pub fn of(settings: &TraceSettings) -> Origin {
    let words: Vec<String> =
        settings.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Origin {
        command: shell_words(&words).chars().take(COMMAND_LENGTH).collect(),
        command_base64: weigh_schema::base64::of_words_ended(&settings.command)
            .filter(|bytes| bytes.len() <= COMMAND_LENGTH),
        pid: settings.pid,
        // Nothing of what is followed hangs on it.
        host: host::host().ok(),
        epoch_ns: epoch_ns(),
        began_ns: Moment::now().ns(),
    }
}

/// The clock of the day at the moment when the records' clock shows 0.
fn epoch_ns() -> i64 {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    i64::try_from(day).unwrap_or(i64::MAX).saturating_sub_unsigned(Moment::now().ns())
}
