//! Options with a choice of values, which are the settings' own.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A value, what is typed for it, and what help says of it; nothing: it is taken, and help does not list it.
pub type Choice<T> = (T, &'static str, &'static str);

/// The parser of such an option.
pub(crate) fn choice<T>(all: &'static [Choice<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync,
{
    let possible = all.iter().map(|(_, name, help)| match *help {
        "" => PossibleValue::new(*name).hide(true),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(possible).try_map(|typed| {
        let found = all.iter().find(|(_, name, _)| *name == typed);
        found.map(|(value, ..)| *value).ok_or("there is no such value")
    })
}
