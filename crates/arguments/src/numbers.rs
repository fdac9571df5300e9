//! Whole numbers of options. What is none is refused with what is expected, not with what a parser of digits
//! met.

use std::time::Duration;

use weigh_schema::amount::parse_duration;

/// The number of a process.
pub fn pid(text: &str) -> Result<u32, String> {
    // The kernel's own type of them has a sign.
    let found = text.parse().ok().filter(|pid| (1..=i32::MAX as u32).contains(pid));
    found.ok_or_else(|| "expected the number of a process (PID), such as 4242".to_string())
}

/// How many programs somebody may have: for none of them nobody need serve.
pub fn programs(text: &str) -> Result<usize, String> {
    let found = text.parse().ok().filter(|count| *count > 0);
    found.ok_or_else(|| "expected a number of programs, 1 at least".to_string())
}

/// How often something is looked at or told.
pub fn interval(text: &str) -> Result<Duration, String> {
    let found = parse_duration(text).ok();
    let found = found
        .filter(|time| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(time));
    found.ok_or_else(|| "expected a time from 0.1s to 1h".to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::verb::Arguments;

    fn said(line: &str) -> String {
        let words = std::iter::once("weigh").chain(line.split(' '));
        Arguments::try_parse_from(words).map(|_| String::new()).unwrap_or_else(|e| e.to_string())
    }

    #[test]
    fn what_is_no_number_of_a_process_is_refused_with_what_is_expected() {
        for verb in ["run", "calls", "io", "trace", "trace packets"] {
            for wrong in ["x", "0", "-1", "1.5", "4294967295", ""] {
                let said = said(&format!("{verb} --pid={wrong}"));
                assert!(
                    said.contains("expected the number of a process"),
                    "{verb} {wrong}: {said}"
                );
            }
            assert!(!said(&format!("{verb} --pid=4242")).contains("expected"), "{verb}");
        }
        assert!(said("trace attach x").contains("expected the number of a process"));
        assert!(said("trace ctl --stream x").contains("expected the number of a process"));
    }

    #[test]
    fn the_node_is_looked_at_ten_times_a_second_at_most() {
        for wrong in ["0", "0.05s", "2h", "x"] {
            let said = said(&format!("top --interval={wrong}"));
            assert!(said.contains("expected a time from 0.1s to 1h"), "{wrong}: {said}");
        }
        assert_eq!(said("top --interval=0.1s"), "");
    }

    #[test]
    fn an_agent_serves_one_program_of_a_user_at_least() {
        for wrong in ["0", "x", "-1", ""] {
            let said = said(&format!("agent --per-user={wrong}"));
            assert!(said.contains("expected a number of programs, 1 at least"), "{wrong}: {said}");
        }
        assert_eq!(said("agent --per-user=1"), "");
    }
}
