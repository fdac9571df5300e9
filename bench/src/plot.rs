//! Pictures of the figures, as SVG: what adds how much, and who is how far off.
//!
//! They lie on a light ground of their own, so that a page may be dark. Colours say nothing that is
//! not also written. Pure.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const GROUND: RGBColor = RGBColor(250, 250, 248);
const INK: RGBColor = RGBColor(32, 36, 44);
const FAINT: RGBColor = RGBColor(214, 216, 220);
const WEIGH: RGBColor = RGBColor(31, 95, 165);
const PEER: RGBColor = RGBColor(176, 84, 24);
const WIDTH: u32 = 880;

/// A figure and its interval, in percent.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Of which tool.
    pub name: String,
    /// The middle.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper one.
    pub high: f64,
    /// Whether it is weigh, or a peer.
    pub is_weigh: bool,
}

/// The figures of one work.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Which work.
    pub title: String,
    /// By tool.
    pub bars: Vec<Bar>,
}

fn text(size: u32, anchor: HPos) -> TextStyle<'static> {
    let style = TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    style.pos(Pos::new(anchor, VPos::Center))
}

/// The scale of a panel: what most of its tools need; what goes beyond is cut off.
fn scale(bars: &[Bar]) -> (f64, f64) {
    const ROOM: f64 = 60.0;
    let low = bars.iter().map(|bar| bar.low).fold(-1.0, f64::min);
    let high = bars.iter().map(|bar| bar.high).fold(1.0, f64::max);
    (low.max(-ROOM) * 1.05, high.min(ROOM) * 1.05)
}

/// A row for each tool: a point at the median, a line along the interval. The note says what is shown.
pub fn overhead(panels: &[Panel], note: &str) -> Result<String> {
    const ROW: u32 = 19;
    const HEAD: u32 = 62;
    let panels: Vec<&Panel> = panels.iter().filter(|panel| !panel.bars.is_empty()).collect();
    let height = |panel: &Panel| HEAD + ROW * panel.bars.len() as u32;
    let total = panels.iter().map(|panel| height(panel)).sum::<u32>() + 34;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH, total)).into_drawing_area();
        let said = |error| anyhow!("drawing: {error}");
        root.fill(&GROUND).map_err(|error| anyhow!("drawing: {error}"))?;
        let note = format!("{note} (with fewer than 6 rounds: least … greatest)");
        root.draw(&Text::new(note, (12, 16), text(12, HPos::Left))).map_err(said)?;
        let mut top = 28;
        for panel in panels {
            let area = root.clone().shrink((0, top), (WIDTH, height(panel)));
            draw_panel(&area, panel).map_err(|error| anyhow!("drawing: {error}"))?;
            top += height(panel);
        }
        root.present().map_err(|error| anyhow!("drawing: {error}"))?;
    }
    Ok(picture)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), Box<dyn std::error::Error>> {
    let count = panel.bars.len();
    let (low, high) = scale(&panel.bars);
    let longest = panel.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or_default();
    let names = (7 * longest as i32 + 8).max(90);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 14).into_font().color(&INK))
        .margin_left(8)
        .margin_right(120)
        .x_label_area_size(24)
        .y_label_area_size(names)
        .build_cartesian_2d(low..high, -0.5..count as f64 - 0.5)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .axis_style(FAINT)
        .bold_line_style(FAINT)
        .light_line_style(GROUND)
        .label_style(("sans-serif", 11).into_font().color(&INK))
        .x_label_formatter(&|percent| format!("{percent:+.0} %"))
        .draw()?;
    let zero = [(0.0, -0.5), (0.0, count as f64 - 0.5)];
    chart.draw_series([PathElement::new(zero, INK.stroke_width(1))])?;
    for (index, bar) in panel.bars.iter().enumerate() {
        // The first one is at the top.
        let y = (count - 1 - index) as f64;
        let colour = if bar.is_weigh { WEIGH } else { PEER };
        let inside = |x: f64| x.clamp(low, high);
        let line = [(inside(bar.low), y), (inside(bar.high), y)];
        chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
        if bar.median <= high {
            chart.draw_series([Circle::new((bar.median, y), 4, colour.filled())])?;
        }
        let (_, row) = chart.backend_coord(&(low, y));
        let (left, top) = area.get_base_pixel();
        let row = row - top;
        let digits = if bar.median.abs() < 100.0 { 1 } else { 0 };
        let beyond = if bar.median > high { " →" } else { "" };
        let value = format!("{:+.digits$} %{beyond}", bar.median);
        let right = area.dim_in_pixel().0 as i32 - left - 12;
        area.draw(&Text::new(bar.name.clone(), (names + 2, row), text(12, HPos::Right)))?;
        area.draw(&Text::new(value, (right, row), text(12, HPos::Right)))?;
    }
    Ok(())
}

