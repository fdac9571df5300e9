//! What was counted of a stream, for people.

use weigh_trace::sink::{BufferCounts, MAIN, Totals};

/// What was counted, in a few lines.
pub fn render(totals: &Totals) -> String {
    let (taken, seconds, lost) = (totals.taken, totals.seconds, totals.lost());
    let of_all = totals.seen.map_or_else(String::new, |seen| format!(" of {seen}"));
    // An event has a record in each buffer that it goes into.
    let what = match totals.buffers.len() {
        0 | 1 => "events".to_string(),
        buffers => format!("records into {buffers} buffers"),
    };
    let mut told = format!("weigh: {taken}{of_all} {what} in {seconds:.3} s, {lost} lost\n");
    for of_event in &totals.followed {
        told += &format!("       {:>12}  {}", of_event.sent_total, of_event.event);
        if let Some(matched) = of_event.matched_total {
            told += &format!("  of {matched}");
        }
        if of_event.gone() > 0 {
            told += &format!("  {} lost", of_event.gone());
        }
        told += "\n";
    }
    if totals.buffers.len() > 1 || totals.buffers.iter().any(|buffer| buffer.name != MAIN) {
        for BufferCounts { name, taken, passed_over, lost, unkept, failed } in &totals.buffers {
            told +=
                &format!("       {taken:>12}  into {name}, {passed_over} passed over, {lost} lost");
            if failed.is_some() {
                told += &format!(", {unkept} after its file had ended early");
            }
            told += "\n";
        }
    }
    if totals.unread() > 0 {
        told += &format!(
            "weigh: {} of the lost were written and could not be read: a ring was damaged\n",
            totals.unread()
        );
    }
    if totals.lost_threads > 0 {
        told += &format!("weigh: {} threads could not be followed\n", totals.lost_threads);
    }
    told
}
