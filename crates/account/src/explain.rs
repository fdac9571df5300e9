//! Slow calls beside ordinary ones: what the slow ones have more of, and who was in their way.
//!
//! Reads the rows of calls twice: a [`survey::Survey`] finds out how long calls of each kind take, a
//! [`compare::Comparison`] adds up the slow and the ordinary ones. Emits a report. What is held grows with
//! the kinds of calls, not with the calls.

mod bucket;
mod call_kind;
mod compare;
mod counters;
mod intervals;
mod outcomes;
mod phase;
mod request;
mod survey;
mod tally;

pub use compare::{FollowedCommand, Missing};
pub use phase::{PhaseSurvey, PhaseTimes};
pub use request::{CallReader, ExplainRequest, NothingToExplain, explain};

#[cfg(test)]
mod tests {
    use super::intervals::Intervals;
    use super::survey::Survey;
    use super::*;
    use weigh_schema::call::{Interval, Rival};
    use weigh_schema::call_row::{COST_COLUMNS, CallRow};
    use weigh_schema::explain::{
        AskedToken, Doing, ExplainReport, INTERVAL, Of, SlowRule, Verdict,
    };

    fn row(call: &str, numbers: &[(&str, u64)]) -> CallRow {
        let mut row = CallRow { call: call.into(), measured: u64::MAX, ..CallRow::default() };
        let mut time = 0;
        for (name, raw) in numbers {
            let column = COST_COLUMNS.iter().find(|c| c.name == *name).unwrap();
            column.set_raw(&mut row, *raw);
            let is_time = name.ends_with("_time_seconds") || name.ends_with("_waiting_seconds");
            time += if is_time || *name == "sched_run_queue_seconds" { *raw } else { 0 };
        }
        row.account.set_time_ns(time);
        row
    }

    fn explain(rows: &[CallRow], rule: &str) -> ExplainReport {
        let mut survey = Survey::default();
        rows.iter().for_each(|row| survey.add(row));
        let mut comparison = survey.compare(rule.parse().unwrap());
        rows.iter().for_each(|row| comparison.add(row));
        comparison.report(Of::Call, FollowedCommand::default(), Missing::default())
    }

    /// 1,000 fsyncs of about 1.1 ms, and 8 that wait 6.9 ms more for the device.
    fn fsyncs() -> Vec<CallRow> {
        let usual = |i: u64| {
            let waiting = 750_000 + i % 100 * 5_000;
            row(
                "fsync",
                &[
                    ("kernel_time_seconds", 100_000),
                    ("block_waiting_seconds", waiting),
                    ("block_requests_total", 1),
                ],
            )
        };
        let slow = || {
            row(
                "fsync",
                &[
                    ("kernel_time_seconds", 100_000),
                    ("block_waiting_seconds", 7_900_000),
                    ("sched_run_queue_seconds", 50_000),
                    ("block_requests_total", 4),
                ],
            )
        };
        (0..1000).map(usual).chain((0..8).map(|_| slow())).collect()
    }

    #[test]
    fn the_part_that_makes_calls_slow_is_named_first_with_its_counts() {
        let report = explain(&fsyncs(), "1%");
        let fsync = &report.kinds[0];
        assert_eq!((fsync.verdict, fsync.calls_total), (Verdict::Differ, 1008));
        assert_eq!(fsync.slow.calls_total, 8);
        assert!((fsync.slow.mean_seconds - 8.05e-3).abs() < 1e-9, "{:?}", fsync.slow);
        assert!((480..600).contains(&fsync.ordinary.calls_total), "{:?}", fsync.ordinary);
        let [first, second] = &fsync.differences[..] else { panic!("{:?}", fsync.differences) };
        assert_eq!((first.subsystem.as_str(), first.doing), ("block", Doing::Waiting));
        assert!((first.more_seconds - 6.9e-3).abs() < 3e-5, "{first:?}");
        let [requests] = &fsync.counters[..] else { panic!("{:?}", fsync.counters) };
        assert_eq!((requests.subsystem.as_deref(), requests.slow), (Some("block"), 4.0));
        assert_eq!((second.subsystem.as_str(), second.doing), ("sched", Doing::Runnable));
        let more: f64 = fsync.differences.iter().map(|d| d.more_seconds).sum();
        let difference = fsync.slow.mean_seconds - fsync.ordinary.mean_seconds;
        assert!((more - difference).abs() < 1e-12, "{more} {difference}");
    }

    /// Names that are no UTF-8 look alike.
    #[test]
    fn files_of_two_names_that_look_alike_are_two_kinds() {
        let of = |bytes: &str| {
            let (of, of_base64) = (Some("/a\u{fffd}".into()), Some(bytes.into()));
            CallRow { of, of_base64, ..row("write", &[("kernel_time_seconds", 1_000)]) }
        };
        let rows: Vec<CallRow> =
            (0..100).map(|i| of(if i % 4 == 0 { "L2H/" } else { "L2H+" })).collect();
        let report = explain(&rows, "1%");
        let kinds: Vec<_> = report
            .kinds
            .iter()
            .map(|kind| (kind.of.as_deref(), kind.of_base64.as_deref(), kind.calls_total))
            .collect();
        let name = Some("/a\u{fffd}");
        assert_eq!(kinds, [(name, Some("L2H+"), 75), (name, Some("L2H/"), 25)]);
    }

