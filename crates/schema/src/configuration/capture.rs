//! What is captured of a function's arguments: `skb->len`, `&skb->dev->qdisc`, `count`, `return`.
//!
//! Written as in C: a name of an argument, and fields behind it. With `&` in front it is the
//! address of the last field instead of what it holds. `.` and `->` mean the same: which of them
//! follows a pointer is the kernel's type information to say.

use super::refusal::At;

/// What stands for the value that a function returns.
pub const RETURN: &str = "return";

/// The most fields that may follow each other.
pub const MOST_STEPS: usize = 6;

/// Something to capture, not yet looked up in a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// What it is called in the account, if it is added up there.
    pub name: String,
    /// As it was written.
    pub text: String,
    /// Where.
    pub at: At,
    /// The argument it begins with, or [`RETURN`].
    pub argument: String,
    /// The fields.
    pub steps: Vec<Step>,
    /// Whether it is the address of the last field.
    pub is_address: bool,
}

/// A field of what came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub field: String,
}

impl Capture {
    /// Whether it is known only when the function returns.
    pub fn is_of_return(&self) -> bool {
        self.argument == RETURN
    }
}

/// Reads what is to be captured; what was expected if it cannot be.
pub fn parse(text: &str, name: &str, at: At) -> Result<Capture, String> {
    let trimmed = text.trim();
    let is_address = trimmed.starts_with('&');
    let path = trimmed.trim_start_matches('&').trim_start();
    let path = path.replace("->", ".");
    let mut names = path.split('.').map(str::trim);
    let argument = names.next().unwrap_or_default().to_string();
    let steps: Vec<Step> = names.map(|field| Step { field: field.to_string() }).collect();
    let all = std::iter::once(&argument).chain(steps.iter().map(|step| &step.field));
    if let Some(wrong) = all.clone().find(|name| !is_identifier(name)) {
        return Err(format!(
            "an argument's name and fields behind it, such as skb->len, &skb->dev->qdisc, count, \
             or {RETURN}; '{wrong}' is no name"
        ));
    }
    if trimmed.starts_with("&&") || (is_address && steps.is_empty()) {
        return Err("a field behind &: an argument itself has no address".to_string());
    }
    if argument == RETURN && !steps.is_empty() {
        return Err(format!("{RETURN} alone: no fields of what is returned can be captured"));
    }
    if steps.len() > MOST_STEPS {
        return Err(format!("at most {MOST_STEPS} fields one after the other"));
    }
    Ok(Capture { name: name.to_string(), text: text.to_string(), at, argument, steps, is_address })
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Capture, String> {
        parse(text, "", At::default())
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_path_as_in_c() {
        let capture = read(" &skb->dev->qdisc ").unwrap();
        let fields: Vec<&str> = capture.steps.iter().map(|step| step.field.as_str()).collect();
        assert_eq!(
            (capture.argument.as_str(), fields, capture.is_address),
            ("skb", vec!["dev", "qdisc"], true)
        );
        assert_eq!(read("iocb . ki_pos").unwrap().steps.len(), 1);
        assert!(read("count").unwrap().steps.is_empty());
        assert!(read("return").unwrap().is_of_return());
    }

    #[test]
    fn what_is_no_path_says_what_is_expected() {
        for (text, expected) in [
            ("", "'' is no name"),
            ("skb->", "'' is no name"),
            ("skb->9", "'9' is no name"),
            ("skb+4", "'skb+4' is no name"),
            ("&skb", "a field behind &"),
            ("&&skb->dev", "a field behind &"),
            ("return->len", "return alone"),
            ("a.b.c.d.e.f.g.h", "at most 6 fields"),
        ] {
            let refusal = read(text).expect_err(text);
            assert!(refusal.contains(expected), "{text}: {refusal}");
        }
    }
}
