//! Lines of StatsD: `name:value|type`, with a rate of sampling (`|@0.1`) and tags, which are left out (`|#…`).
//!
//! Reads datagrams of anybody on this machine; emits values. Refuses lines of other forms, types that are not below, and
//! values that are no finite numbers.

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsdKind {
    /// The present value (`g`).
    Gauge,
    /// What is added to the present value (`g`, with a sign).
    GaugeChange,
    /// What is added to a count (`c`), for all that were not sampled, too.
    Counter,
    /// One duration, in milliseconds (`ms`), or a value of a distribution (`h`, `d`).
    Timer,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatsdValue<'a> {
    /// The name, as it came.
    pub name: &'a str,
    /// The value.
    pub value: f64,
    /// What it is.
    pub kind: StatsdKind,
    /// How many values it stands for: more than 1 where it was sampled.
    pub count: f64,
}

/// Gives each value of a datagram; how many lines were refused.
pub fn each_value<'a>(datagram: &'a [u8], take: &mut dyn FnMut(StatsdValue<'a>)) -> u64 {
    let lines = datagram.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut refused = 0;
    for line in lines {
        match std::str::from_utf8(line).ok().and_then(|line| parse(line.trim())) {
            Some(value) => take(value),
            None => refused += 1,
        }
    }
    refused
}

fn parse(line: &str) -> Option<StatsdValue<'_>> {
    let (name, rest) = line.split_once(':')?;
    let mut parts = rest.split('|');
    let (text, kind) = (parts.next()?, parts.next()?);
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    let has_sign = text.starts_with(['+', '-']);
    let kind = match kind {
        "g" if has_sign => StatsdKind::GaugeChange,
        "g" => StatsdKind::Gauge,
        "c" => StatsdKind::Counter,
        "ms" | "h" | "d" => StatsdKind::Timer,
        _ => return None,
    };
    let mut rate = 1.0;
    for part in parts {
        if let Some(text) = part.strip_prefix('@') {
            rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= 1.0)?;
        }
    }
    let count = 1.0 / rate;
    let all = value * count;
    let value = if kind == StatsdKind::Counter { all } else { value };
    (!name.is_empty() && count.is_finite() && all.is_finite()).then_some(StatsdValue {
        name,
        value,
        kind,
        count,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(datagram: &str) -> (Vec<(String, f64, StatsdKind, f64)>, u64) {
        let mut found = Vec::new();
        let refused = each_value(datagram.as_bytes(), &mut |v: StatsdValue<'_>| {
            found.push((v.name.to_string(), v.value, v.kind, v.count));
        });
        (found, refused)
    }

    #[test]
    fn each_type_is_what_its_line_says() {
        use StatsdKind::{Counter, Gauge, GaugeChange, Timer};
        let text =
            "a.b:3|c\nc:2|c|@0.25\nq:17|g\nq:-4.5|g\nq:+1|g|#host:x\n\nt:320|ms|@0.5\nh:1|h\r\n";
        let (found, refused) = values(text);
        let expected = [
            ("a.b", 3.0, Counter, 1.0),
            ("c", 8.0, Counter, 4.0),
            ("q", 17.0, Gauge, 1.0),
            ("q", -4.5, GaugeChange, 1.0),
            ("q", 1.0, GaugeChange, 1.0),
            ("t", 320.0, Timer, 2.0),
            ("h", 1.0, Timer, 1.0),
        ];
        let expected =
            expected.map(|(name, value, kind, count)| (name.to_string(), value, kind, count));
        assert_eq!((found, refused), (expected.to_vec(), 0));
    }

    #[test]
    fn other_lines_are_refused_and_counted() {
        let wrong = [
            "a",
            "a:1",
            ":1|c",
            "a:|c",
            "a:x|c",
            "a:nan|g",
            "a:inf|g",
            "a:1|s",
            "a:1|c|@0",
            "a:1|c|@2",
            "a:1e308|c|@1e-300",
        ];
        assert_eq!(values(&wrong.join("\n")), (Vec::new(), wrong.len() as u64));
        assert_eq!(each_value(b"a\xff:1|c", &mut |_| panic!("no name")), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in any::<Vec<u8>>(), line in ".{0,9}:[-+0-9.e]{0,9}\\|[a-z]{0,2}(\\|@[0-9.e-]{0,9})?") {
            for datagram in [&bytes[..], line.as_bytes()] {
                each_value(datagram, &mut |found: StatsdValue<'_>| {
                    assert!(found.value.is_finite() && found.count >= 1.0 && !found.name.is_empty());
                });
            }
        }
    }
}
