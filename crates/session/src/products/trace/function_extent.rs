//! The length of a function of the kernel: a place behind its end would be one of the next one's, and the kernel says
//! nothing of it.
//!
//! Reads the kernel's list of symbols; refuses events at instructions that are not within their function. Where the list
//! has no addresses, for want of rights, the kernel has the last word.

use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Point};

const SYMBOLS: &str = "/proc/kallsyms";

/// A symbol of code: `ADDRESS t NAME\t[MODULE]`.
struct Symbol<'t> {
    address: u64,
    name: &'t str,
    module: Option<&'t str>,
}

fn symbol(line: &str) -> Option<Symbol<'_>> {
    let (symbol, module) = match line.split_once('\t') {
        Some((symbol, module)) => (symbol, Some(module.trim_matches(['[', ']']))),
        None => (line, None),
    };
    let mut words = symbol.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    is_code.then_some(Symbol { address, name: words.next()?, module })
}

/// How far it is to the next function; none if that is not known, or there are several of the name.
fn length(symbols: &str, name: &str, module: Option<&str>) -> Option<u64> {
    let is_it = |s: &Symbol<'_>| s.name == name && s.module == module && s.address != 0;
    let mut found = symbols.lines().filter_map(symbol).filter(is_it);
    let (only, None) = (found.next()?, found.next()) else { return None };
    let behind = symbols.lines().filter_map(symbol).map(|s| s.address);
    Some(behind.filter(|address| *address > only.address).min()? - only.address)
}

/// Refuses an instruction that its function does not have.
pub fn check_instruction(event: &Event) -> Result<(), Refusal> {
    let Point::Function { module, name, plus: plus @ 1.., .. } = &event.point else {
        return Ok(());
    };
    let Ok(symbols) = std::fs::read_to_string(SYMBOLS) else { return Ok(()) };
    match length(&symbols, name, module.as_deref()) {
        Some(length) if *plus >= length => {
            let why = format!("{name}+{plus:#x}: the function ends at +{length:#x}");
            Err(event.span.refuse(&event.text, Wrong::Unsupported(why)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffff0010 T first\nffff0030 t second\nffff0038 d no_code\nffff0030 t alias\n\
                           ffff0050 T third\nffff9000 t first\t[module]\nffff9004 t last\t[module]\n\
                           ffffa000 t twice\nffffb000 t twice\n";

    #[test]
    fn a_function_reaches_to_the_next_one_whatever_data_lies_between() {
        let of = |name, module| length(SYMBOLS, name, module);
        assert_eq!(of("first", None), Some(0x20));
        assert_eq!(of("second", None), Some(0x20));
        assert_eq!(of("first", Some("module")), Some(4));
        assert_eq!(of("last", None), None, "it is a module's");
        assert_eq!(of("twice", None), None, "which of them is not said");
        assert_eq!(length(&SYMBOLS.replace("ffff0010", "00000000"), "first", None), None);
    }
}
