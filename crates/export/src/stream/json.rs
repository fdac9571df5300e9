//! Values of records as JSON.

use std::io::{self, Write as _};
use std::rc::Rc;

use weigh_schema::base64;
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::sink::Meaning;
use weigh_trace::value::Value;

/// The fields of a record as members of an object, with commas between them. `words` are what stands in place of a
/// value, if there are any.
pub fn fields(
    to: &mut Vec<u8>,
    probe: &Probe,
    record: Record<'_>,
    meaning: &Meaning,
    words: impl Fn(&ProbeField, &Value<'_>) -> Option<String>,
) -> io::Result<()> {
    for (number, (field, found)) in probe.fields.iter().zip(probe.values(record)).enumerate() {
        if number > 0 {
            to.push(b',');
        }
        text(to, field.name.as_bytes())?;
        to.push(b':');
        match meaning.stack(&found, record) {
            Some(names) => list(to, &names)?,
            None => match words(field, &found) {
                Some(words) => text(to, words.as_bytes())?,
                None => value(to, &found)?,
            },
        }
        bytes_beside(to, &field.name, &found)?;
    }
    Ok(())
}

/// Behind a text whose bytes are no UTF-8: these in Base64.
fn bytes_beside(to: &mut Vec<u8>, name: &str, value: &Value<'_>) -> io::Result<()> {
    match value {
        Value::Text(bytes) if std::str::from_utf8(bytes).is_err() => {
            to.push(b',');
            text(to, format!("{name}_base64").as_bytes())?;
            write!(to, ":\"{}\"", base64::encode(bytes))
        }
        _ => Ok(()),
    }
}

/// A value, but for a stack.
pub fn value(to: &mut Vec<u8>, value: &Value<'_>) -> io::Result<()> {
    match value {
        Value::Absent => write!(to, "null"),
        Value::Unsigned(_) | Value::Signed(_) | Value::Bool(_) | Value::Constant(_, None) => {
            write!(to, "{value}")
        }
        Value::Pointer(_) | Value::Bytes(_) | Value::Address(_) => write!(to, "\"{value}\""),
        Value::Constant(_, Some(name)) => text(to, name.as_bytes()),
        Value::Text(bytes) => text(to, bytes),
        // A list of names, by who knows them.
        Value::Stack { .. } => write!(to, "null"),
    }
}

/// Names of functions.
pub fn list(to: &mut Vec<u8>, names: &[Rc<str>]) -> io::Result<()> {
    let mut separator = "";
    to.push(b'[');
    for name in names {
        to.write_all(separator.as_bytes())?;
        text(to, name.as_bytes())?;
        separator = ",";
    }
    to.push(b']');
    Ok(())
}

/// A text in quotation marks; what is not UTF-8 is replaced.
pub fn text(to: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    to.push(b'"');
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '"' | '\\' => write!(to, "\\{c}")?,
            '\u{0}'..='\u{1f}' | '\u{7f}' => write!(to, "\\u{:04x}", u32::from(c))?,
            c => write!(to, "{c}")?,
        }
    }
    to.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_json_text() {
        for bytes in [&b"plain"[..], b"a\"b\\c\n\x01\x7f", b"\xff\xfe", "ä€".as_bytes()] {
            let mut written = Vec::new();
            text(&mut written, bytes).expect("memory takes it");
            let read: String = serde_json::from_slice(&written).expect("JSON");
            assert_eq!(read, String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn bytes_stand_beside_what_is_no_text() {
        for (bytes, expected) in [(&b"a\xff"[..], ",\"comm_base64\":\"Yf8=\""), (b"plain", "")] {
            let mut written = Vec::new();
            bytes_beside(&mut written, "comm", &Value::Text(bytes)).expect("memory takes it");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }

    #[test]
    fn a_stack_is_a_list_even_if_it_is_empty() {
        let one: &[Rc<str>] = &["a\"b".into()];
        for (names, expected) in [(&[][..], "[]"), (one, "[\"a\\\"b\"]")] {
            let mut written = Vec::new();
            list(&mut written, names).expect("memory takes it");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }
}
