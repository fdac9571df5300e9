//! Events as they are written: where, which fields, which of them, how many.
//!
//! ```text
//! net:net_dev_queue{len=skb->len, dev=skb->dev->name} if skb->len > 1000 sample 1/100
//! fn:vfs_write%return{ret}   fn:vfs_write+0x1c{si}   user:/lib/x.so:malloc{arg0}   usdt:/lib/x.so:provider:name   net
//! raw:net_dev_queue{arg0}    fn:sunrpc:cache_check
//! openat    syscall:openat   syscalls:sys_enter_openat   (as strace, bpftrace and perf write them)
//! ```
//!
//! Reads text; emits a tree whose parts know where they stand. Whether the kernel has such an event
//! is not looked at here.

use crate::counter::Counter;
use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::filter::Filter;
use crate::foreign;
use crate::path::{Cast, Path};
use crate::sampling::Sampling;
use crate::suggest::nearest;
use crate::syscall;

/// Bytes that a text is cut to.
pub const TEXT_BYTES: u32 = 64;
/// The most bytes of a text, or of memory.
pub const MOST_BYTES: u64 = 4096;
/// Frames of a stack, and the most of them.
const FRAMES: u64 = 32;
const MOST_FRAMES: u64 = 127;
/// The most fields of an event: each has a bit in its records' headers.
pub const MOST_FIELDS: usize = 32;

/// Where an event happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// At a tracepoint of the kernel.
    Tracepoint {
        /// The group, if it was said.
        group: Option<String>,
        /// Its name.
        name: String,
    },
    /// At a tracepoint of the kernel, whose arguments are taken as numbers.
    Raw {
        /// Its name.
        name: String,
    },
    /// At a system call of that name.
    Call {
        /// Its name.
        name: String,
        /// At which moment of it.
        moment: CallMoment,
    },
    /// At a function of the kernel.
    Function {
        /// The module that it is of, if that was said.
        module: Option<String>,
        /// Its name.
        name: String,
        /// At the instruction so far behind its beginning; 0: as it is called.
        plus: u64,
        /// When it returns, not when it is called.
        returns: bool,
    },
    /// At a function of a program or library.
    User {
        /// The file.
        path: String,
        /// The function; empty: what is said next is an address of the file's own.
        name: String,
        /// So far behind its beginning.
        plus: u64,
        /// When it returns, not when it is called.
        returns: bool,
    },
    /// At a point that was compiled into a program or library.
    Usdt {
        /// The file.
        path: String,
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
    },
}

/// A moment of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMoment {
    /// As it begins.
    Enter,
    /// As it ends.
    Exit,
    /// As it ends, with what it began with.
    Whole,
}

impl CallMoment {
    /// What stands before the call's name in an event.
    pub fn prefix(self) -> &'static str {
        match self {
            CallMoment::Enter => "syscalls:sys_enter_",
            CallMoment::Exit => "syscalls:sys_exit_",
            CallMoment::Whole => "syscall:",
        }
    }
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldContent {
    /// The value itself; an array of characters is a text.
    Value(Path),
    /// The text that a pointer leads to.
    Text {
        /// The pointer.
        path: Path,
        /// Whether it leads into the program's memory.
        is_user: bool,
    },
    /// So many bytes that a pointer leads to.
    Bytes {
        /// The pointer.
        path: Path,
        /// How far behind it.
        plus: Option<Path>,
        /// How many.
        length: u32,
        /// Whether it leads into the program's memory.
        is_user: bool,
    },
    /// A packet, from its link header on: as much of it as there is, in its first part and in pages beyond.
    Packet {
        /// The `struct sk_buff` that has it.
        path: Path,
        /// The most bytes.
        length: u32,
    },
    /// The functions that were being executed.
    Stack {
        /// How many of them.
        frames: u32,
        /// The program's, not the kernel's.
        is_user: bool,
    },
    /// What a counter of the CPU shows.
    Counter {
        /// Which.
        counter: Counter,
        /// As it was written.
        name: String,
    },
}

/// A field that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// What it holds.
    pub wanted: FieldContent,
}

