//! `weigh explain` as text and as a page, held to files.

mod common {
    pub mod explained;
    pub mod golden;
}

use common::explained::{nothing, requests, slow};
use common::golden::check;
use weigh_show::explain::{page, render};

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
fn that_nothing_differs_is_said_too() {
    check("tests/golden/explain_nothing.txt", &render(&nothing(), 10, 72, false));
}

#[test]
fn what_is_left_out_is_counted() {
    let text = render(&slow(), 1, 100, false);
    assert!(text.contains("and 2 more kinds of calls; --rows shows more"), "{text}");
    assert!(!text.contains("pread64"), "{text}");
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
    assert_eq!((data.kinds.len(), data.left_out), (4, 1));
    for kind in &data.kinds {
        assert_eq!(kind.shares.len(), kind.count.len());
        for shares in &kind.shares {
            assert_eq!(shares.len(), data.parts.len());
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{shares:?}");
        }
    }
}
