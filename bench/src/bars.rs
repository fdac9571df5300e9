//! Pictures as on the slides of the published system (seed 004): bars side by side for each block size, one colour
//! for each way, a line along each one's interval, the axis from 0.
//!
//! Ways that take many times as long have a chart of their own beside the others', with its own axis: on one of both
//! nobody could tell the others apart. Each bar has its figure above it, and the light ground is the picture's own. Pure.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const GROUND: RGBColor = RGBColor(250, 250, 248);
const INK: RGBColor = RGBColor(32, 36, 44);
const FAINT: RGBColor = RGBColor(214, 216, 220);
/// They keep apart for colour-blind readers.
const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 95, 165),
    RGBColor(176, 84, 24),
    RGBColor(16, 112, 86),
    RGBColor(128, 78, 164),
    RGBColor(132, 104, 8),
    RGBColor(164, 58, 102),
];
const WIDTH: i32 = 1080;
const HEAD: i32 = 62;
const HEIGHT: i32 = 256;
/// Above and below the bars: for the title and the figures, and for the names of the groups.
const TOP: i32 = 52;
const BOTTOM: i32 = 26;
const LEFT: i32 = 40;

/// A way, with bars of one colour.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands in the chart of those that take many times as long.
    pub is_apart: bool,
}

/// A figure and its interval.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The middle.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bars side by side, one for each way.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// In the order of the ways.
    pub bars: Vec<Bar>,
}

/// Groups of one kind of work.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Which work.
    pub title: String,
    /// From left to right.
    pub groups: Vec<Group>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// All panels below each other, with what the colours are above them.
pub fn picture(series: &[Series], panels: &[Panel], note: &str) -> Result<String> {
    let height = HEAD + HEIGHT * panels.len() as i32;
    let mut picture = String::new();
    {
        let size = (WIDTH as u32, height as u32);
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        let said = |error| anyhow!("drawing: {error}");
        root.fill(&GROUND).map_err(|error| anyhow!("drawing: {error}"))?;
        write(&root, note, (12, 16), style(12, HPos::Left))?;
        legend(&root, series)?;
        for (place, panel) in panels.iter().enumerate() {
            let top = HEAD + HEIGHT * place as i32;
            write(&root, &panel.title, (12, top + 10), style(14, HPos::Left))?;
            for chart in charts(series, panel) {
                chart.draw(&root, top)?;
            }
        }
        root.present().map_err(said)?;
    }
    Ok(picture)
}

fn style(size: u32, anchor: HPos) -> TextStyle<'static> {
    let style = TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    style.pos(Pos::new(anchor, VPos::Center))
}

fn write(root: &Area<'_>, text: &str, at: (i32, i32), style: TextStyle<'static>) -> Result<()> {
    root.draw(&Text::new(text.to_string(), at, style)).map_err(|error| anyhow!("drawing: {error}"))
}

fn fill(root: &Area<'_>, corners: [(i32, i32); 2], colour: RGBColor) -> Result<()> {
    let filled = Rectangle::new(corners, colour.filled());
    root.draw(&filled).map_err(|error| anyhow!("drawing: {error}"))
}

fn line(root: &Area<'_>, ends: [(i32, i32); 2], style: impl Into<ShapeStyle>) -> Result<()> {
    root.draw(&PathElement::new(ends, style)).map_err(|error| anyhow!("drawing: {error}"))
}

fn legend(root: &Area<'_>, series: &[Series]) -> Result<()> {
    let mut left = 12;
    for (place, way) in series.iter().enumerate() {
        fill(root, [(left, 34), (left + 12, 46)], colour(place))?;
        write(root, way.name, (left + 18, 40), style(12, HPos::Left))?;
        left += 40 + 7 * way.name.chars().count() as i32;
    }
    Ok(())
}

fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// Some of the ways, on one axis.
struct Chart<'a> {
    panel: &'a Panel,
    /// The places of its ways.
    ways: Vec<usize>,
    left: i32,
    right: i32,
    /// Where the axis ends.
    most: f64,
}

/// Ways of about the bare time, and beside them those that take many times as long, if there are any.
fn charts<'a>(series: &[Series], panel: &'a Panel) -> Vec<Chart<'a>> {
    let ways = |is_apart: bool| -> Vec<usize> {
        (0..series.len()).filter(|place| series[*place].is_apart == is_apart).collect()
    };
    let (near, apart) = (ways(false), ways(true));
    let room = WIDTH - 2 * LEFT - 12;
    let all = (near.len() + apart.len()).max(1) as i32;
    let middle = if apart.is_empty() { WIDTH - 12 } else { LEFT + room * near.len() as i32 / all };
    let chart = |ways: Vec<usize>, left: i32, right: i32| {
        let most = most(panel, &ways);
        Chart { panel, ways, left, right, most }
    };
    let both = [chart(near, LEFT, middle), chart(apart, middle + LEFT, WIDTH - 12)];
    both.into_iter().filter(|chart| !chart.ways.is_empty()).collect()
}

