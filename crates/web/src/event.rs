//! One server-sent event as bytes.

use bytes::Bytes;
use serde::Serialize;

/// An event with its data as JSON, which has no line breaks.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_string());
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_three_lines_whatever_its_text_is() {
        let text = event("job", &"a\nb\r\n\ndata: x\u{2028}");
        let text = std::str::from_utf8(&text).unwrap();
        assert_eq!(text.matches('\n').count(), 3);
        assert!(text.starts_with("event: job\ndata: \"a\\nb") && text.ends_with("\"\n\n"));
    }
}
