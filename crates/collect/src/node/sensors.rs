//! Reads inputs of `/sys/class/hwmon`; emits `node_sensor_celsius`, `node_sensor_watts`, `node_sensor_joules_total`.
//! Not run on a real one.

use std::path::Path;

use weigh_parse::node::attribute;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer, first_line, names_in};
use super::reader::NodeReader;

struct Input {
    file: KernelFile,
    name: String,
    metric: &'static Metric,
    /// What one of the unit is in the file.
    of_one: f64,
}

struct Sensors(Vec<Input>);

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let class = roots.sys.join("class/hwmon");
    let chips = names_in(&class);
    let inputs: Vec<Input> =
        chips.iter().flat_map(|chip| chip_inputs(&class.join(chip), chip)).collect();
    match inputs.is_empty() {
        true => {
            Err(NodeError::Absent(format!("this machine has no sensors in {}", class.display())))
        }
        false => Ok(Box::new(Sensors(inputs))),
    }
}

/// `hwmon0/coretemp/Package id 0`: several chips may have one name.
fn chip_inputs(folder: &Path, chip: &str) -> Vec<Input> {
    let name = first_line(&folder.join("name")).unwrap_or_default();
    let input = |file: &String| {
        let (metric, of_one, stem) = kind(file)?;
        let label = first_line(&folder.join(format!("{stem}_label")));
        Some(Input {
            file: KernelFile::open(folder.join(file), FileShape::Small).ok()?,
            name: format!("{chip}/{name}/{}", label.as_deref().unwrap_or(stem)),
            metric,
            of_one,
        })
    };
    let files = names_in(folder);
    // An average and the value of the moment of one input are one instance: the moment's wins.
    let is_second = |file: &&String| {
        let stem = file.strip_suffix("_average");
        !stem.is_some_and(|stem| files.contains(&format!("{stem}_input")))
    };
    files.iter().filter(is_second).filter_map(input).collect()
}

/// A file's metric, what one unit is in it (millidegrees, microwatts, microjoules), and the name before `_input`.
fn kind(file: &str) -> Option<(&'static Metric, f64, &str)> {
    let stem = file.strip_suffix("_input").or_else(|| file.strip_suffix("_average"))?;
    match stem.trim_end_matches(|digit: char| digit.is_ascii_digit()) {
        "temp" => Some((&node_sensor_celsius, 1e3, stem)),
        "power" => Some((&node_sensor_watts, 1e6, stem)),
        "energy" => Some((&node_sensor_joules_total, 1e6, stem)),
        _ => None,
    }
}

impl NodeReader for Sensors {
    /// A sensor that does not answer is unavailable by itself: many do so now and then.
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        for input in &self.0 {
            let value = input.file.read(buffer).ok().and_then(attribute);
            out.instance([b"sensor", input.name.as_bytes()], || Scope::Sensor(input.name.clone()));
            let value = value.map(|value| Number::Real(value as f64 / input.of_one));
            out.put(input.metric, Quality::Sampled, value);
        }
        Ok(())
    }
}
