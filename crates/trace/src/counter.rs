//! Counters of the CPU and of the kernel, as a field of an event: `counter(cycles)`.
//!
//! Reads their names, and raw ones (`r01c2`: the processor's own number, hexadecimal); emits what the kernel
//! calls them (`perf_event_open(2)`). Refuses other names, with the nearest. Whether this machine has a counter
//! is not looked at here.

use std::fmt;

use crate::error::{Refusal, Span, Wrong};
use crate::suggest::nearest;

/// What is counted: `PERF_TYPE_*`, and what that type calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The type.
    pub kind: u32,
    /// Its number there.
    pub config: u64,
}

/// A counter that has a name.
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// Another one; empty if it has none.
    also: &'static str,
    /// What it is.
    pub counter: Counter,
    /// What it counts.
    pub help: &'static str,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

macro_rules! counters {
    ($($name:literal $also:literal $kind:ident $config:literal $help:literal;)+) => {
        /// All that have a name.
        pub const COUNTERS: &[Named] = &[$(Named {
            name: $name,
            also: $also,
            counter: Counter { kind: $kind, config: $config },
            help: $help,
        }),+];
    };
}

counters! {
    "cycles" "cpu-cycles" HARDWARE 0 "cycles of the processor, as fast as it is clocked";
    "instructions" "" HARDWARE 1 "instructions that were retired";
    "cache-references" "" HARDWARE 2 "accesses to the last cache, mostly";
    "cache-misses" "" HARDWARE 3 "accesses that it could not answer";
    "branches" "branch-instructions" HARDWARE 4 "branches that were retired";
    "branch-misses" "" HARDWARE 5 "branches that were guessed wrongly";
    "bus-cycles" "" HARDWARE 6 "cycles of the bus";
    "stalled-cycles-frontend" "" HARDWARE 7 "cycles without instructions to begin";
    "stalled-cycles-backend" "" HARDWARE 8 "cycles without room to end any";
    "ref-cycles" "" HARDWARE 9 "cycles at a clock that does not change";
    "L1-dcache-load-misses" "" CACHE 0x1_0000 "loads that the first cache of data could not answer";
    "LLC-load-misses" "" CACHE 0x1_0002 "loads that the last cache could not answer";
    "dTLB-load-misses" "" CACHE 0x1_0003 "loads whose address had to be looked up";
    "iTLB-load-misses" "" CACHE 0x1_0004 "instructions whose address had to be looked up";
    "cpu-clock" "" SOFTWARE 0 "time of the CPU, in nanoseconds";
    "task-clock" "" SOFTWARE 1 "the same: it is counted for the CPU, whatever it executes";
    "page-faults" "faults" SOFTWARE 2 "page faults";
    "context-switches" "cs" SOFTWARE 3 "switches from one thread to another";
    "cpu-migrations" "migrations" SOFTWARE 4 "threads that came from another CPU";
    "minor-faults" "" SOFTWARE 5 "page faults that needed no device";
    "major-faults" "" SOFTWARE 6 "page faults that needed one";
    "alignment-faults" "" SOFTWARE 7 "accesses that had to be put right";
    "emulation-faults" "" SOFTWARE 8 "instructions that had to be done by the kernel";
}

impl Counter {
    /// The one that is written so; `_` and `-` mean the same.
    pub fn named(word: &str) -> Option<Counter> {
        let word = word.replace('_', "-");
        let is_it = |named: &&Named| {
            let names = [named.name, named.also];
            !word.is_empty() && names.iter().any(|name| name.eq_ignore_ascii_case(&word))
        };
        if let Some(named) = COUNTERS.iter().find(is_it) {
            return Some(named.counter);
        }
        let digits = word.strip_prefix('r').filter(|digits| (1..=16).contains(&digits.len()))?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let config = u64::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
        Some(Counter { kind: RAW, config })
    }

    /// The same, or why not.
    pub(crate) fn need(word: &str, span: Span, text: &str) -> Result<Counter, Refusal> {
        Counter::named(word).ok_or_else(|| {
            let names = COUNTERS.iter().flat_map(|named| [named.name, named.also]);
            let near = nearest(word, names);
            span.refuse(text, Wrong::NoCounter(word.to_string())).near(near)
        })
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match COUNTERS.iter().find(|named| named.counter == *self) {
            Some(named) => write!(f, "{}", named.name),
            None => write!(f, "r{:x}", self.config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_names_and_numbers() {
        let hardware = |config| Some(Counter { kind: HARDWARE, config });
        for (word, counter) in [
            ("cycles", hardware(0)),
            ("cpu_cycles", hardware(0)),
            ("cache_misses", hardware(3)),
            ("ref-cycles", hardware(9)),
            ("llc-load-misses", Some(Counter { kind: CACHE, config: 0x1_0002 })),
            ("page-faults", Some(Counter { kind: SOFTWARE, config: 2 })),
            ("r01c2", Some(Counter { kind: RAW, config: 0x1c2 })),
            ("", None),
            ("r", None),
            ("r+1", None),
            ("r12345678901234567", None),
            ("cycle", None),
        ] {
            assert_eq!(Counter::named(word), counter, "{word}");
        }
        let refusal = Counter::need("cylces", Span::default(), "cylces").unwrap_err();
        assert_eq!(refusal.near.first().map(String::as_str), Some("cycles"));
    }
}
