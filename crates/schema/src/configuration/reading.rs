//! From the text of a configuration to what it asks for.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::capture::{self, Capture};
use super::refusal::{At, ConfigurationError, Problem};
use super::spec::{Boundary, Configuration, Function, LaterRule, OwnSubsystem, Sum, later_numbers};
use crate::custom_subsystem::{OWN_NUMBERS, OWN_PARTS};
use crate::subsystem::{LATER, PART, SUBSYSTEMS, Subsystem};

/// Without these the time of the others would be wrong.
pub const ALWAYS: [&str; 3] = ["kernel", "sched", "irq"];

/// The most numbers that are captured at one function.
const MOST_SUMS: usize = 4;

type Answer<T> = Result<T, ConfigurationError>;

/// Reads what is in the file of that name.
pub fn parse_bytes(file: &str, bytes: &[u8]) -> Result<Configuration, ConfigurationError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = at(file, bytes, "", error.valid_up_to());
        ConfigurationError { at, problem: Problem::NotText }
    })?;
    parse(file, text)
}

/// Reads the text of the file of that name.
pub fn parse(file: &str, text: &str) -> Result<Configuration, ConfigurationError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = source.at("", error.span().unwrap_or_default());
        ConfigurationError { at, problem: Problem::NotToml(error.message().to_string()) }
    })?;
    let read = Reader { source, taken: Vec::new() }.configuration(table.get_ref())?;
    // A user who names a file wants it to change something: this one would change nothing.
    if read == Configuration::default() {
        return Err(ConfigurationError { at: source.at("", 0..0), problem: Problem::Nothing });
    }
    Ok(read)
}

#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, key: &str, span: Range<usize>) -> At {
        at(self.file, self.text.as_bytes(), key, span.start)
    }
}

/// The place of a byte.
fn at(file: &str, bytes: &[u8], key: &str, byte: usize) -> At {
    let before = bytes.get(..byte).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    At { file: file.to_string(), line, key: key.to_string() }
}

/// A value, and where it is.
struct Item<'a> {
    value: &'a DeValue<'a>,
    at: At,
}

impl<'a> Item<'a> {
    fn kind<T>(&self, expected: &'static str) -> Answer<T> {
        let found = self.value.type_str().to_string();
        Err(ConfigurationError { at: self.at.clone(), problem: Problem::Kind { expected, found } })
    }

    fn text(&self, expected: &'static str) -> Answer<&'a str> {
        self.value.as_str().map_or_else(|| self.kind(expected), Ok)
    }

    fn missing<T>(&self, key: &'static str) -> Answer<T> {
        Err(ConfigurationError { at: self.at.clone(), problem: Problem::Missing(key) })
    }
}

struct Reader<'a> {
    source: Source<'a>,
    /// The own numbers that have a place, by part and name.
    taken: Vec<(String, String)>,
}

