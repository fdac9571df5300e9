//! Pictures of what packets cost, as the figures 5 to 8 and the table 3 of the published system (seed 003): drawn from the
//! figures that `bench/packets.py --json` leaves. Refuses a file that lacks one of the ways of a picture.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bars::{self, Bar, Group, Panel, Series};
use crate::spread::Spread;

/// A picture, and the ways that are in it.
struct Picture {
    file: &'static str,
    note: &'static str,
    ways: &'static [&'static str],
    panels: &'static [Measured],
}

/// What a panel shows.
#[derive(Clone, Copy)]
enum Measured {
    /// The reader's CPU time, as a ratio to that of this way.
    Reader(&'static str),
    Sender,
    Missing,
}

const PICTURES: [Picture; 3] = [
    Picture {
        file: "packets.svg",
        note: "datagrams of 1400 bytes over loopback, kept in tmpfs; by bytes kept of each",
        ways: &["tcpdump", "in", "both", "parquet"],
        panels: &[Measured::Reader("tcpdump"), Measured::Sender, Measured::Missing],
    },
    Picture {
        file: "packets-sampling.svg",
        note: "the same, one in so many of those that come in; by bytes kept of each",
        ways: &["in", "in-1/2", "in-1/10", "in-1/100", "nothing"],
        panels: &[Measured::Reader("in"), Measured::Sender],
    },
    Picture {
        file: "packets-filter.svg",
        note: "the same, with a filter that takes none of them; nothing: a program that does nothing",
        ways: &["tcpdump-none", "in-none", "nothing"],
        panels: &[Measured::Sender],
    },
];

/// Draws them into a folder; those whose ways the file does not have at all are left out.
pub fn draw(figures: &Path, folder: &Path) -> Result<()> {
    let text = std::fs::read(figures).with_context(|| figures.display().to_string())?;
    let figures: Value = serde_json::from_slice(&text).context("what packets.py has left")?;
    for picture in &PICTURES {
        let has = |way: &&&str| ways(&figures).any(|one| one["way"] == **way);
        if picture.ways.iter().filter(|way| has(way)).count() < picture.ways.len() {
            eprintln!("{} is left out: the figures lack one of {:?}", picture.file, picture.ways);
            continue;
        }
        crate::put(&folder.join(picture.file), &drawn(picture, &figures)?)?;
    }
    Ok(())
}

fn ways(figures: &Value) -> impl Iterator<Item = &Value> {
    figures["ways"].as_array().into_iter().flatten()
}

fn drawn(picture: &Picture, figures: &Value) -> Result<String> {
    let series: Vec<Series> =
        picture.ways.iter().map(|name| Series { name, is_apart: false }).collect();
    let mut snaps: Vec<u64> = ways(figures).filter_map(|one| one["snap"].as_u64()).collect();
    snaps.sort_unstable();
    snaps.dedup();
    let panel = |measured: &Measured| -> Result<Panel> {
        let group = |snap: &u64| -> Result<Group> {
            let bar = |way: &&str| bar(figures, *snap, way, *measured);
            let bars = picture.ways.iter().map(bar).collect::<Result<_>>()?;
            Ok(Group { name: format!("{snap} bytes"), bars })
        };
        let groups = snaps.iter().map(group).collect::<Result<_>>()?;
        Ok(Panel { title: title(*measured), groups })
    };
    let panels: Vec<Panel> = picture.panels.iter().map(panel).collect::<Result<_>>()?;
    bars::picture(&series, &panels, picture.note)
}

fn title(measured: Measured) -> String {
    match measured {
        Measured::Reader(of) => format!("CPU time of the reader's process, times that of {of}"),
        Measured::Sender => "CPU time of the sender, times that without a reader".to_string(),
        Measured::Missing => "packets that are missing, percent".to_string(),
    }
}

fn bar(figures: &Value, snap: u64, way: &str, measured: Measured) -> Result<Bar> {
    let of = |way: &str, key: &str| -> Result<Vec<f64>> {
        let found = ways(figures).find(|one| one["snap"] == snap && one["way"] == way);
        let rounds = found.and_then(|one| one["rounds"].as_array());
        let rounds = rounds.with_context(|| format!("{way} was not measured at {snap} bytes"))?;
        let one = |round: &Value| round[key].as_f64().with_context(|| format!("{way}: no {key}"));
        rounds.iter().map(one).collect()
    };
    let values = match measured {
        Measured::Sender => of(way, "sender")?,
        Measured::Missing => {
            let count = figures["count"].as_f64().context("no count")?;
            of(way, "lost")?.into_iter().map(|lost| lost / count * 100.0).collect()
        }
        Measured::Reader(other) => {
            let pairs = of(way, "reader_s")?.into_iter().zip(of(other, "reader_s")?);
            pairs.map(|(own, others)| own / others).collect()
        }
    };
    let spread = Spread::of(values);
    let (low, high) = spread.interval.unwrap_or((spread.least, spread.greatest));
    Ok(Bar { median: spread.median, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figures(ways: &[&str]) -> Value {
        let round = |reader: f64| json!({"reader_s": reader, "sender": 1.25, "lost": 60});
        let one = |way: &&str| {
            let reader = if *way == "tcpdump" { 0.5 } else { 1.0 };
            json!({"snap": 96, "way": way, "rounds": [round(reader), round(reader)]})
        };
        json!({"count": 300, "ways": ways.iter().map(one).collect::<Vec<_>>()})
    }

    #[test]
    fn ratios_and_percents_are_of_the_same_rounds() {
        let figures = figures(PICTURES[0].ways);
        let median = |way, measured| bar(&figures, 96, way, measured).unwrap().median;
        assert_eq!(median("in", Measured::Reader("tcpdump")), 2.0);
        assert_eq!(median("in", Measured::Missing), 20.0);
        assert_eq!(median("both", Measured::Sender), 1.25);
        assert!(bar(&figures, 97, "in", Measured::Sender).is_err());
        let drawn = drawn(&PICTURES[0], &figures).unwrap();
        for words in ["times that of tcpdump", "96 bytes", "parquet", "2.00", "20.0", "1.25"] {
            assert!(drawn.contains(words), "{words}");
        }
    }

    #[test]
    fn a_picture_whose_ways_were_not_measured_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.json");
        std::fs::write(&file, figures(PICTURES[0].ways).to_string()).unwrap();
        draw(&file, folder.path()).unwrap();
        let there = PICTURES.map(|picture| folder.path().join(picture.file).exists());
        assert_eq!(there, [true, false, false]);
    }
}
