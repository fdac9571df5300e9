//! Sizes, durations and plain numbers as people write them: `2GiB`, `500MB`, `1024`, `90s`,
//! `1h30m`; and the way back, for tables.
//!
//! Reads text from command lines and limit files; refuses with a sentence that names what was
//! expected.

use std::time::Duration;

use crate::unit::Unit;

/// Why an amount could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmountError {
    /// What was written.
    pub text: String,
    /// What would have been right.
    pub expected: &'static str,
}

impl std::fmt::Display for AmountError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' is not {}", self.text, self.expected)
    }
}

impl std::error::Error for AmountError {}

const SIZE: &str = "a size: a number with an optional unit B, kB, MB, GB, TB, PB (powers of 1000) or KiB, MiB, GiB, TiB, PiB (powers of 1024)";
const DURATION: &str =
    "a duration: numbers with units ns, us, ms, s, m, h or d, such as 90s, 250ms or 1h30m";
const NUMBER: &str = "a number, such as 1000 or 2.5";
const COUNT: &str = "a whole number, such as 1000";

/// How many of a hundred, rounded: 100 if it is all of it, and 0 if it is nothing, only.
pub fn percent(part: u64, whole: u64) -> u64 {
    match (part, whole) {
        (_, 0) | (0, _) => 0,
        (part, whole) if part >= whole => 100,
        (part, whole) => ((100.0 * part as f64 / whole as f64).round() as u64).clamp(1, 99),
    }
}

/// Splits `text` into its leading decimal number and the rest.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, &text[end..]))
}

/// Bytes in a unit of sizes, as people write it.
fn bytes_in(unit: &str) -> Option<f64> {
    Some(match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "ki" | "kib" => 1024.0,
        "mi" | "mib" => 1024.0 * 1024.0,
        "gi" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "ti" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "p" | "pb" => 1e15,
        "pi" | "pib" => 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// Reads a size in bytes.
pub fn parse_size(text: &str) -> Result<u64, AmountError> {
    let refuse = || AmountError { text: text.to_string(), expected: SIZE };
    let (number, unit) = leading_number(text.trim()).ok_or_else(refuse)?;
    let bytes = number * bytes_in(unit).ok_or_else(refuse)?;
    if bytes >= u64::MAX as f64 {
        return Err(refuse());
    }
    Ok(bytes.round() as u64)
}

/// Reads a duration; a plain number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, AmountError> {
    let refuse = || AmountError { text: text.to_string(), expected: DURATION };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(refuse());
    }
    let mut seconds = 0.0;
    let mut parts = 0;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest).ok_or_else(refuse)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let factor = match &after[..end] {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "" if parts == 0 && after.is_empty() => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(refuse()),
        };
        seconds += number * factor;
        parts += 1;
        rest = after[end..].trim_start();
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| refuse())
}

/// Reads an amount of the given unit, in that unit.
pub fn parse_amount(text: &str, unit: Unit) -> Result<f64, AmountError> {
    match unit {
        Unit::Bytes => parse_size(text).map(|bytes| bytes as f64),
        Unit::Seconds => parse_duration(text).map(|d| d.as_secs_f64()),
        _ => {
            let expected = if unit == Unit::Count { COUNT } else { NUMBER };
            let is_one =
                |n: &f64| n.is_finite() && *n >= 0.0 && (unit != Unit::Count || n.fract() == 0.0);
            let number = text.trim().parse::<f64>().ok().filter(is_one);
            number.ok_or_else(|| AmountError { text: text.to_string(), expected })
        }
    }
}

