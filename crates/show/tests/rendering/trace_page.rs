//! The page of events holds few numbers, of any number of events, and none of them is lost in it.

use crate::common::events::{gathered, note};
use weigh_show::trace::page::{page, render};

fn name(tid: u32) -> String {
    if tid == 100 { "make".to_string() } else { String::new() }
}

#[test]
fn few_events_are_drawn_one_by_one() {
    let page = page(&gathered(1003), &note(0), &name);
    assert_eq!(page.marks.at.len(), 2006);
    assert_eq!(page.spans.from.len(), 1003);
    assert_eq!(page.lanes.len(), 3);
    assert_eq!(page.lanes[0].label, "make 100");
    assert_eq!(page.lanes[1].label, "101");
    assert!(page.warnings.is_empty(), "{:?}", page.warnings);
    assert_eq!(page.events.iter().map(|event| event.total).collect::<Vec<_>>(), [1003, 1003]);
    let of_pairs: Vec<u64> = page.pairs.iter().map(|pair| pair.total).collect();
    assert_eq!(of_pairs, [502, 501]);
    assert_eq!((page.pairs[0].least, page.pairs[0].most), (100e-9, 1102e-9));
    for pair in &page.pairs {
        assert_eq!(pair.count.iter().sum::<u64>(), pair.total);
        assert_eq!(pair.heat.iter().flatten().map(|n| u64::from(*n)).sum::<u64>(), pair.total);
    }
}

#[test]
fn many_events_are_counted_in_columns_and_the_page_stays_small() {
    let gathered = gathered(500_000);
    let page = page(&gathered, &note(7), &name);
    assert!(page.marks.at.is_empty());
    assert!(page.marks_note.contains("columns"), "{}", page.marks_note);
    assert_eq!(page.spans.from.len(), 5000);
    assert!(page.spans_note.contains("of 500"), "{}", page.spans_note);
    let counted = page.lanes.iter().flat_map(|lane| lane.counts.iter().flatten());
    assert_eq!(counted.map(|n| u64::from(*n)).sum::<u64>(), 1_000_000);
    assert_eq!(page.processes[0].counts.iter().sum::<u64>(), 1_000_000);
    assert!(page.warnings[0].contains("14 events were lost"), "{:?}", page.warnings);
    let file = render(&gathered, &note(7), &name);
    assert!(file.len() < 1 << 20, "{}", file.len());
}

#[test]
fn what_is_not_drawn_is_counted() {
    let mut gathered = gathered(3);
    for tid in 1000..2000 {
        let happened = weigh_show::trace::Happened { event: 0, at_ns: 5, tgid: tid, tid };
        gathered.event(happened);
        gathered.pair(&format!("kind {tid}"), tid, 1, 5);
    }
    let page = page(&gathered, &note(0), &name);
    assert_eq!((page.lanes.len(), page.processes.len(), page.pairs.len()), (40, 16, 32));
    assert!(page.warnings[0].contains("963 events are of others"), "{:?}", page.warnings);
    assert!(page.warnings[1].contains("970 pairs"), "{:?}", page.warnings);
}
