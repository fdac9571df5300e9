//! `weigh explain` as text and as a page, held to files.

use crate::common::explained::{asked, difference, great_reads, nothing, requests, slow};
use crate::common::golden::check;
use weigh_schema::explain::{Doing, ExplainedKind, Of, OutcomeDifference, Verdict};
use weigh_show::explain::{page, render, sentences};

#[test]
fn what_differs_is_said_in_sentences() {
    check("tests/golden/explain.txt", &render(&slow(), 10, 100, false));
}

#[test]
fn of_requests_the_program_itself_is_a_part_and_their_tokens_are_named() {
    check("tests/golden/explain_requests.txt", &render(&requests(), 10, 100, false));
    let page = page::page(&requests());
    assert_eq!(page.noun, "intervals");
    assert!(page.parts.iter().any(|part| part.name == "program"), "{:?}", page.parts);
}

#[test]
fn requests_that_were_asked_for_are_named_as_they_were_whether_they_are_slow_or_not() {
    check("tests/golden/explain_asked.txt", &render(&asked(), 10, 100, false));
    let page = page::page(&asked());
    assert_eq!((page.kinds.len(), page.left_out), (5, 0));
    assert!(page.kinds.iter().all(|kind| kind.asked && kind.slow_from.is_none()));
}

#[test]
fn that_nothing_differs_is_said_too() {
    check("tests/golden/explain_nothing.txt", &render(&nothing(), 10, 72, false));
}

#[test]
fn what_is_left_out_is_counted() {
    let none = render(&slow(), 0, 100, false);
    assert!(none.contains("\n4 kinds of calls; --rows shows them\n"), "{none}");
    let text = render(&slow(), 1, 100, false);
    assert!(text.contains("and 3 more kinds of calls; --rows shows more"), "{text}");
    assert!(!text.contains("pread64"), "{text}");
}

#[test]
fn a_call_that_is_there_to_wait_waits_as_it_was_asked_to() {
    let said = |call: &str| {
        let mut report = slow();
        let differences = vec![difference("sched", Doing::Waiting, 8.2e-3, 1.1e-3)];
        report.kinds[0] = ExplainedKind {
            call: call.into(),
            of: None,
            differences,
            counters: Vec::new(),
            ..report.kinds[0].clone()
        };
        render(&report, 1, 100, false)
    };
    let text = said("clock_nanosleep");
    assert!(text.contains("\n  7.1 ms more sleeping, as it was asked to\n"), "{text}");
    assert!(said("read").contains("\n  7.1 ms more waiting for what no probe tells\n"));
    assert!(said("recvfrom").contains("\n  7.1 ms more idle: waiting for the peer\n"));
}

#[test]
fn how_calls_ended_is_said_of_each_side_by_what_most_of_it_did() {
    let said = |slow: &[(&str, u64)], ordinary: &[(&str, u64)]| {
        let errors = |of: &[(&str, u64)]| of.iter().map(|(e, n)| (e.to_string(), *n)).collect();
        let failed = |of: &[(&str, u64)]| of.iter().map(|(_, n)| n).sum();
        let outcome = Some(OutcomeDifference {
            slow_failed_total: failed(slow),
            ordinary_failed_total: failed(ordinary),
            slow_errors: errors(slow),
            ordinary_errors: errors(ordinary),
        });
        sentences(&ExplainedKind { outcome, moved: None, ..great_reads() }, Of::Call)[1].clone()
    };
    assert_eq!(
        said(&[("ETIMEDOUT", 20)], &[]),
        "20 of 20 slow ones failed (ETIMEDOUT), where 502 of 502 ordinary ones succeeded"
    );
    assert_eq!(
        said(&[("ETIMEDOUT", 6)], &[("EAGAIN", 5)]),
        "6 of 20 slow ones failed (ETIMEDOUT), where 497 of 502 ordinary ones succeeded"
    );
    assert_eq!(
        said(&[], &[("EAGAIN", 200)]),
        "20 of 20 slow ones succeeded, where 200 of 502 ordinary ones failed (EAGAIN)"
    );
    assert_eq!(
        said(&[("ETIMEDOUT", 8)], &[("EAGAIN", 200)]),
        "8 of 20 slow ones failed (ETIMEDOUT), where 200 of 502 ordinary ones failed (EAGAIN)"
    );
}

#[test]
fn one_call_is_not_several() {
    let mut report = slow();
    report.calls_total = 1;
    report.untold_total = 1;
    report.kinds.retain(|kind| kind.verdict == Verdict::TooFew);
    report.kinds[0].calls_total = 1;
    let text = render(&report, 10, 100, false);
    assert!(text.starts_with("weigh  1 call of "), "{text}");
    assert!(text.contains("not in the file: 1 call came faster"), "{text}");
    let [only] = &sentences(&report.kinds[0], report.of)[..] else { panic!("one sentence") };
    assert_eq!(only, "close: 1 call, too few to compare");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 60, 100, 160] {
        let text = render(&slow(), 10, width, false);
        let wide = text.lines().find(|line| line.chars().count() > width);
        assert_eq!(wide, None);
    }
}

#[test]
fn the_page_carries_all_and_lets_nothing_out() {
    let html = page::render(&slow());
    assert!(html.contains("<title>./server --once '&lt;b&gt;' · explained · weigh</title>"));
    assert!(!html.contains("<b>"), "text of the job became markup");
    assert!(html.contains("default-src 'none'"));
    let data = page::page(&slow());
    assert_eq!((data.kinds.len(), data.left_out), (5, 1));
    for kind in &data.kinds {
        assert_eq!(kind.shares.len(), kind.count.len());
        for shares in &kind.shares {
            assert_eq!(shares.len(), data.parts.len());
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{shares:?}");
        }
    }
}
