//! What a GPU's driver says of one client: `fdinfo` of a file of `/dev/dri`, as the kernel's
//! `Documentation/gpu/drm-usage-stats.rst` defines it.

use super::text::{lines, number, words};

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrmLine<'a> {
    /// The device, as its bus names it: `0000:0c:00.0`.
    Device(&'a [u8]),
    /// The client's number; several files may be one client's.
    Client(u64),
    /// An engine's name, and the time for which it worked for the client, in nanoseconds.
    Engine(&'a [u8], u64),
    /// An engine's name, and cycles of its clock for which it worked for the client.
    Cycles(&'a [u8], u64),
    /// An engine's name, and the cycles of its clock.
    TotalCycles(&'a [u8], u64),
    /// A region's name, and bytes of it that the client's buffers take.
    Resident(&'a [u8], u64),
    /// As `Resident`, under the name that older drivers use.
    Memory(&'a [u8], u64),
}

/// Walks through `fdinfo`; lines of another meaning are left out.
pub fn each_drm_line<'a>(text: &'a [u8], mut take: impl FnMut(DrmLine<'a>)) {
    lines(text).filter_map(drm_line).for_each(&mut take);
}

fn drm_line(line: &[u8]) -> Option<DrmLine<'_>> {
    let line = line.strip_prefix(b"drm-")?;
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, mut words) = (&line[..colon], words(&line[colon + 1..]));
    let value = words.next()?;
    match name {
        b"pdev" => return Some(DrmLine::Device(value)),
        b"client-id" => return number(value).map(DrmLine::Client),
        _ => {}
    }
    let (value, unit) = (number(value)?, words.next().unwrap_or_default());
    if let Some(engine) = name.strip_prefix(b"engine-") {
        let is_time = unit == b"ns" && !engine.is_empty();
        return is_time.then_some(DrmLine::Engine(engine, value));
    }
    if let Some(engine) = name.strip_prefix(b"cycles-") {
        return Some(DrmLine::Cycles(engine, value));
    }
    if let Some(engine) = name.strip_prefix(b"total-cycles-") {
        return Some(DrmLine::TotalCycles(engine, value));
    }
    let bytes = value.checked_mul(factor(unit)?)?;
    match (name.strip_prefix(b"resident-"), name.strip_prefix(b"memory-")) {
        (Some(region), _) => Some(DrmLine::Resident(region, bytes)),
        (_, Some(region)) => Some(DrmLine::Memory(region, bytes)),
        _ => None,
    }
}

fn factor(unit: &[u8]) -> Option<u64> {
    match unit {
        b"" => Some(1),
        b"KiB" => Some(1 << 10),
        b"MiB" => Some(1 << 20),
        _ => None,
    }
}