    #[test]
    fn every_call_is_in_the_histogram_and_so_is_its_time() {
        let rows = fsyncs();
        let report = explain(&rows, "1%");
        let histogram = &report.kinds[0].histogram;
        assert_eq!(histogram.iter().map(|b| b.calls_total).sum::<u64>(), 1008);
        let parts: f64 = histogram.iter().flat_map(|b| b.parts.values()).sum();
        let time: u64 = rows.iter().map(|row| row.account.time_ns()).sum();
        assert!((parts - time as f64 / 1e9).abs() < 1e-9);
        assert!(histogram.windows(2).all(|b| b[0].to_seconds <= b[1].from_seconds));
        let last = histogram.last().unwrap();
        assert!(last.from_seconds <= 8.05e-3 && last.to_seconds > 8.05e-3, "{last:?}");
        assert!((last.parts["run_queue"] - 8.0 * 50e-6).abs() < 1e-9, "{last:?}");
    }

    #[test]
    fn who_is_met_by_slow_calls_and_hardly_by_others_is_named() {
        let mut rows = fsyncs();
        for (i, row) in rows.iter_mut().enumerate() {
            let is_slow = i >= 1000;
            let meets = |pid, name: &str, time_ns| {
                let name = name.into();
                Some(Rival { pid, name, name_base64: None, time_ns })
            };
            // Everybody's requests are beside those of git; that explains nothing.
            row.rivals[2] = meets(7, "git", 0);
            row.rivals[0] = match i {
                1000..1006 => meets(4711, "ffmpeg", 4_000_000),
                // Too short a wait to be of any weight.
                _ if is_slow => meets(12, "kworker", 100),
                _ => None,
            };
        }
        let report = explain(&rows, "1%");
        let [rival] = &report.kinds[0].rivals[..] else { panic!("{:?}", report.kinds[0].rivals) };
        assert_eq!((rival.kind.as_str(), rival.name.as_str()), ("behind", "ffmpeg"));
        assert_eq!((rival.pid, rival.slow_total, rival.ordinary_total), (Some(4711), 6, 0));
    }

    #[test]
    fn of_an_interval_what_is_between_its_calls_is_the_programs() {
        let requests = (0..1000).flat_map(|i: u64| {
            // Two calls of 1 us each; slow requests compute for 5 ms in between.
            let interval = Some(Interval { number: i, token: 10_000 + i });
            let began = i as i64 * 100_000_000;
            let between = if i % 100 == 7 { 5_000_000 } else { 20_000 + i as i64 % 50 * 10 };
            [began, began + 1_000 + between].map(|time_ns| CallRow {
                time_ns,
                interval,
                ..row("read", &[("kernel_time_seconds", 1_000)])
            })
        });
        let mut intervals = Intervals::new(Of::Interval);
        let mut rows: Vec<CallRow> = requests.filter_map(|row| intervals.add(row)).collect();
        rows.extend(intervals.rest());
        let report = explain(&rows, "1%");
        let [kind] = &report.kinds[..] else { panic!("{report:?}") };
        assert_eq!((kind.calls_total, kind.slow.calls_total), (1000, 10));
        let [difference] = &kind.differences[..] else { panic!("{:?}", kind.differences) };
        assert_eq!((difference.subsystem.as_str(), difference.doing), ("program", Doing::Busy));
        assert!((difference.slow_seconds - 5e-3).abs() < 1e-12, "{difference:?}");
        assert_eq!(kind.slow_tokens.len(), 5);
        assert!(kind.slow_tokens.iter().all(|token| token % 100 == 7), "{:?}", kind.slow_tokens);
    }

    /// 1,000 intervals of 10 us to 20 us, each of a token of its own; of token 7 it is three of 30 us, …
    fn intervals() -> Vec<CallRow> {
        let interval = |token, time| CallRow {
            interval: Some(Interval { number: 0, token }),
            ..row(INTERVAL, &[("kernel_time_seconds", time)])
        };
        let mut rows: Vec<CallRow> =
            (0..1000).map(|i| interval(100 + i, 10_000 + i * 10)).collect();
        rows.extend([7, 7, 7].map(|token| interval(token, 30_000)));
        // … and slower ones that nobody asks for.
        rows.extend((0..50).map(|_| interval(8, 90_000_000)));
        rows
    }

