//! Filters as text, in the language of weigh, whatever they were written in.

use std::fmt;

use crate::filter::{COMPARISONS, Comparison, Filter, Item, Operand};
use crate::packet_header;
use crate::path::{Cast, Path, Step};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = COMPARISONS.iter().find(|(_, how)| how == self);
        f.write_str(mark.map_or("==", |(mark, _)| mark))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Or(a, b) => write!(f, "{a} || {b}"),
            Filter::And(a, b) => write!(f, "{} && {}", part(a), part(b)),
            Filter::Not(of) => match **of {
                Filter::Compare { mask: None, right: Operand::Number { span, .. }, .. }
                    if span.length == 0 =>
                {
                    write!(f, "!{of}")
                }
                _ => write!(f, "!({of})"),
            },
            Filter::Compare { left, mask, how, right } => {
                write!(f, "{left}")?;
                if let Some(mask) = mask {
                    write!(f, " & {}", bits(mask))?;
                }
                match right {
                    // Alone it means: not 0.
                    Operand::Number { value: 0, span } if span.length == 0 => Ok(()),
                    right => write!(f, " {how} {right}"),
                }
            }
            Filter::In { left, items } => match &items[..] {
                [one] => write!(f, "{left} in {one}"),
                _ => {
                    let items: Vec<String> = items.iter().map(Item::to_string).collect();
                    write!(f, "{left} in ({})", items.join(", "))
                }
            },
        }
    }
}

/// A part of what "and" joins.
fn part(filter: &Filter) -> String {
    match filter {
        Filter::Or(..) => format!("({filter})"),
        _ => filter.to_string(),
    }
}

fn bits(mask: &Operand) -> String {
    match mask {
        Operand::Number { value, .. } if *value > 9 => format!("{value:#x}"),
        other => other.to_string(),
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::One(value) => write!(f, "{value}"),
            Item::Range(first, last) => write!(f, "{first}..{last}"),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Path(path) => write!(f, "{path}"),
            Operand::Number { value, .. } => write!(f, "{value}"),
            Operand::Address { prefix, .. } => write!(f, "{prefix}"),
            Operand::Text { value, .. } => {
                write!(f, "\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = packet_header::dotted(self).filter(|name| packet_header::is_name(name));
        let text = name.unwrap_or_else(|| {
            let mut text = self.base.clone();
            for (step, _) in &self.steps {
                match step {
                    Step::Member(member) => text.extend(["->", member]),
                    Step::Index(index) => text.push_str(&format!("[{index}]")),
                }
            }
            text
        });
        match self.cast.and_then(Cast::word) {
            Some(cast) => write!(f, "{cast}({text})"),
            None => f.write_str(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_written_as_they_are_read() {
        for text in [
            "port == 53",
            "(udp && host == 10.0.0.0/8 || tcp) && !arp && !(tgid == 3)",
            "tcp.flags & 0x12 == 2 || comm != \"a \\\" b\\\\\"",
            "cpu in 0..3 && tgid in (1, 2, 7..9)",
            "u16(skb->len) > 3 && a->b[3]->c",
        ] {
            assert_eq!(Filter::parse(text).unwrap().to_string(), text);
        }
    }
}
