//! What to type instead: a wrong command line, told in one line.
//!
//! Reads what clap refuses, and the arguments; emits what is wrong and what would be right. Understands `weigh help
//! [VERB]`.

use std::error::Error as _;
use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseIntError};

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use weigh_schema::printable::ShellWords;
use weigh_schema::{metric_of_word, nearest};

use crate::verb::Arguments;

/// The longest command that is said again.
const LONGEST: usize = 300;
/// Words that other programs have for what a verb of weigh's does.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("exec", "weigh run -- COMMAND"),
    ("history", "weigh serve"),
    ("html", "weigh report RECORDING"),
    ("json", "weigh show --json RECORDING"),
    ("list", "weigh trace list 'net:*'"),
    ("measure", "weigh run -- COMMAND"),
    ("mount", "weigh io mount SOURCE MOUNTPOINT"),
    ("profile", "weigh run -- COMMAND"),
    ("record", "weigh run -o DIR -- COMMAND"),
    ("start", "weigh run -- COMMAND"),
    ("stat", "weigh run -- COMMAND"),
    ("syscalls", "weigh calls -- COMMAND"),
];

/// `weigh help VERB` as `weigh VERB --help`; other arguments as they are.
pub fn help_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_help = arguments.get(1).is_some_and(|word| word == "help");
    if is_help {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// What was wrong, and what would be right, in one line. `is_program` says whether a word is what a shell would execute.
pub fn refusal_text(
    error: &Error,
    arguments: &[OsString],
    is_program: impl Fn(&str) -> bool,
) -> String {
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let found = match error.kind() {
        ErrorKind::InvalidSubcommand => wrong_verb(error, &words, is_program),
        ErrorKind::UnknownArgument => wrong_option(error, &words),
        ErrorKind::MissingRequiredArgument => missing(error, &words),
        ErrorKind::InvalidValue => wrong_value(error),
        ErrorKind::ValueValidation => refused_value(error),
        _ => None,
    };
    found.unwrap_or_else(|| folded(error, &words))
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(all) => Some(all.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The nearest of what clap suggests, which it names last.
fn nearest_of(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(all) => all.last().cloned(),
        _ => None,
    }
}

/// The verb with those below it, as far as the words name any: `weigh trace ctl`.
fn verb_of(words: &[String]) -> String {
    let mut verb = "weigh".to_string();
    let mut command = Arguments::command();
    while let Some(below) =
        words.get(depth_of(&verb)).and_then(|word| command.find_subcommand(word).cloned())
    {
        verb = format!("{verb} {}", below.get_name());
        command = below;
    }
    verb
}

/// How many words it has behind `weigh`.
fn depth_of(verb: &str) -> usize {
    verb.split(' ').count() - 1
}

/// What is below a verb.
fn below(verb: &[String]) -> Vec<String> {
    let found = command_of(verb);
    found
        .get_subcommands()
        .map(|below| format!("`{} {}`", verb_of(verb), below.get_name()))
        .collect()
}

/// The declaration of a verb.
fn command_of(words: &[String]) -> clap::Command {
    let mut command = Arguments::command();
    for word in words {
        let Some(below) = command.find_subcommand(word).cloned() else { break };
        command = below;
    }
    command
}

fn wrong_verb(
    error: &Error,
    words: &[String],
    is_program: impl Fn(&str) -> bool,
) -> Option<String> {
    let wrong = context(error, ContextKind::InvalidSubcommand)?;
    let at = words.iter().position(|word| *word == wrong)?;
    let verb = verb_of(&words[..at]);
    let near = nearest_of(error, ContextKind::SuggestedSubcommand);
    let near = near.or_else(|| nearest_verb(&wrong, &words[..at]));
    let has_help = words.last().is_some_and(|word| word == "--help");
    if at > 0 {
        let near = near.map_or(String::new(), |near| format!("did you mean `{verb} {near}`? "));
        return Some(match verb.as_str() {
            "weigh trace" => format!(
                "'{wrong}' is nothing that `weigh trace` does; {near}an event is written `-e {wrong}`, and the command \
                 stands behind `--`"
            ),
            _ => format!(
                "'{wrong}' is nothing that `{verb}` does; {near}there are {}",
                below(&words[..at]).join(", ")
            ),
        });
    }
    if wrong.contains(':') && !is_program(&wrong) {
        return Some(format!(
            "'{wrong}' is no verb of weigh; did you mean `weigh trace -e {wrong} -- COMMAND`?"
        ));
    }
    let run = Some(ShellWords(&words[at..]).to_string()).filter(|run| run.len() <= LONGEST);
    let run = run.unwrap_or_else(|| "COMMAND".to_string());
    if !has_help && (is_program(&wrong) || near.is_none() && words.len() > 1) {
        return Some(format!("'{wrong}' is no verb of weigh; did you mean `weigh run -- {run}`?"));
    }
    let other = OTHER_WORDS.iter().find(|(word, _)| *word == wrong);
    let meant = other.map(|(_, instead)| (*instead).to_string());
    let behind = ShellWords(&words[at + 1..]).to_string();
    let meant =
        meant.or_else(|| near.map(|near| format!("weigh {near} {behind}").trim().to_string()));
    Some(match meant {
        Some(meant) => format!(
            "'{wrong}' is no verb of weigh; did you mean `{meant}`? `weigh help` lists the verbs"
        ),
        None => format!(
            "'{wrong}' is no verb of weigh; `weigh help` lists them; a command is measured by `weigh run -- {}`",
            if has_help { "COMMAND" } else { &*run }
        ),
    })
}

fn nearest_verb(wrong: &str, verb: &[String]) -> Option<String> {
    let command = command_of(verb);
    let names = command.get_subcommands().map(clap::Command::get_name);
    nearest(wrong, names).first().map(|near| (*near).to_string())
}

fn wrong_option(error: &Error, words: &[String]) -> Option<String> {
    let wrong = context(error, ContextKind::InvalidArg)?;
    let verb = verb_of(words);
    if verb == "weigh" {
        return Some(option_before_verb(&wrong, words));
    }
    let (depth, command) = (depth_of(&verb), command_of(words));
    if !wrong.starts_with('-') {
        if !command.get_arguments().any(|argument| argument.get_id() == "command") {
            return Some(format!(
                "`{verb}` takes no '{wrong}'; `{verb} --help` says what it takes"
            ));
        }
        if verb == "weigh trace" && !words.iter().any(|word| word == "-e" || word == "--event") {
            return Some(format!(
                "'{wrong}' is not expected here; an event is written `-e {wrong}`, and a command stands behind `--`: \
                 `weigh trace -e {wrong} -- COMMAND`"
            ));
        }
        return Some(format!(
            "'{wrong}' is not expected here; a command stands behind `--`: `{verb} {}`",
            with_marks(&words[depth..], &command)
        ));
    }
    if let Some((option, value)) = negative_value(&wrong, words, &command) {
        return Some(format!(
            "'{value}' is no value of '{option}': expected one that does not begin with '-'"
        ));
    }
    let meant = option_meant(&wrong, &verb, &command);
    let meant = meant.unwrap_or_else(|| format!("`{verb} --help` lists those that it has"));
    Some(format!("`{verb}` has no option '{wrong}'; {meant}"))
}

/// What to type where an option stands before the verb.
fn option_before_verb(wrong: &str, words: &[String]) -> String {
    let weigh = Arguments::command();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = words[..end].iter().position(|word| weigh.find_subcommand(word).is_some());
    let meant = match (at, nearest_option(wrong, &weigh)) {
        (Some(at), _) => {
            let moved = [&words[..at], &words[at + 1..]].concat();
            format!("weigh {} {}", words[at], with_marks(&moved, &command_of(&words[at..=at])))
        }
        (None, Some(near)) => format!("weigh {near}"),
        (None, None) => format!("weigh run {}", with_marks(words, &command_of(&["run".into()]))),
    };
    format!(
        "'{wrong}' stands before the verb, where weigh has no such option; did you mean `{meant}`?"
    )
}

/// What is meant by an option that a verb does not have: one that it has, a limit, or another verb.
fn option_meant(wrong: &str, verb: &str, command: &clap::Command) -> Option<String> {
    let has = |command: &clap::Command, name: &str| {
        command.get_arguments().any(|option| option.get_long() == Some(name))
    };
    let name = wrong.trim_start_matches('-');
    let limit = metric_of_word(name).filter(|_| wrong.starts_with("--") && has(command, "limit"));
    if let Some(metric) = limit {
        return Some(format!("did you mean `--limit {metric}=VALUE`?"));
    }
    let weigh = Arguments::command();
    let others = weigh.get_subcommands().filter(|other| has(other, name));
    let others: Vec<String> = others.map(|other| format!("`weigh {}`", other.get_name())).collect();
    if !others.is_empty() {
        return Some(format!(
            "it is an option of {}; `{verb} --help` lists its own",
            others.join(", ")
        ));
    }
    nearest_option(wrong, command).map(|near| format!("did you mean `{near}`?"))
}

/// The option and the word behind it, where what was taken for an option is a number below 0.
fn negative_value<'a>(
    wrong: &str,
    words: &'a [String],
    command: &clap::Command,
) -> Option<(&'a str, &'a str)> {
    let is_number = wrong[1..].starts_with(|first: char| first.is_ascii_digit());
    let pair = words.windows(2).find(|pair| pair[1].starts_with(wrong))?;
    let is_value = is_number && takes_value(&pair[0], command);
    is_value.then(|| (&*pair[0], &*pair[1]))
}

/// What other programs call an option, where no letter says so.
fn nearest_option(wrong: &str, command: &clap::Command) -> Option<String> {
    let mut whole = command.clone();
    whole.build();
    let names: Vec<String> = whole
        .get_arguments()
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    let others =
        [("-p", "--pid"), ("--output-dir", "--output"), ("-t", "--for"), ("--verbose", "--help")];
    let other = others.iter().find(|(other, _)| *other == wrong).map(|(_, own)| *own);
    let near = || nearest(wrong, names.iter().map(String::as_str)).first().copied();
    let found = other.filter(|own| names.iter().any(|name| name == own)).or_else(near);
    found.map(str::to_string)
}

/// Options of a verb, and what follows the last of them behind `--`.
fn with_marks(words: &[String], verb: &clap::Command) -> String {
    if words.iter().any(|word| word == "--") {
        return ShellWords(words).to_string();
    }
    let mut at = 0;
    while words.get(at).is_some_and(|word| word.starts_with('-')) {
        at += if takes_value(&words[at], verb) { 2 } else { 1 };
    }
    let (options, command) = words.split_at(at.min(words.len()));
    let command = match command {
        [] => "COMMAND".to_string(),
        words => ShellWords(words).to_string(),
    };
    let mut options = ShellWords(options).to_string();
    if !options.is_empty() {
        options.push(' ');
    }
    format!("{options}-- {command}")
}

/// Whether the word behind an option is its value.
fn takes_value(word: &str, verb: &clap::Command) -> bool {
    value_count(word, verb).is_some_and(|count| count > 0)
}

/// How many of the words behind an option are its values, if the word is an option of the verb.
fn value_count(word: &str, verb: &clap::Command) -> Option<usize> {
    let name = word.split('=').next().unwrap_or(word);
    let is_it = |option: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => option.get_short().is_some_and(|short| name == format!("-{short}")),
    };
    let option = verb.get_arguments().find(is_it)?;
    let is_flag = !option.get_action().takes_values() || name != word;
    let values = option.get_num_args().map_or(1, |count| count.min_values());
    Some(if is_flag { 0 } else { values })
}

