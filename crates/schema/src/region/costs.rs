//! What the system calls of a region cost in the kernel: the numbers of an account of calls, by their names in base units.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::Numbers;
use crate::quality::Quality;
use crate::subsystem::{Field, Merge, Subsystem, later_part};
use crate::unit::{Number, Unit};

/// Why nothing is known of most regions.
pub const UNBOUND: &str = "no account of calls is bound to the region (weigh_region_account)";
/// Why nothing is known of a region to which one should be.
pub const NO_ROOM: &str = "the profile has no room for more accounts";
/// What is said of a sum of which not all was measured.
const PARTIAL: &str = "not all of what is added up was measured";

/// What the system calls of a region cost in the kernel. Of two regions inside one another that have accounts it is the inner
/// one's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelCosts {
    /// `estimated` where something is missing, or to come; `unavailable` where nothing was measured.
    pub quality: Quality,
    /// Why it is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The parts of the kernel that were looked into. What `parts` and `later` do not have of these is 0; of others it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<String>,
    /// What the CPU counted meanwhile, where that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Numbers,
    /// Where the time went and what was done, by part of the kernel; what is 0 is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Numbers>,
    /// What came after the calls; what is 0 is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub later: Numbers,
}

impl KernelCosts {
    /// Of which nothing is known.
    pub fn unavailable(reason: &str) -> KernelCosts {
        let reason = Some(reason.to_string());
        KernelCosts { quality: Quality::Unavailable, reason, ..KernelCosts::default() }
    }

    /// The parts that were looked into, as bits.
    fn measured_bits(&self) -> u64 {
        self.measured.iter().filter_map(|name| Subsystem::named(name)).map(Subsystem::bit).sum()
    }

    /// A number of a part of the kernel; none if that was not looked into.
    pub fn number(&self, part: &Subsystem, field: &Field) -> Option<Number> {
        let known = self.parts.get(part.name).and_then(|numbers| numbers.get(&field.key()));
        let measured = self.measured_bits();
        let is_seen = measured & part.bit() != 0 && field.is_known_beside(measured);
        let is_known = is_seen && !field.is_state();
        known.copied().or_else(|| is_known.then(|| field.unit.number(0.0)))
    }

    /// A number of what came later; none if its part of the kernel was not looked into.
    pub fn later_number(&self, field: &Field) -> Option<Number> {
        let measured = self.measured_bits();
        let is_seen = later_part(field).map_or(measured != 0, |part| measured & part.bit() != 0);
        let is_known = is_seen && field.is_known_beside(measured);
        self.later.get(&field.key()).copied().or_else(|| is_known.then(|| field.unit.number(0.0)))
    }

    /// Puts a number of a part of the kernel in. Counts are there of parts that were looked into.
    pub fn set_number(&mut self, part: &Subsystem, field: &Field, number: f64) {
        if field.unit != Unit::Seconds && !self.measured.iter().any(|name| name == part.name) {
            self.measured.push(part.name.to_string());
        }
        if number != 0.0 || field.is_state() {
            let numbers = self.parts.entry(part.name.to_string()).or_default();
            numbers.insert(field.key(), field.unit.number(number));
        }
    }

    /// Puts a number of what came later in.
    pub fn set_later(&mut self, field: &Field, number: f64) {
        if number != 0.0 {
            self.later.insert(field.key(), field.unit.number(number));
        }
    }

    /// Adds those of other calls.
    pub fn add(&mut self, other: &KernelCosts) {
        let is_alike = self.measured == other.measured && self.quality == other.quality;
        if !is_alike || self.reason != other.reason {
            self.quality = Quality::Estimated;
            self.reason = Some(PARTIAL.to_string());
        }
        let more = other.measured.iter().filter(|name| !self.has(name)).cloned();
        let more: Vec<String> = more.collect();
        self.measured.extend(more);
        add_all(&mut self.counters, &other.counters, None);
        add_all(&mut self.later, &other.later, None);
        for (part, numbers) in &other.parts {
            let sums = self.parts.entry(part.clone()).or_default();
            add_all(sums, numbers, Subsystem::named(part));
        }
    }

    fn has(&self, part: &str) -> bool {
        self.measured.iter().any(|name| name == part)
    }
}

fn add_all(sums: &mut Numbers, more: &Numbers, part: Option<&Subsystem>) {
    for (key, number) in more {
        let sum = sums.entry(key.clone()).or_insert(Number::Whole(0));
        let merge = part.and_then(|part| part.field(key)).map(|field| field.merge);
        *sum = match (merge.unwrap_or(Merge::Sum), *sum, *number) {
            (Merge::Latest { .. }, _, latest) => latest,
            (Merge::Greatest, a, b) if a.as_f64() > b.as_f64() => a,
            (Merge::Greatest, _, b) => b,
            (Merge::Sum, Number::Whole(a), Number::Whole(b)) => Number::Whole(a.saturating_add(b)),
            (Merge::Sum, a, b) => Number::Real(a.as_f64() + b.as_f64()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u64, measured: &[&str]) -> KernelCosts {
        let numbers: Numbers = [("sent_bytes_total".to_string(), Number::Whole(bytes))].into();
        KernelCosts {
            measured: measured.iter().map(ToString::to_string).collect(),
            parts: [("socket".to_string(), numbers)].into(),
            ..KernelCosts::default()
        }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn what_was_looked_into_is_0_and_the_rest_is_not_known() {
        let costs = of(41, &["socket"]);
        let (socket, tcp) = (Subsystem::named("socket").unwrap(), Subsystem::named("tcp").unwrap());
        let numbers: Vec<_> =
            socket.fields.iter().map(|field| costs.number(socket, field)).collect();
        assert_eq!(numbers, [Some(Number::Whole(41)), Some(Number::Whole(0))]);
        assert_eq!(costs.number(tcp, &tcp.fields[0]), None);
    }

    #[test]
    fn a_sum_of_what_was_measured_and_what_was_not_says_so() {
        let mut sum = of(41, &["socket"]);
        sum.add(&of(7, &["socket"]));
        assert_eq!(sum, of(48, &["socket"]));
        sum.add(&KernelCosts::unavailable("no agent"));
        assert_eq!(sum.quality, Quality::Estimated);
        assert!(sum.reason.is_some());
    }
}