/// A size for people: `257.0 MiB`.
pub fn show_size(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A size in the unit of another one, as that was written: `47.7MB` like `50MB`; in its own where that would be nearly 0.
pub fn show_size_like(bytes: f64, written: &str) -> String {
    let unit = leading_number(written.trim()).map_or("", |(_, unit)| unit);
    match bytes_in(unit) {
        Some(factor) if factor > 1.0 && bytes >= 0.1 * factor => {
            format!("{:.1}{unit}", bytes / factor)
        }
        _ => show_size(bytes),
    }
}

/// A duration for people: `2.345 s`, `12.3 ms`, `3 min 20 s`.
pub fn show_seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_string(),
        // In tenths of a microsecond it would be none.
        s if s.abs() < 0.5e-9 => "under 1 ns".to_string(),
        s if s.abs() < 0.1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.3} s"),
        s if s < 7200.0 => format!("{} min {:02.0} s", (s / 60.0) as u64, (s % 60.0).floor()),
        s => format!("{} h {:02} min", (s / 3600.0) as u64, ((s % 3600.0) / 60.0) as u64),
    }
}

/// A count for people, its thousands apart: `1 234 567`.
pub fn show_count(count: f64) -> String {
    let digits = format!("{:.0}", count);
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && c.is_ascii_digit() {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// So many of something: `1 call`, `1 234 calls`.
pub fn show_number_of(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", show_count(count as f64), if count == 1 { one } else { several })
}

/// A value of the given unit, for people.
pub fn show_amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => show_size(value),
        Unit::Seconds => show_seconds(value),
        Unit::Count => show_count(value),
        Unit::Cores => format!("{value:.2}"),
        Unit::Ratio => format!("{:.1} %", value * 100.0),
        Unit::Threads => format!("{value:.2}"),
        Unit::Celsius => format!("{value:.1} °C"),
        Unit::Watts => format!("{value:.1} W"),
        Unit::Joules => format!("{value:.1} J"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_is_all_and_nothing_else() {
        assert_eq!([percent(9995, 10_000), percent(10_000, 10_000)], [99, 100]);
        assert_eq!([percent(1, 10_000), percent(0, 10_000), percent(0, 0)], [1, 0, 0]);
        assert_eq!([percent(2, 3), percent(u64::MAX, u64::MAX)], [67, 100]);
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("500MB"), Ok(500_000_000));
        assert_eq!(parse_size("1024"), Ok(1024));
        assert_eq!(parse_size("1.5 KiB"), Ok(1536));
        for bad in ["", "GiB", "-1", "12 parsecs", "1e400", "99999999999999999TiB", "1..2"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_is_told_in_the_unit_of_another() {
        assert_eq!(show_size_like(47_700_000.0, "50MB"), "47.7MB");
        assert_eq!(show_size_like(1536.0 * 1024.0, "2 MiB"), "1.5 MiB");
        assert_eq!(show_size_like(2048.0, "1000"), "2.0 KiB");
        assert_eq!(show_size_like(52_000_000.0, "8GiB"), "49.6 MiB");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
        for bad in ["", "s", "1x", "1h30", "-3s", "1 2"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_that_is_not_0_is_not_shown_as_0() {
        for (seconds, shown) in [
            (0.0, "0 s"),
            (0.3e-9, "under 1 ns"),
            (40e-9, "40 ns"),
            (0.12e-6, "0.1 us"),
            (1.5e-3, "1.5 ms"),
            (-2e-6, "-2.0 us"),
        ] {
            assert_eq!(show_seconds(seconds), shown);
        }
    }

    #[test]
    fn one_is_not_several() {
        assert_eq!(show_number_of(1, "entry", "entries"), "1 entry");
        assert_eq!(show_number_of(0, "entry", "entries"), "0 entries");
        assert_eq!(show_number_of(1112, "entry", "entries"), "1\u{202f}112 entries");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = parse_size(&text);
            let _ = parse_duration(&text);
            let _ = parse_amount(&text, Unit::Count);
        }

        #[test]
        fn a_size_that_was_shown_is_near_what_it_was(bytes in 0u64..1u64 << 50) {
            let read = parse_size(&show_size(bytes as f64)).expect("own output is readable");
            prop_assert!(read.abs_diff(bytes) as f64 <= bytes as f64 * 0.06);
        }
    }
}