/// The colour of an error of so many percent.
fn colour(error: Option<f64>) -> RGBColor {
    match error.map(f64::abs) {
        None => RGBColor(232, 233, 236),
        Some(error) if error <= 0.5 => RGBColor(183, 223, 190),
        Some(error) if error <= 5.0 => RGBColor(240, 232, 168),
        Some(error) if error <= 20.0 => RGBColor(246, 204, 148),
        Some(_) => RGBColor(240, 168, 156),
    }
}

/// An error, short enough for a cell.
fn short(error: Option<f64>) -> String {
    match error {
        None => "–".to_string(),
        // No sign without a figure.
        Some(error) if error.abs() < 0.05 => "0.0".to_string(),
        Some(error) if error.abs() < 9.95 => format!("{error:+.1}"),
        Some(error) => format!("{error:+.0}"),
    }
}

/// A field for each tool and case, with the error in it.
pub fn errors(rows: &[(String, Vec<Option<f64>>)], cases: &[String]) -> Result<String> {
    const LEFT: i32 = 188;
    const TOP: i32 = 52;
    const HEIGHT: i32 = 24;
    let width = (WIDTH as i32 - LEFT - 12) / rows.len().max(1) as i32;
    let total = TOP + HEIGHT * cases.len() as i32 + 30;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH, total as u32)).into_drawing_area();
        root.fill(&GROUND).map_err(|error| anyhow!("drawing: {error}"))?;
        let write = |words: &str, at: (i32, i32), size: u32, anchor: HPos| {
            root.draw(&Text::new(words.to_string(), at, text(size, anchor)))
                .map_err(|error| anyhow!("drawing: {error}"))
        };
        write("Memory peak: percent off, the worst run", (12, 16), 13, HPos::Left)?;
        for (row, case) in cases.iter().enumerate() {
            let middle = TOP + HEIGHT * row as i32 + HEIGHT / 2;
            write(&case.replace('`', ""), (LEFT - 8, middle), 12, HPos::Right)?;
        }
        for (column, (name, errors)) in rows.iter().enumerate() {
            let left = LEFT + width * column as i32;
            write(name, (left + width / 2, TOP - 11), 11, HPos::Center)?;
            for (row, error) in errors.iter().enumerate() {
                let top = TOP + HEIGHT * row as i32;
                let corners = [(left, top), (left + width - 2, top + HEIGHT - 2)];
                root.draw(&Rectangle::new(corners, colour(*error).filled()))
                    .map_err(|error| anyhow!("drawing: {error}"))?;
                let middle = (left + width / 2 - 1, top + HEIGHT / 2 - 1);
                write(&short(*error), middle, 11, HPos::Center)?;
            }
        }
        let legend =
            "green: within 0.5 %, yellow: 5 %, orange: 20 %, red: beyond; –: no such figure";
        write(legend, (LEFT, total - 13), 11, HPos::Left)?;
        root.present().map_err(|error| anyhow!("drawing: {error}"))?;
    }
    Ok(picture)
}

/// How long requests took under one server.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Which server.
    pub title: String,
    /// By way: how many took how many microseconds.
    pub lines: Vec<(String, BTreeMap<u64, u64>)>,
}

/// A line for each way, over a logarithmic axis of time in steps of an eighth of a doubling.
pub fn latencies(panels: &[Latencies]) -> Result<String> {
    const HEIGHT: u32 = 240;
    let mut picture = String::new();
    {
        let size = (WIDTH, HEIGHT * panels.len() as u32);
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        root.fill(&GROUND).map_err(|error| anyhow!("drawing: {error}"))?;
        for (area, panel) in root.split_evenly((panels.len().max(1), 1)).iter().zip(panels) {
            draw_latencies(area, panel).map_err(|error| anyhow!("drawing: {error}"))?;
        }
        root.present().map_err(|error| anyhow!("drawing: {error}"))?;
    }
    Ok(picture)
}