impl<'a> Reader<'a> {
    /// The values of a table, each of which must have one of these names, or any if there are none.
    fn items(
        &self,
        table: &'a DeTable<'a>,
        inside: &str,
        known: &[&str],
    ) -> Answer<Vec<(&'a str, Item<'a>)>> {
        let mut items = Vec::new();
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            let key = if inside.is_empty() { text.to_string() } else { format!("{inside}.{text}") };
            let at = self.source.at(&key, name.span());
            if !known.is_empty() && !known.contains(&text) {
                return Err(ConfigurationError::unknown(&at, "key", text, known.iter().copied()));
            }
            items.push((text, Item { value: value.get_ref(), at }));
        }
        // In the order of the file: the first mistake is told, and parts are numbered so.
        items.sort_by_key(|(_, item)| item.at.line);
        Ok(items)
    }

    fn list(&self, item: &Item<'a>, expected: &'static str) -> Answer<Vec<Item<'a>>> {
        let Some(list) = item.value.as_array() else { return item.kind(expected) };
        let one = |value: &'a Spanned<DeValue<'a>>| Item {
            value: value.get_ref(),
            at: self.source.at(&item.at.key, value.span()),
        };
        Ok(list.iter().map(one).collect())
    }

    fn configuration(mut self, table: &'a DeTable<'a>) -> Answer<Configuration> {
        let mut read = Configuration::default();
        let mut only = None;
        for (name, item) in self.items(table, "", &["remove", "only", "subsystem"])? {
            match name {
                "remove" => read.remove = self.remove(&item)?,
                "only" => only = Some(item),
                _ => read.subsystems = self.subsystems(&item)?,
            }
        }
        if let Some(item) = only {
            if !read.remove.is_empty() {
                let expected = "either 'only' or 'remove', not both";
                return Err(ConfigurationError::value(&item.at, "only", expected));
            }
            read.only = Some(self.only(&item, &read.subsystems)?);
        }
        Ok(read)
    }

    fn remove(&self, item: &Item<'a>) -> Answer<Vec<&'static Subsystem>> {
        let expected = "a list of names, such as [\"timer\", \"memory\"]";
        let built_in = |item: Item<'a>| {
            let name = item.text(expected)?;
            let Some(subsystem) = Subsystem::named(name) else {
                let known = SUBSYSTEMS.iter().map(|s| s.name);
                return Err(ConfigurationError::unknown(&item.at, "part", name, known));
            };
            if ALWAYS.contains(&name) {
                let expected =
                    "another part: without this one the times of the others would be wrong";
                return Err(ConfigurationError::value(&item.at, name, expected));
            }
            Ok(subsystem)
        };
        self.list(item, expected)?.into_iter().map(built_in).collect()
    }

    fn only(&self, item: &Item<'a>, own: &[OwnSubsystem]) -> Answer<Vec<String>> {
        let expected = "a list of names, such as [\"block\", \"link_layer\"]";
        let known = || {
            let own = own.iter().map(|s| s.name.as_str());
            SUBSYSTEMS.iter().map(|s| s.name).chain(own)
        };
        let one = |item: Item<'a>| {
            let name = item.text(expected)?;
            match known().any(|known| known == name) {
                true => Ok(name.to_string()),
                false => Err(ConfigurationError::unknown(&item.at, "part", name, known())),
            }
        };
        self.list(item, expected)?.into_iter().map(one).collect()
    }

    fn subsystems(&mut self, item: &Item<'a>) -> Answer<Vec<OwnSubsystem>> {
        let Some(table) = item.value.as_table() else {
            return item.kind("tables, such as [subsystem.link_layer]");
        };
        let mut read = Vec::new();
        for (name, item) in self.items(table, "subsystem", &[])? {
            if read.len() == OWN_PARTS {
                let expected =
                    format!("at most {OWN_PARTS} parts: an account has no room for more");
                return Err(ConfigurationError::value(&item.at, name, expected));
            }
            check_name(name, &item.at)?;
            read.push(self.subsystem(name, &item)?);
        }
        Ok(read)
    }

    fn subsystem(&mut self, name: &str, item: &Item<'a>) -> Answer<OwnSubsystem> {
        let Some(table) = item.value.as_table() else {
            return item.kind("a table, such as [subsystem.link_layer]");
        };
        let mut read = OwnSubsystem {
            name: name.to_string(),
            help: None,
            at: item.at.clone(),
            boundary: Vec::new(),
            later: None,
        };
        for (key, item) in self.items(table, &item.at.key, &["help", "boundary", "later"])? {
            match key {
                "help" => read.help = Some(item.text("a text")?.to_string()),
                "boundary" => read.boundary = self.boundary(name, &item)?,
                _ => read.later = Some(self.later(name, &item)?),
            }
        }
        if read.boundary.is_empty() && read.later.is_none() {
            return item.missing("boundary");
        }
        Ok(read)
    }

    fn boundary(&mut self, part: &str, item: &Item<'a>) -> Answer<Vec<Boundary>> {
        let expected = "a list of functions, such as [\"vfs_read\"], or a table of them, such as \
                        vfs_read = { bytes = \"return\" }";
        let read: Vec<Boundary> = if let Some(table) = item.value.as_table() {
            let functions = self.items(table, &item.at.key, &[])?.into_iter();
            functions.map(|(name, item)| self.captures(part, name, &item)).collect::<Answer<_>>()?
        } else {
            let one = |item: Item<'a>| {
                let function = self.function(&item)?;
                Ok(Boundary { function, sums: Vec::new() })
            };
            self.list(item, expected)?.into_iter().map(one).collect::<Answer<_>>()?
        };
        if read.is_empty() {
            return Err(ConfigurationError { at: item.at.clone(), problem: Problem::Empty });
        }
        for (place, boundary) in read.iter().enumerate() {
            let name = &boundary.function.name;
            if read[..place].iter().any(|before| before.function.name == *name) {
                let at = &boundary.function.at;
                return Err(ConfigurationError::value(at, name, "each function once"));
            }
        }
        Ok(read)
    }

    fn function(&self, item: &Item<'a>) -> Answer<Function> {
        let name = item.text("the name of a function")?;
        function(name, &item.at)
    }

    fn captures(&mut self, part: &str, name: &str, item: &Item<'a>) -> Answer<Boundary> {
        let Some(table) = item.value.as_table() else {
            return item.kind("a table of what to add up, such as { bytes = \"skb->len\" }, or {}");
        };
        let function = function(name, &item.at)?;
        let mut sums = Vec::new();
        for (name, item) in self.items(table, &item.at.key, &[])? {
            if sums.len() == MOST_SUMS {
                let expected = format!("at most {MOST_SUMS} numbers of one function");
                return Err(ConfigurationError::value(&item.at, name, expected));
            }
            check_word(name, &item.at)?;
            // What would collide with what every part has.
            if PART.iter().any(|field| field.key() == format!("{name}_total")) {
                let expected = "another name: every part has a number of this one";
                return Err(ConfigurationError::value(&item.at, name, expected));
            }
            let capture = capture(&item, name)?;
            if capture.is_address {
                let expected = "something that can be added up; an address cannot";
                return Err(ConfigurationError::value(&item.at, &capture.text, expected));
            }
            let slot = self.slot(part, name, &item.at)?;
            sums.push(Sum { capture, slot });
        }
        Ok(Boundary { function, sums })
    }

    /// The place of a number; the same for the same name of the same part.
    fn slot(&mut self, part: &str, name: &str, at: &At) -> Answer<usize> {
        let number = (part.to_string(), name.to_string());
        if let Some(place) = self.taken.iter().position(|taken| *taken == number) {
            return Ok(place);
        }
        if self.taken.len() == OWN_NUMBERS {
            let expected = format!(
                "at most {OWN_NUMBERS} numbers of all parts together; one that has 'later' has two"
            );
            return Err(ConfigurationError::value(at, name, expected));
        }
        self.taken.push(number);
        Ok(self.taken.len() - 1)
    }

    fn later(&mut self, part: &str, item: &Item<'a>) -> Answer<LaterRule> {
        let Some(table) = item.value.as_table() else {
            return item.kind("a table, such as { start = \"f\", end = \"g\", match = \"skb\" }");
        };
        let (mut start, mut end, mut captures, mut keep) = (None, None, None, false);
        for (key, item) in self.items(table, &item.at.key, &["start", "end", "match", "keep"])? {
            match key {
                "start" => start = Some(self.function(&item)?),
                "end" => end = Some(self.function(&item)?),
                "match" => captures = Some(self.matching(&item)?),
                _ => match item.value.as_bool() {
                    Some(value) => keep = value,
                    None => return item.kind("true or false"),
                },
            }
        }
        let Some(start) = start else { return item.missing("start") };
        let Some(end) = end else { return item.missing("end") };
        let Some((start_capture, end_capture)) = captures else { return item.missing("match") };
        if start.name == end.name {
            let expected = "another function than that of 'start'";
            return Err(ConfigurationError::value(&end.at, &end.name, expected));
        }
        let [count, time] = later_numbers(part, 0, 0).map(|number| number.key);
        Ok(LaterRule {
            start,
            start_capture,
            end,
            end_capture,
            keep,
            count_slot: self.slot(part, &count, &item.at)?,
            time_slot: self.slot(part, &time, &item.at)?,
        })
    }

    /// What is captured at the start, and at the end: the same, or each its own.
    fn matching(&self, item: &Item<'a>) -> Answer<(Capture, Capture)> {
        let expected = "what both functions have in common, such as \"skb\", or a list of two: \
                        at the start, at the end";
        let both = match item.value {
            DeValue::String(_) => {
                let capture = capture(item, "")?;
                (capture.clone(), capture)
            }
            _ => {
                let list = self.list(item, expected)?;
                let [start, end] = &list[..] else { return item.kind(expected) };
                (capture(start, "")?, capture(end, "")?)
            }
        };
        for capture in [&both.0, &both.1] {
            if capture.is_of_return() {
                let expected = "an argument: what is returned comes too late to be matched";
                return Err(ConfigurationError::value(&item.at, &capture.text, expected));
            }
        }
        Ok(both)
    }
}