/// An event that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As it was written.
    pub text: String,
    /// Where.
    pub point: Point,
    /// Where the name of that stands.
    pub span: Span,
    /// Its fields; none where nothing was said.
    pub fields: Option<Vec<Field>>,
    /// Fields besides, for what looks at several events.
    pub more: Vec<Field>,
    /// Which of them.
    pub filter: Option<Filter>,
    /// That, as it was written.
    pub filter_text: String,
    /// How many of them.
    pub sampling: Option<Sampling>,
}

impl Event {
    /// Reads an event.
    pub fn parse(text: &str) -> Result<Event, Refusal> {
        let text = &*foreign::own_words(text)?;
        let mut cursor = Cursor::new(text)?;
        let (point, span) = point(&mut cursor)?;
        let fields = if cursor.eat("{") { Some(fields(&mut cursor)?) } else { None };
        let mut filter_text = String::new();
        let mut filter = None;
        if cursor.eat_word("if") {
            let from = cursor.at();
            filter = Some(Filter::take(&mut cursor)?);
            filter_text = text[from..cursor.at()].trim().to_string();
        }
        let sampling = Sampling::take(&mut cursor)?;
        match cursor.is_at_end() {
            true => Ok(Event {
                text: text.to_string(),
                point,
                span,
                fields,
                more: Vec::new(),
                filter,
                filter_text,
                sampling,
            }),
            false => Err(cursor.expected("'{', 'if', 'sample', 'at most', 'every' or the end")),
        }
    }

    /// The word alone that this is, if it is nothing but a word: the name of a set, perhaps.
    pub fn word(text: &str) -> Option<&str> {
        let text = text.trim();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (!text.is_empty() && text.chars().all(is_plain)).then_some(text)
    }

    /// A name for it.
    pub fn name(&self) -> String {
        self.point.name()
    }
}

impl Point {
    /// A name for what happens there.
    pub fn name(&self) -> String {
        match self {
            Point::Tracepoint { group: Some(group), name } => format!("{group}:{name}"),
            Point::Tracepoint { group: None, name } => name.clone(),
            Point::Raw { name } => format!("raw:{name}"),
            Point::Call { name, moment } => format!("{}{name}", moment.prefix()),
            Point::Function { module, name, plus, returns } => {
                let module = module.as_ref().map_or_else(String::new, |m| format!("{m}:"));
                let plus = if *plus == 0 { String::new() } else { format!("+{plus:#x}") };
                format!("fn:{module}{name}{plus}{}", suffix(*returns))
            }
            Point::User { path, name, plus: 0, returns } => {
                format!("user:{path}:{name}{}", suffix(*returns))
            }
            Point::User { path, name, plus, returns } => {
                format!("user:{path}:{name}+{plus:#x}{}", suffix(*returns))
            }
            Point::Usdt { path, provider, name } => format!("usdt:{path}:{provider}:{name}"),
        }
    }
}

fn suffix(returns: bool) -> &'static str {
    if returns { RETURN } else { "" }
}

const RETURN: &str = "%return";

/// Takes what says where an event happens.
pub(crate) fn point(cursor: &mut Cursor<'_>) -> Result<(Point, Span), Refusal> {
    let Some((first, first_span)) = cursor.name() else {
        return Err(cursor.expected(
            "an event: GROUP:TRACEPOINT, a system call, fn:FUNCTION, user:FILE:FUNCTION, usdt:FILE:PROVIDER:NAME, or a set",
        ));
    };
    if !cursor.eat(":") {
        let name = first.to_string();
        let call = (!TRACEPOINTS.contains(&first)).then(|| call_of(&name)).flatten();
        return Ok((call.unwrap_or(Point::Tracepoint { group: None, name }), first_span));
    }
    match first {
        "user" => return user(cursor),
        "usdt" => return usdt(cursor),
        _ => {}
    }
    let Some((name, span)) = cursor.name() else { return Err(cursor.expected("a name")) };
    let name = name.to_string();
    let point = match first {
        "fn" if cursor.eat(":") => {
            let module = Some(name);
            let Some((name, span)) = cursor.name() else { return Err(cursor.expected("a name")) };
            return Ok((function(cursor, module, name.to_string())?, span));
        }
        "fn" => function(cursor, None, name)?,
        "raw" => Point::Raw { name },
        "syscall" | "syscalls" => {
            let known = match first {
                "syscall" => whole_call(&name),
                _ => edge_of_call(&name).or_else(|| whole_call(&name)),
            };
            return match known {
                Some(point) => Ok((point, span)),
                None => Err(no_call(&name, span, cursor.text())),
            };
        }
        group => Point::Tracepoint { group: Some(group.to_string()), name },
    };
    Ok((point, span))
}

