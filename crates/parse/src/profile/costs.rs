//! Accounts of calls that are bound to regions, as the program has copied them into its profile.

use weigh_schema::profile::costs;
use weigh_schema::region::snapshot::ProfileCosts;
use weigh_schema::subsystem::{Account, account_length};

use super::reader::{ProfileReader, TRIES, section, settled};
use super::words::Words;

/// Of all records that are being written so many tries are made at most.
const MOST_TRIES: usize = 64 * TRIES;

/// Reads all of them as they are.
pub(super) fn read(reader: &ProfileReader, words: &dyn Words) -> Vec<Option<ProfileCosts>> {
    let places = reader.records(words, section::COSTS, costs::LENGTH);
    let mut tries_left = MOST_TRIES;
    places.iter().map(|place| read_record(words, place, &mut tries_left)).collect()
}

fn read_record(words: &dyn Words, place: usize, tries_left: &mut usize) -> Option<ProfileCosts> {
    let numbers = || -> Vec<u64> {
        let first = place + costs::NUMBERS;
        (first..first + account_length()).map(|at| words.load(at)).collect()
    };
    let tries = TRIES.min(1 + *tries_left);
    let found = settled(words, place + costs::SEQUENCE, tries, numbers);
    let is_unsettled = found.is_none();
    if is_unsettled {
        *tries_left = tries_left.saturating_sub(tries);
    }
    Some(ProfileCosts {
        node: words.load(place + costs::NODE),
        wanted: words.load(place + costs::WANTED),
        reason: words.load(place + costs::REASON),
        account: Account::from_words(found.unwrap_or_else(numbers))?,
        is_unsettled,
    })
}
