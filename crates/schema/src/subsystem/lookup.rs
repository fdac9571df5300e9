//! Parts of the kernel by their names, their numbers, and the numbers that need them.

use super::field::Field;
use super::part::Subsystem;
use super::table::SUBSYSTEMS;

impl Subsystem {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Subsystem> {
        SUBSYSTEMS.iter().find(|subsystem| subsystem.name == name)
    }

    /// Its place in [`SUBSYSTEMS`], which is also its bit in a set of subsystems.
    pub fn index(&self) -> usize {
        // Invariant: subsystems exist in the table only.
        SUBSYSTEMS.iter().position(|other| other.name == self.name).unwrap_or(0)
    }

    /// The set that holds it alone.
    pub fn bit(&self) -> u64 {
        1 << self.index()
    }

    /// Its own number that readers know by that name.
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.key() == key)
    }
}

impl Field {
    /// Whether what it needs beside its own part is among those that were looked into.
    pub fn is_known_beside(&self, measured: u64) -> bool {
        let part = self.beside.and_then(Subsystem::named);
        part.is_none_or(|part| measured & part.bit() != 0)
    }

    /// The parts that have to be looked into for all of it to be known, of a number of this part.
    pub fn takes(&self, of: Option<&Subsystem>) -> impl Iterator<Item = &'static Subsystem> {
        let beside = [self.beside, self.wholly_with].into_iter().flatten();
        of.map(|part| part.name).into_iter().chain(beside).filter_map(Subsystem::named)
    }
}

/// The part of the kernel that has to be looked into for such a number to be known; none for how many things
/// are pending or were lost, which any part may say.
pub fn later_part(field: &Field) -> Option<&'static Subsystem> {
    let name = match field.name.split('_').next()? {
        // Those that packets of connections are handled in.
        "softirq" => "tcp",
        "work" => "workqueue",
        "timers" => "timer",
        name => name,
    };
    Subsystem::named(name)
}