/// Bare names that are a tracepoint's as well as a system call's: the tracepoint is meant.
const TRACEPOINTS: [&str; 1] = ["io_uring_register"];

/// The system call that a name without a group is: `openat`, `sys_enter_openat`.
fn call_of(name: &str) -> Option<Point> {
    whole_call(name).or_else(|| edge_of_call(name))
}

fn whole_call(name: &str) -> Option<Point> {
    syscall::number_of(name)?;
    Some(Point::Call { name: name.to_string(), moment: CallMoment::Whole })
}

fn edge_of_call(name: &str) -> Option<Point> {
    let edges = [("sys_enter_", CallMoment::Enter), ("sys_exit_", CallMoment::Exit)];
    let of = |(prefix, moment): &(&str, CallMoment)| Some((name.strip_prefix(prefix)?, *moment));
    let (name, moment) = edges.iter().find_map(of)?;
    syscall::number_of(name)?;
    Some(Point::Call { name: name.to_string(), moment })
}

fn no_call(name: &str, span: Span, text: &str) -> Refusal {
    let bare = name.strip_prefix("sys_enter_").or_else(|| name.strip_prefix("sys_exit_"));
    let prefix = name.strip_suffix(bare.unwrap_or(name)).unwrap_or_default();
    let bare = bare.unwrap_or(name);
    let near = nearest(bare, syscall::all().map(|(_, name)| name));
    let near = near.iter().map(|name| format!("{prefix}{name}")).collect();
    span.refuse(text, Wrong::NoCall(bare.to_string())).near(near)
}

/// `vfs_read`, `vfs_read+0x1c`, `vfs_read%return`: what stands behind the name.
fn function(
    cursor: &mut Cursor<'_>,
    module: Option<String>,
    name: String,
) -> Result<Point, Refusal> {
    let begin = cursor.at();
    let plus = if cursor.eat("+") { cursor.need_number()?.0 } else { 0 };
    let returns = cursor.eat(RETURN);
    if returns && plus > 0 {
        let wrong = Wrong::Unsupported(format!(
            "a function returns to its caller, not from one instruction: it is fn:{name}+{plus:#x} or fn:{name}%return"
        ));
        let span = Span { at: begin, length: cursor.at() - begin };
        return Err(span.refuse(cursor.text(), wrong));
    }
    Ok(Point::Function { module, name, plus, returns })
}

