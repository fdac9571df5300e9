//! Writes a report of an invented recording to standard output, to look at the page without a
//! kernel: `cargo run -p weigh-show --example demo -- [limit|short] [PROCESSES] > demo.html`.

#[path = "../tests/rendering/common/sample.rs"]
mod sample;
#[path = "../tests/rendering/common/sample_moments.rs"]
mod sample_moments;

use weigh_show::report::{FileColumns, page};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let processes = words.iter().find_map(|w| w.parse().ok()).unwrap_or(400);
    let recording = match words.first().map(String::as_str) {
        Some("limit") => sample::limited(processes),
        Some("short") => sample::cut_short(),
        _ => sample::build(processes),
    };
    let mut files = FileColumns::default();
    recording.files.iter().for_each(|row| files.push(row));
    let mut page = page(
        &recording.summary,
        sample_moments::series(&recording.summary, &recording.samples),
        &recording.processes,
        files.finish(0),
        0,
    );
    page.io_over_time = sample_moments::io_over_time(&recording.summary);
    page.regions = sample_moments::regions();
    println!("{}", page.html());
}
