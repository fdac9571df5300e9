//! An account: the numbers that a call, or a token, has in each part of the kernel, as all sides share
//! them.
//!
//! Reads the bytes of the structure that [`super::c_header`] writes, and emits its numbers by their names in
//! base units. Refuses bytes that are too few.

use std::collections::BTreeMap;

use super::field::{Field, Merge};
use super::layout::{HEAD, account_length, later_start, own_start, states};
use super::on_request::{COUNTED_RATIO, CPU_COUNTERS, CpuCounter};
use super::part::Subsystem;
use super::table::{LATER, PART, PARTS, SUBSYSTEMS};
use crate::custom_subsystem::{CustomParts, OwnNumber};
use crate::unit::Number;

/// An account: the numbers of the shared structure, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    numbers: Vec<u64>,
    own: Option<CustomParts>,
}

impl Default for Account {
    fn default() -> Account {
        Account { numbers: vec![0; account_length()], own: None }
    }
}

impl Account {
    /// From the bytes of the shared structure; none if there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<Account> {
        let words = bytes.chunks_exact(8).take(account_length());
        // Invariant: chunks_exact(8) gives eight bytes each.
        let numbers: Vec<u64> =
            words.map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default())).collect();
        (numbers.len() == account_length()).then_some(Account { numbers, own: None })
    }

    /// From the words of the shared structure; none if there are too few.
    pub fn from_words(mut words: Vec<u64>) -> Option<Account> {
        words.truncate(account_length());
        (words.len() == account_length()).then_some(Account { numbers: words, own: None })
    }

    /// With the names of the parts that a configuration defines.
    pub fn with_own(self, own: &CustomParts) -> Account {
        Account { own: Some(CustomParts::clone(own)), ..self }
    }

    /// Says how long the calls took.
    pub fn set_time_ns(&mut self, time_ns: u64) {
        self.set_head("time_ns", time_ns);
    }

    /// How long counters should have counted, and did.
    #[cfg(test)]
    pub(super) fn set_counting(&mut self, counting_ns: u64, counted_ns: u64) {
        self.set_head("counting_ns", counting_ns);
        self.set_head("counted_ns", counted_ns);
    }

    fn set_head(&mut self, name: &str, number: u64) {
        if let Some(index) = HEAD.iter().position(|(n, _)| *n == name) {
            self.numbers[index] = number;
        }
    }

    pub(crate) fn number(&self, place: usize) -> u64 {
        self.numbers[place]
    }

    pub(crate) fn set_number(&mut self, place: usize, number: u64) {
        self.numbers[place] = number;
    }

    fn head(&self, name: &str) -> u64 {
        HEAD.iter().position(|(n, _)| *n == name).map_or(0, |index| self.numbers[index])
    }

    /// The caller's number for it.
    pub fn token(&self) -> u64 {
        self.head("token")
    }

    /// Calls that are added up in it.
    pub fn calls(&self) -> u64 {
        self.head("calls")
    }

    /// Nanoseconds from their beginnings to their ends.
    pub fn time_ns(&self) -> u64 {
        self.head("time_ns")
    }

    /// Whether this subsystem was seen at all.
    pub fn touched(&self, subsystem: &Subsystem) -> bool {
        self.head("touched") & subsystem.bit() != 0
    }

    /// Whether it was wanted while nobody measured it: its numbers lack something.
    pub fn unmeasured(&self, subsystem: &Subsystem) -> bool {
        self.head("unmeasured") & subsystem.bit() != 0
    }

    /// The subsystems of a set that were looked into: seen, or not missed. As bits.
    pub fn measured_of(&self, wanted: u64) -> u64 {
        wanted & (self.head("touched") | !self.head("unmeasured"))
    }

    /// What a counter of the CPU has counted, or would have if it had done so all the time; none if it was
    /// not asked for, or never had its turn.
    pub fn counter(&self, counter: &CpuCounter) -> Option<u64> {
        let count = self.head(counter.name);
        if self.head("touched") & counter.bit() == 0 || self.head("counted_ns") == 0 {
            return None;
        }
        Some(self.scaled(counter.name, count))
    }

    /// Puts the number of one into it: as it was counted, all the time.
    pub fn set_counter(&mut self, counter: &CpuCounter, count: u64) {
        self.set_head("touched", self.head("touched") | counter.bit());
        self.set_head(counter.name, count);
        for name in ["counting_ns", "counted_ns"] {
            self.set_head(name, self.head(name).max(1));
        }
    }

    /// Which part of the time that counters should have counted in they did; none if they were not asked for.
    pub fn counted_ratio(&self) -> Option<f64> {
        let (counting, counted) = (self.head("counting_ns"), self.head("counted_ns"));
        (counting > 0).then(|| (counted as f64 / counting as f64).min(1.0))
    }

    /// The counters of the CPU by their names; with what makes them estimates, if they are.
    pub fn counters(&self) -> BTreeMap<String, Number> {
        let count = |c: &CpuCounter| Some((c.key.to_string(), Number::Whole(self.counter(c)?)));
        let mut numbers: BTreeMap<String, Number> = CPU_COUNTERS.iter().filter_map(count).collect();
        let ratio = self.counted_ratio().filter(|ratio| *ratio < 1.0);
        numbers.extend(ratio.map(|ratio| (COUNTED_RATIO.to_string(), Number::Real(ratio))));
        numbers
    }

    /// Time in it, waiting for it, entries: in the order of [`PART`].
    pub fn part(&self, subsystem: &Subsystem) -> &[u64] {
        let start = subsystem.part_start();
        &self.numbers[start..start + PART.len()]
    }

    /// Its own fields, in the order of their declaration.
    pub fn fields(&self, subsystem: &Subsystem) -> &[u64] {
        let start = subsystem.fields_start();
        &self.numbers[start..start + subsystem.fields.len()]
    }

    /// What came after the calls, in the order of [`LATER`].
    pub fn later(&self) -> &[u64] {
        &self.numbers[later_start()..]
    }

    /// The same, to be filled in.
    pub fn later_mut(&mut self) -> &mut [u64] {
        let start = later_start();
        &mut self.numbers[start..]
    }

    /// The numbers of each subsystem that was seen, by their names in base units; those that are 0
    /// are left out, but for the times.
    pub fn parts(&self) -> BTreeMap<String, BTreeMap<String, Number>> {
        let seen = |s: &&Subsystem| self.touched(s) || self.part(s).iter().any(|n| *n != 0);
        let numbers = |s: &Subsystem| {
            let times = named(&PART[..2], &self.part(s)[..2], true);
            let rest = named(&PART[2..], &self.part(s)[2..], false);
            let own = named(s.fields, self.fields(s), false);
            times.into_iter().chain(rest).chain(own).collect()
        };
        let built_in = SUBSYSTEMS.iter().filter(seen).map(|s| (s.name.to_string(), numbers(s)));
        built_in.chain(self.own_parts()).collect()
    }

    /// The same of the parts that a configuration defines.
    fn own_parts(&self) -> Vec<(String, BTreeMap<String, Number>)> {
        let own = self.own.iter().flat_map(|own| own.iter()).zip(SUBSYSTEMS.len()..PARTS);
        own.filter_map(|(part, index)| {
            let start = HEAD.len() + index * PART.len();
            let numbers = &self.numbers[start..start + PART.len()];
            if self.head("touched") & (1 << index) == 0 && numbers.iter().all(|n| *n == 0) {
                return None;
            }
            let times = named(&PART[..2], &numbers[..2], true);
            let rest = named(&PART[2..], &numbers[2..], false);
            let sums = self.own_numbers(&part.sums);
            Some((part.name.clone(), times.into_iter().chain(rest).chain(sums).collect()))
        })
        .collect()
    }

    /// The names of the parts that a configuration defines.
    pub(super) fn own_names(&self) -> impl Iterator<Item = &str> {
        self.own.iter().flat_map(|own| own.iter()).map(|part| part.name.as_str())
    }

    /// What a counter of the CPU would have counted if it had done so all the time; other numbers as they are.
    pub(super) fn scaled(&self, name: &str, count: u64) -> u64 {
        let (counting, counted) = (self.head("counting_ns"), self.head("counted_ns"));
        if CpuCounter::named(name).is_none() || counted == 0 || counted >= counting {
            return count;
        }
        let scaled = u128::from(count) * u128::from(counting) / u128::from(counted);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    fn own_numbers(&self, numbers: &[OwnNumber]) -> Vec<(String, Number)> {
        let known = numbers.iter().filter_map(|number| {
            let raw = *self.numbers.get(own_start() + number.slot)?;
            (raw != 0).then(|| (number.key.clone(), number.number(raw)))
        });
        known.collect()
    }

    /// What came after the calls, by its names in base units; zeros are left out.
    pub fn later_numbers(&self) -> BTreeMap<String, Number> {
        let own = self.own.iter().flat_map(|own| own.iter());
        let own = own.flat_map(|part| self.own_numbers(&part.later));
        named(LATER, self.later(), false).into_iter().chain(own).collect()
    }

    /// Makes it one of so many calls that took so long: what the parts do not have of it is the
    /// remainder.
    pub fn complete(&mut self, calls: u64, time_ns: u64) {
        let (parts, fields) = self.numbers[HEAD.len()..].split_at_mut(PARTS * PART.len());
        // Waiting for a CPU is the only time that is no part's own.
        let run_queue =
            SUBSYSTEMS.iter().flat_map(|s| s.fields.iter().map(move |f| (s.name, f.name)));
        let run_queue = run_queue.zip(fields).find(|(name, _)| *name == ("sched", "run_queue"));
        let others = parts.chunks(PART.len()).skip(1).flat_map(|part| &part[..2]);
        let known = others.chain(run_queue.map(|(_, number)| &*number));
        let known = known.fold(0u64, |sum, number| sum.wrapping_add(*number));
        // A call that its thread ended in is known by its parts alone.
        let time_ns = time_ns.max(known);
        // The first part is the remainder.
        (parts[0], parts[1]) = (time_ns - known, 0);
        for (place, (name, _)) in self.numbers.iter_mut().zip(HEAD) {
            match *name {
                "calls" => *place = calls,
                "time_ns" => *place = time_ns,
                _ => {}
            }
        }
    }

    /// Bytes that were written to devices on its behalf: while its calls lasted, and later.
    pub fn written(&self) -> u64 {
        let block = SUBSYSTEMS.iter().find(|subsystem| subsystem.name == "block");
        let fields = block.map(|block| block.fields.iter().zip(self.fields(block)));
        let fields = fields.into_iter().flatten().filter(|(field, _)| field.name == "written");
        let later =
            LATER.iter().zip(self.later()).filter(|(field, _)| field.name == "block_written");
        fields.chain(later).map(|(_, bytes)| bytes).sum()
    }

    /// Adds what was seen of a part: how often, and these fields of its own.
    pub fn add_part(&mut self, part: &str, entries: u64, fields: &[(&str, u64)]) {
        let Some(subsystem) = Subsystem::named(part).filter(|_| entries > 0) else { return };
        self.set_head("touched", self.head("touched") | subsystem.bit());
        let numbers = subsystem.fields.iter().zip(subsystem.fields_start()..);
        let known = numbers.filter_map(|(field, place)| {
            Some((place, fields.iter().find(|(name, _)| *name == field.name)?.1))
        });
        let known: Vec<_> = known.chain([(subsystem.part_start() + 2, entries)]).collect();
        for (place, more) in known {
            self.numbers[place] = self.numbers[place].wrapping_add(more);
        }
    }

    /// Adds another one's numbers; whose token it is stays.
    pub fn add(&mut self, other: &Account) {
        let sums = HEAD.iter().position(|(name, _)| *name == "calls").unwrap_or(0);
        for (place, (name, _)) in HEAD.iter().enumerate() {
            if matches!(*name, "touched" | "unmeasured") {
                self.numbers[place] |= other.numbers[place];
            }
        }
        let known: Vec<(usize, u64)> = states()
            .map(|(place, seen)| {
                let (mine, theirs) = (self.numbers[place], other.numbers[place]);
                let is_seen = seen.is_some_and(|seen| other.numbers[seen] != 0);
                (place, if is_seen || (seen.is_none() && theirs > mine) { theirs } else { mine })
            })
            .collect();
        for (mine, more) in self.numbers[sums..].iter_mut().zip(&other.numbers[sums..]) {
            *mine = mine.wrapping_add(*more);
        }
        for (place, number) in known {
            self.numbers[place] = number;
        }
    }
}