fn file(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<String, Refusal> {
    let path = cursor.until(&[':']).0.trim().to_string();
    if path.is_empty() || !cursor.eat(":") { Err(cursor.expected(expected)) } else { Ok(path) }
}

/// `FILE:FUNCTION`, `FILE:FUNCTION+0x10`, `FILE:+0x4321`
fn user(cursor: &mut Cursor<'_>) -> Result<(Point, Span), Refusal> {
    let path = file(cursor, "FILE:FUNCTION")?;
    let begin = cursor.at();
    let name = cursor.symbol().map(|(name, _)| name.to_string());
    let plus = if cursor.eat("+") { Some(cursor.need_number()?.0) } else { None };
    if name.is_none() && plus.is_none() {
        return Err(cursor.expected("a function, or +0xADDRESS"));
    }
    let whole = cursor.text().get(begin..cursor.at()).unwrap_or_default().trim_end();
    let span = Span { at: begin, length: whole.len() };
    let (name, plus) = (name.unwrap_or_default(), plus.unwrap_or(0));
    Ok((Point::User { path, name, plus, returns: cursor.eat(RETURN) }, span))
}

fn usdt(cursor: &mut Cursor<'_>) -> Result<(Point, Span), Refusal> {
    let path = file(cursor, "FILE:PROVIDER:NAME")?;
    let Some((provider, first)) = cursor.symbol() else {
        return Err(cursor.expected("who provides the point"));
    };
    cursor.need(":")?;
    let Some((name, span)) = cursor.symbol() else { return Err(cursor.expected("a name")) };
    let (provider, name) = (provider.to_string(), name.to_string());
    Ok((Point::Usdt { path, provider, name }, first.to(span)))
}

fn fields(cursor: &mut Cursor<'_>) -> Result<Vec<Field>, Refusal> {
    let mut fields: Vec<Field> = Vec::new();
    while !cursor.eat("}") {
        let field = field(cursor)?;
        if fields.iter().any(|other| other.name == field.name) {
            return Err(field.span.refuse(cursor.text(), Wrong::Twice(field.name)));
        }
        fields.push(field);
        if fields.len() > MOST_FIELDS {
            let wrong = Wrong::TooMuch(format!("more than {MOST_FIELDS} fields"));
            return Err(Span { at: cursor.at(), length: 1 }.refuse(cursor.text(), wrong));
        }
        if !cursor.eat(",") && !cursor.sees("}") {
            return Err(cursor.expected("',' or '}'"));
        }
    }
    Ok(fields)
}

/// Reads fields as they stand between `{` and `}`.
pub(crate) fn fields_of(text: &str) -> Result<Vec<Field>, Refusal> {
    let mut cursor = Cursor::new(text)?;
    let mut fields = Vec::new();
    while !cursor.is_at_end() {
        fields.push(field(&mut cursor)?);
        if !cursor.eat(",") && !cursor.is_at_end() {
            return Err(cursor.expected("',' or the end"));
        }
    }
    Ok(fields)
}

fn field(cursor: &mut Cursor<'_>) -> Result<Field, Refusal> {
    let mut ahead = cursor.clone();
    if let Some((name, span)) = ahead.name()
        && !ahead.sees("==")
        && ahead.eat("=")
    {
        *cursor = ahead;
        return Ok(Field { name: name.to_string(), span, wanted: wanted(cursor)? });
    }
    nameless(cursor)
}

impl Field {
    /// Reads one that has what it holds for its name; nothing may follow it.
    pub fn parse(text: &str) -> Result<Field, Refusal> {
        let mut cursor = Cursor::new(text)?;
        let field = nameless(&mut cursor)?;
        if cursor.is_at_end() { Ok(field) } else { Err(cursor.expected("the end")) }
    }
}

/// Takes a field that has what it holds for its name.
pub(crate) fn nameless(cursor: &mut Cursor<'_>) -> Result<Field, Refusal> {
    let begin = cursor.at();
    let wanted = wanted(cursor)?;
    let whole = cursor.text().get(begin..cursor.at()).unwrap_or_default().trim_end();
    let span = Span { at: begin, length: whole.len() };
    Ok(Field { name: whole.to_string(), span, wanted })
}

fn wanted(cursor: &mut Cursor<'_>) -> Result<FieldContent, Refusal> {
    let mut ahead = cursor.clone();
    let function = ahead.name().filter(|(name, _)| ahead.sees("(") && Cast::named(name).is_none());
    let function = function.map(|(name, span)| (name.to_string(), span));
    let Some((function, span)) = function else {
        for (word, is_user) in [("stack", false), ("ustack", true)] {
            if cursor.eat_word(word) {
                return Ok(FieldContent::Stack { frames: FRAMES as u32, is_user });
            }
        }
        return path(cursor).map(FieldContent::Value);
    };
    *cursor = ahead;
    cursor.need("(")?;
    let is_user = function.starts_with('u');
    let wanted = match function.as_str() {
        "str" | "ustr" => FieldContent::Text { path: path(cursor)?, is_user },
        "bytes" | "ubytes" => {
            let place = path(cursor)?;
            let plus = if cursor.eat("+") { Some(path(cursor)?) } else { None };
            cursor.need(",")?;
            FieldContent::Bytes { path: place, plus, length: amount(cursor, MOST_BYTES)?, is_user }
        }
        "packet" => {
            let path = path(cursor)?;
            cursor.need(",")?;
            FieldContent::Packet { path, length: amount(cursor, MOST_BYTES)? }
        }
        "stack" | "ustack" => FieldContent::Stack { frames: amount(cursor, MOST_FRAMES)?, is_user },
        "counter" => {
            let (name, span) = cursor.until(&[')']);
            let name = name.trim_end();
            let span = Span { length: name.len(), ..span };
            let counter = Counter::need(name, span, cursor.text())?;
            FieldContent::Counter { counter, name: name.to_string() }
        }
        _ => {
            let expected = "str(), ustr(), bytes(), ubytes(), packet(), stack(), ustack(), counter() or i8() to u64()";
            return Err(span.refuse(cursor.text(), Wrong::Expected { expected }));
        }
    };
    cursor.need(")")?;
    Ok(wanted)
}

fn path(cursor: &mut Cursor<'_>) -> Result<Path, Refusal> {
    Path::parse(cursor)?.ok_or_else(|| cursor.expected("an argument of the event"))
}

fn amount(cursor: &mut Cursor<'_>, most: u64) -> Result<u32, Refusal> {
    let (number, span) = cursor.need_number()?;
    match u32::try_from(number) {
        Ok(amount) if (1..=most).contains(&number) => Ok(amount),
        _ => {
            let allowed = format!("1 to {most}");
            Err(span.refuse(cursor.text(), Wrong::Range { number: number.to_string(), allowed }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_everything_is_read() {
        let event = Event::parse(
            "net:net_dev_queue{len=skb->len, dev=skb->dev->name, bytes(skb->data, 64), stack(3),} \
             if skb->len > 1000 sample 1/100",
        )
        .unwrap();
        assert_eq!(event.name(), "net:net_dev_queue");
        let names: Vec<_> = event.fields.iter().flatten().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["len", "dev", "bytes(skb->data, 64)", "stack(3)"]);
        assert!(event.filter.is_some());
        assert_eq!(event.sampling, Some(Sampling::OneIn(100)));
    }

    #[test]
    fn points_of_all_kinds_are_read() {
        for text in [
            "sched_switch",
            "syscall:openat",
            "syscalls:sys_enter_openat",
            "syscalls:sys_exit_newfstat",
            "io_uring_register",
            "fn:vfs_write",
            "fn:sunrpc:cache_check%return",
            "fn:vfs_write+0x1c",
            "fn:sunrpc:cache_check+0x8",
            "raw:sched_switch",
            "fn:vfs_write%return",
            "user:/lib/x.so:malloc",
            "user:/lib/x.so:a.part.0%return",
            "user:prog:_ZN3fooC1Ev+0x10",
            "user:/a b/c:+0x1234",
            "usdt:libc.so.6:libc:memory_heap_new",
        ] {
            assert_eq!(Event::parse(text).unwrap().name(), text);
        }
        for text in [
            "",
            ":",
            "net:",
            "fn:",
            "fn:a:",
            "fn:a+",
            "fn:a+0x1c%return",
            "raw:",
            "raw:a:b",
            "user:",
            "user::x",
            "user:/x",
            "user:/x:",
            "user:/x:+",
            "user:/x:a+b",
            "usdt:/x:y",
            "usdt:/x:y:",
            "usdt::y:z",
            "a:b}",
        ] {
            assert!(Event::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn system_calls_have_several_names() {
        for (text, name) in [
            ("openat", "syscall:openat"),
            ("syscalls:openat", "syscall:openat"),
            ("sys_exit_openat", "syscalls:sys_exit_openat"),
            ("tracepoint:syscalls:sys_enter_openat", "syscalls:sys_enter_openat"),
        ] {
            assert_eq!(Event::parse(text).unwrap().name(), name);
        }
        let refusal = Event::parse("syscalls:sys_enter_opnat").unwrap_err();
        assert_eq!(refusal.near[0], "sys_enter_openat");
        assert!(Event::parse("syscall:nothing").is_err());
    }

    #[test]
    fn wrong_fields_are_refused() {
        for fields in
            ["{", "{a", "{a b}", "{a,a}", "{f(a)}", "{str()}", "{bytes(a)}", "{bytes(a,0)}"]
        {
            assert!(Event::parse(&format!("x:y{fields}")).is_err(), "{fields}");
        }
        let many = (0..33).map(|n| format!("a{n},")).collect::<String>();
        assert!(Event::parse(&format!("x:y{{{many}}}")).is_err());
    }
}