/// Where the axis of these ends: above every median; a line that is much longer is cut off there.
fn most(panel: &Panel, ways: &[usize]) -> f64 {
    let bars = panel.groups.iter().flat_map(|group| ways.iter().map(|way| group.bars[*way]));
    bars.map(|bar| bar.high.min(bar.median * 1.3)).fold(1.0, f64::max) * 1.08
}

/// The distance between two marks: no more than six of them.
fn step(most: f64) -> f64 {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(most)
}

impl Chart<'_> {
    fn draw(&self, root: &Area<'_>, top: i32) -> Result<()> {
        let ground = top + HEIGHT - BOTTOM;
        self.axis(root, ground)?;
        let room = (self.right - self.left) / self.panel.groups.len().max(1) as i32;
        for (place, group) in self.panel.groups.iter().enumerate() {
            let left = self.left + room * place as i32;
            write(root, &group.name, (left + room / 2, ground + 12), style(11, HPos::Center))?;
            let gap = (room / 8).max(4);
            let width = (room - gap) / self.ways.len() as i32;
            for (number, way) in self.ways.iter().enumerate() {
                let left = left + gap / 2 + width * number as i32;
                self.bar(root, &group.bars[*way], colour(*way), [left, left + width - 2, ground])?;
            }
        }
        // Not watched.
        let bare = self.height(ground, 1.0);
        line(root, [(self.left, bare), (self.right, bare)], INK)
    }

    fn height(&self, ground: i32, value: f64) -> i32 {
        let room = f64::from(HEIGHT - TOP - BOTTOM);
        ground - (room * (value / self.most).clamp(0.0, 1.0)).round() as i32
    }

    fn axis(&self, root: &Area<'_>, ground: i32) -> Result<()> {
        let step = step(self.most);
        let marks = (0..=6).map(|n| f64::from(n) * step).take_while(|mark| *mark <= self.most);
        for mark in marks {
            let at = self.height(ground, mark);
            line(root, [(self.left, at), (self.right, at)], FAINT)?;
            let digits = usize::from(step < 1.0);
            write(root, &format!("{mark:.digits$}"), (self.left - 5, at), style(11, HPos::Right))?;
        }
        Ok(())
    }

    fn bar(
        &self,
        root: &Area<'_>,
        bar: &Bar,
        colour: RGBColor,
        [left, right, ground]: [i32; 3],
    ) -> Result<()> {
        let at = |value: f64| self.height(ground, value);
        fill(root, [(left, at(bar.median)), (right, ground)], colour)?;
        let middle = i32::midpoint(left, right);
        let (low, high) = (at(bar.low), at(bar.high));
        let strokes = [
            [(middle, low), (middle, high)],
            [(middle - 3, low), (middle + 3, low)],
            [(middle - 3, high), (middle + 3, high)],
        ];
        // Light around it, so that it is seen on its bar, too.
        for (colour, width) in [(GROUND, 3), (INK, 1)] {
            strokes
                .into_iter()
                .try_for_each(|ends| line(root, ends, colour.stroke_width(width)))?;
        }
        let digits = if bar.median < 9.995 { 2 } else { 1 };
        let upwards = style(11, HPos::Left).transform(FontTransform::Rotate270);
        let above = high.min(at(bar.median)) - 5;
        write(root, &format!("{:.digits$}", bar.median), (middle, above), upwards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(medians: [f64; 2]) -> Panel {
        let bar = |median: f64| Bar { median, low: median * 0.9, high: median * 1.1 };
        let group = |name: &str| Group { name: name.into(), bars: medians.map(bar).into() };
        Panel { title: "reading".into(), groups: vec![group("1 KiB"), group("16 MiB")] }
    }

    const WAYS: [Series; 2] =
        [Series { name: "bpf", is_apart: false }, Series { name: "plain mount", is_apart: true }];

    #[test]
    fn every_way_block_and_figure_is_in_the_picture() {
        let drawn = picture(&WAYS, &[panel([1.07, 12.34])], "times as long").unwrap();
        for words in ["times as long", "reading", "bpf", "plain mount", "1 KiB", "16 MiB"] {
            assert!(drawn.contains(words), "{words}");
        }
        assert_eq!((drawn.matches("1.07").count(), drawn.matches("12.3").count()), (2, 2));
    }

    #[test]
    fn a_way_that_takes_many_times_as_long_is_on_its_own_axis() {
        let panel = panel([1.07, 12.34]);
        let charts = charts(&WAYS, &panel);
        assert_eq!(charts.len(), 2);
        assert!(charts[0].most < 1.5 && charts[1].most > 12.34);
        assert!(charts[0].right < charts[1].left);
        let alone = super::charts(&WAYS[..1], &panel);
        assert_eq!(alone.len(), 1);
    }

    #[test]
    fn a_bar_begins_at_nothing_and_ends_at_its_figure() {
        let panel = panel([1.0, 2.0]);
        let chart = &charts(&WAYS, &panel)[0];
        let room = HEIGHT - TOP - BOTTOM;
        assert_eq!(chart.height(500, 0.0), 500);
        assert_eq!(chart.height(500, chart.most), 500 - room);
        assert_eq!(chart.height(500, chart.most / 2.0), 500 - room / 2);
        assert!(step(1.2) * 6.0 >= 1.2 && step(13.0) == 5.0);
    }
}
