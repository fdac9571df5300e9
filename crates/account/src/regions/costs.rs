//! What the system calls of regions cost in the kernel, from the accounts that programs have bound to them.

use std::collections::BTreeMap;

use weigh_schema::call::Numbers;
use weigh_schema::library::Reason;
use weigh_schema::region::snapshot::{CostsLink, ProfileCosts, ProfileNode, ProfileSnapshot};
use weigh_schema::region::{KernelCosts, NO_ROOM};
use weigh_schema::subsystem::{Account, COUNTED_RATIO, Field, LATER, SUBSYSTEMS, Subsystem};
use weigh_schema::{Number, Quality};

/// Those of a node; none where no account is bound to its region.
pub(super) fn kernel_costs(
    snapshot: &ProfileSnapshot,
    number: usize,
    node: &ProfileNode,
) -> Option<KernelCosts> {
    match node.costs {
        CostsLink::Unbound => None,
        CostsLink::NoRoom => Some(KernelCosts::unavailable(NO_ROOM)),
        CostsLink::Record(at) => {
            // It is of one node, so that there are no more of them than the profile has room for.
            let record = snapshot.costs.get(at).and_then(Option::as_ref);
            let record = record.filter(|record| record.node == number as u64);
            let damaged = || KernelCosts::unavailable("its account makes no sense");
            Some(record.map_or_else(damaged, of_record))
        }
    }
}

fn of_record(record: &ProfileCosts) -> KernelCosts {
    let ProfileCosts { account, wanted, .. } = record;
    if account.token() == 0 {
        return KernelCosts::unavailable("no call of the region has ended");
    }
    let built_in = parts_of(u64::MAX).fold(0, |set, part| set | part.bit());
    let measured = account.measured_of(wanted & built_in);
    if measured == 0 {
        return KernelCosts::unavailable(reason(record));
    }
    let doubts = doubts(record, measured);
    let mut counters = account.counters();
    counters.remove(COUNTED_RATIO);
    KernelCosts {
        quality: if doubts.is_empty() { Quality::Exact } else { Quality::Estimated },
        reason: (!doubts.is_empty()).then(|| doubts.join("; ")),
        measured: parts_of(measured).map(|part| part.name.to_string()).collect(),
        counters,
        parts: parts(account),
        later: account.later_numbers(),
    }
}

/// Why a call was not measured.
fn reason(record: &ProfileCosts) -> &'static str {
    let reason = Reason::numbered(record.reason).filter(|_| record.reason != 0);
    reason.map_or("nobody looked into what was asked for", Reason::text)
}

fn parts_of(set: u64) -> impl Iterator<Item = &'static Subsystem> {
    SUBSYSTEMS.iter().filter(move |part| set & part.bit() != 0)
}

/// The numbers that are not 0, and states that were seen.
fn parts(account: &Account) -> BTreeMap<String, Numbers> {
    let mut parts = account.parts();
    for (part, numbers) in &mut parts {
        let part = Subsystem::named(part);
        let is_state =
            |key: &str| part.and_then(|part| part.field(key)).is_some_and(Field::is_state);
        numbers.retain(|key, number| number.as_f64() != 0.0 || is_state(key));
    }
    parts.retain(|_, numbers| !numbers.is_empty());
    parts
}

/// Why the numbers are not exact.
fn doubts(record: &ProfileCosts, measured: u64) -> Vec<String> {
    let account = &record.account;
    let missed = parts_of(measured).filter(|part| account.unmeasured(part));
    let missed: Vec<&str> = missed.map(|part| part.name).collect();
    let later = account.later_numbers();
    let left = |name: &str| {
        let field = LATER.iter().find(|field| field.name == name)?;
        later.get(&field.key()).map(|number| Number::as_f64(*number))
    };
    let doubts = [
        (!missed.is_empty())
            .then(|| format!("not looked into all the time: {}", missed.join(", "))),
        left("pending").map(|n| format!("{n} things that it caused had not come to their end")),
        left("lost").map(|n| format!("{n} things that it caused found no room")),
        account
            .counted_ratio()
            .filter(|ratio| *ratio < 1.0)
            .map(|ratio| format!("the CPU's counters counted {:.0} % of the time", 100.0 * ratio)),
        record.is_unsettled.then(|| "it was read while it was written".to_string()),
    ];
    doubts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use weigh_schema::subsystem::{HEAD, account_length, pending_at};

    use super::*;

    fn bit(name: &str) -> u64 {
        Subsystem::named(name).map_or(0, Subsystem::bit)
    }

    /// An account of a call that was to look into sockets and block devices.
    fn record(heads: &[(&str, u64)], pending: u64) -> ProfileCosts {
        let mut words = vec![0; account_length()];
        for (name, number) in heads.iter().chain(&[("token", 9)]) {
            let at = HEAD.iter().position(|(head, _)| head == name).unwrap();
            words[at] = *number;
        }
        words[pending_at()] = pending;
        // Of parts that no configuration defines nothing is known.
        let wanted = bit("socket") | bit("block") | 1 << 27;
        let account = Account::from_words(words).unwrap();
        ProfileCosts { node: 0, wanted, reason: 1, account, is_unsettled: false }
    }

    #[test]
    fn what_nobody_measured_is_unavailable_with_the_reason() {
        let costs = of_record(&record(&[("unmeasured", bit("socket") | bit("block"))], 0));
        assert_eq!(costs, KernelCosts::unavailable("no agent of weigh answers"));
    }

    #[test]
    fn a_part_that_was_not_seen_is_absent_and_one_that_was_missed_at_times_an_estimate() {
        let costs = of_record(&record(&[("unmeasured", bit("block"))], 0));
        assert_eq!((costs.quality, costs.measured), (Quality::Exact, vec!["socket".to_string()]));
        let costs =
            of_record(&record(&[("unmeasured", bit("block")), ("touched", bit("block"))], 0));
        assert_eq!(costs.reason.as_deref(), Some("not looked into all the time: block"));
    }

    #[test]
    fn what_is_still_to_come_makes_an_estimate() {
        let costs = of_record(&record(&[], 3));
        assert_eq!(costs.quality, Quality::Estimated);
        assert_eq!(
            costs.reason.as_deref(),
            Some("3 things that it caused had not come to their end")
        );
    }
}