    fn ask(rows: &[CallRow], tokens: &[u64]) -> Result<ExplainReport, AskedToken> {
        let asked = |token: &u64| AskedToken { token: *token, given: format!("t{token}") };
        let mut survey = Survey::asked_for(&tokens.iter().map(asked).collect::<Vec<_>>());
        rows.iter().for_each(|row| survey.add(row));
        if let Some(unfound) = survey.unfound() {
            return Err(unfound.clone());
        }
        let mut comparison = survey.compare(SlowRule::Share(0.01));
        rows.iter().for_each(|row| comparison.add(row));
        Ok(comparison.report(Of::Interval, FollowedCommand::default(), Missing::default()))
    }

    #[test]
    fn intervals_that_are_asked_for_are_compared_however_fast_with_ordinary_ones_of_all_others() {
        let report = ask(&intervals(), &[7, 600, 7]).unwrap();
        assert_eq!((report.slow, report.calls_total), (None, 1053));
        // In the order in which they were asked for.
        let [slow, usual] = &report.kinds[..] else { panic!("{:?}", report.kinds) };
        assert_eq!(slow.asked.as_ref().map(|a| a.given.as_str()), Some("t7"));
        assert_eq!((slow.verdict, slow.slow.calls_total), (Verdict::Differ, 3));
        assert!((slow.slow.mean_seconds - 30e-6).abs() < 1e-12, "{slow:?}");
        // Half of the 1,049 others, without the one that is asked for, too.
        assert!((500..550).contains(&slow.ordinary.calls_total), "{slow:?}");
        assert_eq!((slow.calls_total, slow.slow_from_seconds), (1053, None));
        assert_eq!(slow.histogram.iter().map(|b| b.calls_total).sum::<u64>(), 1053);
        assert!(slow.differences[0].more_seconds > 10e-6, "{:?}", slow.differences);
        assert_eq!((usual.verdict, usual.slow.calls_total), (Verdict::Alike, 1));
        assert_eq!(usual.ordinary, slow.ordinary);
        assert!(usual.slow_tokens.is_empty() && usual.differences.is_empty());
    }

    #[test]
    fn a_token_of_no_interval_is_not_found_and_few_others_are_too_few() {
        assert_eq!(ask(&intervals(), &[7, 9]).unwrap_err().given, "t9");
        let report = ask(&intervals()[..40], &[100]).unwrap();
        assert_eq!(
            (report.kinds[0].verdict, report.kinds[0].slow.calls_total),
            (Verdict::TooFew, 1)
        );
        let alone = ask(&intervals()[1000..1003], &[7]).unwrap();
        assert_eq!((alone.kinds[0].verdict, alone.kinds[0].slow.calls_total), (Verdict::TooFew, 3));
    }

    #[test]
    fn nothing_is_said_of_what_is_too_little_or_all_the_same() {
        let same: Vec<_> = (0..500).map(|_| row("read", &[("kernel_time_seconds", 700)])).collect();
        assert_eq!(explain(&same, "1%").kinds[0].verdict, Verdict::NoneSlow);
        assert_eq!(explain(&same, "1ms").kinds[0].verdict, Verdict::NoneSlow);
        assert_eq!(explain(&same, "10ns").kinds[0].verdict, Verdict::AllSlow);
        // 40 calls can have no slowest percent.
        assert_eq!(explain(&same[..40], "1%").kinds[0].verdict, Verdict::TooFew);
        assert_eq!(explain(&same[..40], "5%").kinds[0].verdict, Verdict::NoneSlow);
        assert_eq!(explain(&same[..39], "5%").kinds[0].verdict, Verdict::TooFew);
        assert!(explain(&[], "1%").kinds.is_empty());
        // Slower than others by a tenth: these are slow because someone said so.
        let times = (0..500).map(|i| row("read", &[("kernel_time_seconds", 1000 + i % 2 * 100)]));
        let times: Vec<_> = times.collect();
        let report = explain(&times, "1100ns");
        assert_eq!(
            (report.kinds[0].verdict, report.kinds[0].slow.calls_total),
            (Verdict::Alike, 250)
        );
    }

    #[test]
    fn kinds_come_in_the_order_of_the_time_that_was_lost() {
        let mut rows = fsyncs();
        rows.extend((0..1000).map(|i| {
            let waiting = if i < 9 { 90_000_000 } else { 1_000 };
            row("read", &[("block_waiting_seconds", waiting)])
        }));
        rows.push(row("exit", &[("kernel_time_seconds", 90_000_000_000)]));
        let report = explain(&rows, "1%");
        let names: Vec<&str> = report.kinds.iter().map(|kind| kind.call.as_str()).collect();
        assert_eq!(names, ["read", "fsync", "exit"]);
        assert_eq!(report.calls_total, 2009);
    }

    #[test]
    fn what_was_not_looked_into_is_named() {
        let mut read = row("read", &[("kernel_time_seconds", 700)]);
        read.measured = 0b11;
        let report = explain(&[read], "1%");
        assert!(report.unmeasured.contains(&"block".to_string()), "{:?}", report.unmeasured);
        assert!(!report.unmeasured.contains(&"sched".to_string()));
    }
}