fn missing(error: &Error, words: &[String]) -> Option<String> {
    let names = context(error, ContextKind::InvalidArg)?;
    let verb = verb_of(words);
    if names.contains("COMMAND") {
        return Some(format!("`{verb}` needs a command: `{verb} -- COMMAND`"));
    }
    let needy = needy_option(&names, words);
    let needy = needy.map_or(String::new(), |option| format!(" {option}"));
    Some(format!("`{verb}{needy}` needs {names}; `{verb} --help` has examples"))
}

/// The option that needs others which are missing: without it nobody asks for them.
fn needy_option<'a>(names: &str, words: &'a [String]) -> Option<&'a str> {
    let verb = command_of(words);
    let is_needy = |at: &usize| {
        let Some(count) = value_count(&words[*at], &verb) else { return false };
        let behind = words.get(at + 1 + count..).unwrap_or_default();
        let others = words[..*at].iter().chain(behind);
        let whole = std::iter::once("weigh").chain(others.map(String::as_str));
        let error = Arguments::command().try_get_matches_from(whole).err();
        error
            .and_then(|error| context(&error, ContextKind::InvalidArg))
            .is_none_or(|left| !left.contains(names))
    };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    (0..end).find(is_needy).map(|at| &*words[at])
}

fn wrong_value(error: &Error) -> Option<String> {
    let (option, value) =
        (context(error, ContextKind::InvalidArg)?, context(error, ContextKind::InvalidValue)?);
    let all = context(error, ContextKind::ValidValue);
    let near = nearest_of(error, ContextKind::SuggestedValue);
    let near = near.or_else(|| {
        let known = all.as_deref().unwrap_or_default().split(", ");
        nearest(&value, known).first().map(|near| (*near).to_string())
    });
    let near = near.map_or(String::new(), |near| format!("did you mean '{near}'? "));
    let expected = all.filter(|all| !all.is_empty());
    let expected = expected.map_or("one".to_string(), |all| format!("one of: {all}"));
    Some(match value.is_empty() {
        true => format!("an option has no value, and needs {expected}: `{option}`"),
        false => format!("'{value}' is no value of '{option}'; {near}expected {expected}"),
    })
}

fn refused_value(error: &Error) -> Option<String> {
    let (option, value) =
        (context(error, ContextKind::InvalidArg)?, context(error, ContextKind::InvalidValue)?);
    let source = error.source()?;
    let reason = if let Some(number) = source.downcast_ref() {
        number_expected(number).to_string()
    } else if source.is::<AddrParseError>() {
        "expected an address and a port, such as 127.0.0.1:8125".to_string()
    } else {
        source.to_string()
    };
    Some(format!("'{value}' is no value of '{option}': {reason}"))
}

/// What Rust says of a number that it cannot read, in words for who types it.
fn number_expected(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow => "expected a smaller number",
        _ => "expected a whole number, 0 or more",
    }
}

/// What clap says, in one line.
fn folded(error: &Error, words: &[String]) -> String {
    let rendered = error.render().to_string();
    let lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines.take_while(|line| !line.starts_with("Usage:"));
    let own: Vec<&str> = own.filter(|line| !line.starts_with("For more information")).collect();
    let text = own.join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    format!("{text}; `{} --help` has examples", verb_of(words))
}
