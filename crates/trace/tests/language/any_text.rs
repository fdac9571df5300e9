//! Whatever is written is read or refused, and what is refused is shown where it stands.

use proptest::prelude::*;
use weigh_trace::buffer_spec;
use weigh_trace::error::Refusal;
use weigh_trace::event::Event;
use weigh_trace::filter::Filter;
use weigh_trace::predicate;
use weigh_trace::sampling::Sampling;
use weigh_trace::synthesis::ask::Ask;

const WORDS: &[&str] = &[
    "net",
    ":",
    "fn:",
    "user:",
    "%return",
    "{",
    "}",
    ",",
    "=",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "[",
    "]",
    "->",
    ".",
    "..",
    "in",
    "if",
    "sample",
    "a:",
    "one ring",
    "cpus 0-3",
    "deliver",
    "size",
    "of",
    "by",
    "not",
    "followed",
    "within",
    "1/",
    "at most",
    "every",
    "10ms",
    "/s",
    "str(",
    "bytes(",
    "stack",
    "skb",
    "len",
    "0x1f",
    "99999999999999999999",
    "-1",
    "\"",
    "\"a\"",
    "\\",
    "ä",
    "udp",
    "tcp[",
    "tcpflags",
    "tcp-syn",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "mask",
    "and",
    "or",
    "10.0.0.1",
    "10.0.0",
    "/8",
    "::1",
    "53",
    "domain",
    " ",
    "|",
    "&",
];

fn is_shown(refusal: &Refusal) {
    assert!(refusal.to_string().contains('^'));
    // Of an abbreviated kind it shows the whole one.
    let text = refusal.text.as_str();
    assert!(refusal.at + refusal.length <= text.len() + 1, "{refusal:?}");
    assert!(text.is_char_boundary(refusal.at.min(text.len())), "{refusal:?}");
}

fn is_read_or_refused(text: &str) {
    if let Err(refusal) = Event::parse(text) {
        is_shown(&refusal);
    }
    if let Err(refusal) = Filter::parse(text) {
        is_shown(&refusal);
    }
    if let Err(refusal) = Sampling::parse(text) {
        is_shown(&refusal);
    }
    if let Err(refusal) = predicate::parse(text, &|_| None) {
        is_shown(&refusal);
    }
    if let Ok((name, _)) = buffer_spec::parse(text) {
        assert!(text.contains(&name) && !name.is_empty());
    }
    for ask in [Ask::latency, Ask::sequence, Ask::rate, Ask::top, Ask::histogram] {
        if let Err(refusal) = ask(text) {
            is_shown(&refusal);
        }
    }
}

proptest! {
    #[test]
    fn words_in_any_order(words in prop::collection::vec(prop::sample::select(WORDS), 0..24)) {
        is_read_or_refused(&words.concat());
        is_read_or_refused(&words.join(" "));
    }

    #[test]
    fn any_characters(text in ".{0,40}") {
        is_read_or_refused(&text);
    }
}