pub(super) fn named(fields: &[Field], numbers: &[u64], with_zeros: bool) -> Vec<(String, Number)> {
    let is_seen = |name: &str| {
        fields.iter().zip(numbers).any(|(field, number)| field.name == name && *number != 0)
    };
    let is_told = |field: &Field, number: u64| match field.merge {
        Merge::Latest { seen } => is_seen(seen),
        _ => with_zeros || number != 0,
    };
    let pairs = fields.iter().zip(numbers).filter(|(field, number)| is_told(field, **number));
    pairs.map(|(field, raw)| (field.key(), field.unit.number(field.in_base_unit(*raw)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn an_account_is_read_by_the_order_of_the_header() {
        let numbers: Vec<u64> = (0..account_length() as u64).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(Account::from_bytes(&bytes[..bytes.len() - 1]), None);
        let account = Account::from_bytes(&bytes).unwrap();
        assert_eq!(account.token(), 0);
        assert_eq!(account.calls(), 4);
        let sched = Subsystem::named("sched").unwrap();
        let parts = HEAD.len() as u64;
        assert_eq!(account.part(sched), [parts + 3, parts + 4, parts + 5]);
        let first_field = parts + 3 * PARTS as u64;
        let expected: Vec<u64> = (first_field..).take(sched.fields.len()).collect();
        assert_eq!(account.fields(sched), expected);
        assert_eq!(account.later().len(), LATER.len());
        assert_eq!(account.later().last(), numbers.last());
    }

    #[test]
    fn adding_keeps_the_token_and_joins_what_was_touched() {
        let with = |head: [u64; 6]| {
            let mut account = Account::default();
            account.numbers[..6].copy_from_slice(&head);
            account
        };
        let mut sum = with([7, 1, 0b01, 0b100, 2, 100]);
        sum.add(&with([9, 5, 0b10, 0b1000, 3, 50]));
        assert_eq!(&sum.numbers[..6], [7, 1, 0b11, 0b1100, 5, 150]);
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn of_a_state_the_last_one_holds_even_0_and_of_a_most_the_greatest() {
        let of = |unacked: u64, observations: u64, most: u64| {
            let mut account = Account::default();
            let fields = [("unacked", unacked), ("observations", observations)];
            account.add_part("tcp", 1, &fields);
            account.add_part("qdisc", 1, &[("in_queue_most", most)]);
            account
        };
        let told = |account: &Account| {
            let (parts, tcp) = (account.parts(), account.parts()["tcp"].clone());
            let most = parts["qdisc"].get("in_queue_most").copied();
            (tcp.get("unacked").copied(), tcp.get("observations_total").copied(), most)
        };
        let whole = |number| Some(Number::Whole(number));
        let mut sum = of(5, 2, 7);
        sum.add(&of(0, 0, 4));
        assert_eq!(told(&sum), (whole(5), whole(2), whole(7)), "the other saw no connection");
        sum.add(&of(0, 1, 9));
        assert_eq!(told(&sum), (whole(0), whole(3), whole(9)));
        assert_eq!(told(&of(0, 0, 0)), (None, None, None));
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn counters_that_had_not_their_turn_all_the_time_are_scaled_and_those_that_had_none_are_unknown()
     {
        let of = |touched: &[&str], counting, counted| {
            let mut account = Account::default();
            let bits = touched.iter().map(|name| CpuCounter::named(name).unwrap().bit());
            account.set_head("touched", bits.sum());
            account.set_head("cycles", 1000);
            account.set_head("counting_ns", counting);
            account.set_head("counted_ns", counted);
            account.counters()
        };
        let cycles = |count, ratio: Option<f64>| {
            let ratio = ratio.map(|ratio| (COUNTED_RATIO.to_string(), Number::Real(ratio)));
            let count = [("cycles_total".to_string(), Number::Whole(count))];
            count.into_iter().chain(ratio).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(of(&["cycles"], 70, 70), cycles(1000, None));
        assert_eq!(of(&["cycles"], 80, 20), cycles(4000, Some(0.25)));
        assert_eq!(of(&["cycles"], 80, 0).get("cycles_total"), None);
        assert!(of(&[], 0, 0).is_empty());
        // Counted, and found to be none.
        let both = of(&["cycles", "instructions"], 70, 70);
        assert_eq!(both.get("instructions_total"), Some(&Number::Whole(0)));
    }
}