/// Steps of a doubling.
const STEPS: f64 = 8.0;

fn step(microseconds: u64) -> i32 {
    ((microseconds.max(1) as f64).log2() * STEPS).floor() as i32
}

/// Percent of the requests in each step.
fn shares(latencies: &BTreeMap<u64, u64>) -> BTreeMap<i32, f64> {
    let total: u64 = latencies.values().sum();
    let mut shares = BTreeMap::new();
    for (value, count) in latencies {
        *shares.entry(step(*value)).or_insert(0.0) += *count as f64 / total as f64 * 100.0;
    }
    shares
}

fn draw_latencies(area: &Area<'_>, panel: &Latencies) -> Result<(), Box<dyn std::error::Error>> {
    let lines: Vec<_> = panel.lines.iter().map(|(name, of)| (name, shares(of))).collect();
    let steps = || lines.iter().flat_map(|(_, shares)| shares.keys().copied());
    let (first, last) = (steps().min().unwrap_or(0), steps().max().unwrap_or(1));
    let most = lines.iter().flat_map(|(_, shares)| shares.values()).copied().fold(1.0, f64::max);
    let caption = format!("{}: latency, percent of requests, with rests", panel.title);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 14).into_font().color(&INK))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(44)
        .build_cartesian_2d(f64::from(first)..f64::from(last), 0.0..most * 1.05)?;
    chart
        .configure_mesh()
        .axis_style(FAINT)
        .bold_line_style(FAINT)
        .light_line_style(GROUND)
        .label_style(("sans-serif", 11).into_font().color(&INK))
        .x_label_formatter(&|step| format!("{:.0} µs", (step / STEPS).exp2()))
        .y_label_formatter(&|share| format!("{share:.0} %"))
        .draw()?;
    for (number, (name, shares)) in lines.iter().enumerate() {
        let colour = [INK, RGBColor(120, 130, 140), WEIGH, PEER][number % 4];
        let share = |step: &i32| shares.get(step).copied().unwrap_or(0.0);
        let points: Vec<_> = (first..=last).map(|step| (f64::from(step), share(&step))).collect();
        chart
            .draw_series([PathElement::new(points, colour.stroke_width(2))])?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    let font = ("sans-serif", 12).into_font().color(&INK);
    chart.configure_series_labels().label_font(font).background_style(GROUND).draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_and_its_figure_are_in_the_picture() {
        let bar = |name: &str, median: f64| Bar {
            name: name.to_string(),
            median,
            low: median - 1.0,
            high: median + 1.0,
            is_weigh: name != "strace",
        };
        let bars = vec![bar("bpf 2", 0.5), bar("strace", 700.0)];
        let panel = Panel { title: "copying".to_string(), bars };
        let picture = overhead(&[panel], "percent more").unwrap();
        for words in ["percent more", "copying", "bpf 2", "+0.5 %", "strace", "+700 % →"] {
            assert!(picture.contains(words), "{words}");
        }
    }

    #[test]
    fn every_way_is_in_the_picture_of_latencies() {
        let line = |name: &str| (name.to_string(), BTreeMap::from([(100, 90), (800, 10)]));
        let lines = vec![line("not watched"), line("accounted")];
        let panel = Latencies { title: "nginx".into(), lines };
        let picture = latencies(&[panel]).unwrap();
        for words in ["nginx", "not watched", "accounted"] {
            assert!(picture.contains(words), "{words}");
        }
        let shares = shares(&BTreeMap::from([(100, 1), (101, 2), (1000, 1)]));
        assert_eq!(shares.values().copied().collect::<Vec<_>>(), [75.0, 25.0]);
    }

    #[test]
    fn every_error_is_in_the_picture() {
        let rows = vec![("bpf 2".to_string(), vec![Some(0.02), None])];
        let picture = errors(&rows, &["fill".to_string(), "shared".to_string()]).unwrap();
        for words in ["bpf 2", "fill", "shared", "0.0", "–"] {
            assert!(picture.contains(words), "{words}");
        }
    }
}