fn capture(item: &Item<'_>, name: &str) -> Answer<Capture> {
    let text = item.text("what to capture, such as \"skb->len\"")?;
    capture::parse(text, name, item.at.clone())
        .map_err(|expected| ConfigurationError::value(&item.at, text, expected))
}

/// The kernel's names of functions have no others; what is asked of the kernel is nothing else.
fn function(name: &str, at: &At) -> Answer<Function> {
    let is_symbol = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(is_symbol) || name.len() > 127 {
        return Err(ConfigurationError::value(at, name, "the name of a function of the kernel"));
    }
    Ok(Function { name: name.to_string(), at: at.clone() })
}

fn check_word(name: &str, at: &At) -> Answer<()> {
    let is_first = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !is_first || !name.chars().all(is_rest) || name.len() > 32 {
        let expected = "a name of small letters, digits and _, 32 at most, a letter first";
        return Err(ConfigurationError::value(at, name, expected));
    }
    Ok(())
}

/// Names of parts become keys beside those that are there.
fn check_name(name: &str, at: &At) -> Answer<()> {
    check_word(name, at)?;
    if Subsystem::named(name).is_some() {
        let expected = "another name: there is a built-in part of this one";
        return Err(ConfigurationError::value(at, name, expected));
    }
    let later = later_numbers(name, 0, 0);
    if LATER.iter().any(|field| later.iter().any(|number| number.key == field.key())) {
        let expected = "another name: its numbers in 'later' would be taken for others";
        return Err(ConfigurationError::value(at, name, expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unwrap_used)]
    fn read(text: &str) -> Configuration {
        parse("f.toml", text).unwrap()
    }

    #[test]
    fn the_example() {
        let read = read(include_str!("../../../../examples/link-layer.toml"));
        let removed: Vec<&str> = read.remove.iter().map(|part| part.name).collect();
        assert_eq!(removed, ["memory", "timer"]);
        let [link] = &read.subsystems[..] else { panic!("{read:?}") };
        assert_eq!(link.name, "link_layer");
        assert_eq!(link.boundary[0].function.name, "__dev_queue_xmit");
        let later = link.later.as_ref().expect("it has one");
        assert_eq!(
            (later.start.name.as_str(), later.end.name.as_str()),
            ("__dev_queue_xmit", "__qdisc_run")
        );
        assert_eq!((later.start_capture.steps.len(), later.end_capture.steps.len()), (3, 0));
        assert!(later.keep);
        let own = read.own();
        let keys: Vec<&str> =
            own[0].sums.iter().chain(&own[0].later).map(|n| n.key.as_str()).collect();
        assert_eq!(keys, ["bytes_total", "link_layer_total", "link_layer_seconds"]);
        let slots: Vec<usize> = own[0].sums.iter().chain(&own[0].later).map(|n| n.slot).collect();
        assert_eq!(slots, [0, 1, 2]);
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let refused = |bytes: &[u8]| parse_bytes("f.toml", bytes).expect_err("it is no text");
        let wrong = "not TOML: expected text in UTF-8, found other bytes";
        let latin = b"# first\nremove = [\"timer\"]\n# f\xfcr\n";
        assert_eq!(refused(latin).to_string(), format!("f.toml:3: {wrong}"));
        assert_eq!(refused(b"\xff").to_string(), format!("f.toml:1: {wrong}"));
        let text = "remove = [\"timer\"] # für\n";
        assert_eq!(parse_bytes("f.toml", text.as_bytes()), parse("f.toml", text));
    }

    #[test]
    fn numbers_of_the_same_name_are_added_up_in_one_place() {
        let read = read(
            "[subsystem.io.boundary]\nvfs_read = { bytes = \"return\" }\n\
             vfs_write = { bytes = \"return\", asked = \"count\" }\n",
        );
        let slots = |n: usize| -> Vec<usize> {
            read.subsystems[0].boundary[n].sums.iter().map(|sum| sum.slot).collect()
        };
        assert_eq!(slots(0), [0]);
        // `asked` comes first: keys of a line are in the order of their names.
        assert_eq!(slots(1), [1, 0]);
        assert_eq!(read.own()[0].sums.len(), 2);
    }

    #[test]
    fn parts_are_numbered_in_the_order_of_the_file() {
        let read = read("[subsystem.z]\nboundary = [\"f\"]\n[subsystem.a]\nboundary = [\"g\"]\n");
        let names: Vec<&str> = read.subsystems.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["z", "a"]);
    }

    /// What is wrong, and what is said of it: place and sentence.
    const WRONG: &[(&str, &str)] = &[
        ("x", "f.toml:1: not TOML: "),
        ("\n\nremove = [\n", "not TOML: "),
        ("a = 1\na = 2\n", "f.toml:2: not TOML: duplicate key"),
        (
            "remov = []",
            "f.toml:1: remov: there is no key 'remov'; there is remove, only, subsystem",
        ),
        ("remove = 3", "f.toml:1: remove: expected a list of names, such as"),
        (
            "\nremove = [\n\"lock\",\n\"blok\"]",
            "f.toml:4: remove: there is no part 'blok'; there is kernel, sched",
        ),
        ("remove = [4]", "found a value of the kind 'integer'"),
        ("remove = [\"sched\"]", "f.toml:1: remove: 'sched': expected another part: without"),
        ("remove = [\"lock\"]\nonly = [\"fs\"]", "f.toml:2: only: 'only': expected either"),
        (
            "only = [\"x\"]\n[subsystem.y]\nboundary=[\"f\"]",
            "f.toml:1: only: there is no part 'x'; there is kernel",
        ),
        ("subsystem = 1", "f.toml:1: subsystem: expected tables, such as [subsystem.link_layer]"),
        ("[subsystem]\nx = 1", "f.toml:2: subsystem.x: expected a table"),
        ("[subsystem.x]", "f.toml:1: subsystem.x: expected the key 'boundary', which is missing"),
        (
            "[subsystem.block]\nboundary=[\"f\"]",
            "f.toml:1: subsystem.block: 'block': expected another name",
        ),
        ("[subsystem.work]\nboundary=[\"f\"]", "its numbers in 'later' would be taken for others"),
        ("[subsystem.Disk]\nboundary=[\"f\"]", "expected a name of small letters"),
        ("[subsystem.x]\nhelp = 1", "f.toml:2: subsystem.x.help: expected a text"),
        (
            "[subsystem.x]\nbundary = []",
            "f.toml:2: subsystem.x.bundary: there is no key 'bundary'; there is help, boundary, later",
        ),
        (
            "[subsystem.x]\nboundary = \"f\"",
            "f.toml:2: subsystem.x.boundary: expected a list of functions",
        ),
        ("[subsystem.x]\nboundary = [1]", "expected the name of a function"),
        (
            "[subsystem.x]\nboundary = []",
            "f.toml:2: subsystem.x.boundary: expected one function at least, found none",
        ),
        (
            "[subsystem.x]\nhelp = \"h\"\n[subsystem.x.boundary]",
            "f.toml:3: subsystem.x.boundary: expected one function at least, found none",
        ),
        (
            "",
            "f.toml:1: it defines no part and removes none: expected 'subsystem', 'remove' or 'only'",
        ),
        ("# nothing", "it defines no part and removes none"),
        ("remove = []\n[subsystem]", "it defines no part and removes none"),
        (
            "[subsystem.x]\nboundary = [\"f g\"]",
            "'f g': expected the name of a function of the kernel",
        ),
        ("[subsystem.x]\nboundary = [\"f\", \"f\"]", "'f': expected each function once"),
        (
            "[subsystem.x.boundary]\nf = 1",
            "f.toml:2: subsystem.x.boundary.f: expected a table of what to add up",
        ),
        (
            "[subsystem.x.boundary]\nf = { n = 1 }",
            "subsystem.x.boundary.f.n: expected what to capture",
        ),
        ("[subsystem.x.boundary]\nf = { n = \"a+b\" }", "'a+b' is no name"),
        ("[subsystem.x.boundary]\nf = { n = \"&a->b\" }", "an address cannot"),
        ("[subsystem.x.boundary]\nf = { entries = \"a\" }", "every part has a number of this one"),
        (
            "[subsystem.x.boundary]\nf = {a='a',b='a',c='a',d='a',e='a'}",
            "at most 4 numbers of one function",
        ),
        (
            "[subsystem.x.boundary]\nf = {a='a',b='a',c='a',d='a'}\ng = {e='a',f='a',g='a',h='a'}\nh={i='a'}",
            "f.toml:4: subsystem.x.boundary.h.i: 'i': expected at most 8 numbers",
        ),
        ("[subsystem.x]\nlater = 1", "f.toml:2: subsystem.x.later: expected a table"),
        (
            "[subsystem.x]\nlater = { start = \"f\", match = \"a\" }",
            "expected the key 'end', which is missing",
        ),
        ("[subsystem.x]\nlater = { end = \"f\", match = \"a\" }", "expected the key 'start'"),
        ("[subsystem.x]\nlater = { start = \"f\", end = \"g\" }", "expected the key 'match'"),
        (
            "[subsystem.x]\nlater = { start = \"f\", end = \"f\", match = \"a\" }",
            "another function than that of 'start'",
        ),
        (
            "[subsystem.x]\nlater = { start = \"f\", end = \"g\", match = [\"a\"] }",
            "later.match: expected what both functions have in common",
        ),
        (
            "[subsystem.x]\nlater = { start = \"f\", end = \"g\", match = \"return\" }",
            "comes too late to be matched",
        ),
        (
            "[subsystem.x]\nlater = { start = \"f\", end = \"g\", match = \"a\", keep = 1 }",
            "later.keep: expected true or false",
        ),
    ];

    #[test]
    fn what_is_wrong_is_named_with_line_key_and_what_is_expected() {
        for (text, expected) in WRONG {
            let refusal = parse("f.toml", text).expect_err(text).to_string();
            assert!(
                refusal.starts_with("f.toml:") && refusal.contains(expected),
                "{text:?}: {refusal}"
            );
        }
    }

    #[test]
    fn there_is_room_for_so_many_parts() {
        let part = |n: usize| format!("[subsystem.x{n}]\nboundary = [\"f\"]\n");
        let text: String = (0..OWN_PARTS + 1).map(part).collect();
        let refusal = parse("f.toml", &text).expect_err("too many").to_string();
        assert!(
            refusal.starts_with("f.toml:17: subsystem.x8: ") && refusal.contains("at most 8"),
            "{refusal}"
        );
    }
}
