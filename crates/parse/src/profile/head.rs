//! The head of a profile: what does not change once it is ready.

use weigh_schema::profile::{MAGIC, ProfileClock, SECTIONS, head as at, layout};
use weigh_schema::region::snapshot::ClockPair;

use super::words::Words;

/// A profile is at most so large.
pub const MOST_BYTES: u64 = 64 << 20;

/// What is wrong with a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileRefusal {
    /// It does not begin as one, or is not ready.
    NoProfile,
    /// Another version of weigh has written it.
    OtherLayout,
    /// It does not have as many bytes as it says, or too many.
    Size,
    /// A clock that is not known.
    Clock,
    /// Sections lie outside of it, or over each other.
    Sections,
}

impl std::fmt::Display for ProfileRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProfileRefusal::NoProfile => "no profile, or not ready",
            ProfileRefusal::OtherLayout => "a profile of another version of weigh",
            ProfileRefusal::Size => "a profile whose size is not what it says",
            ProfileRefusal::Clock => "a profile with an unknown clock",
            ProfileRefusal::Sections => {
                "a profile whose parts lie outside of it or over each other"
            }
        })
    }
}

impl std::error::Error for ProfileRefusal {}

/// Where a section lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionSpan {
    /// Its first word.
    pub first: usize,
    /// How many records it has.
    pub records: usize,
}

/// A profile's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileHead {
    /// The process, as it sees itself.
    pub pid: u32,
    /// What times are measured in.
    pub clock: ProfileClock,
    /// When the profile was made.
    pub first: ClockPair,
    /// Its sections: each lies within it, and apart from the others.
    pub sections: [SectionSpan; SECTIONS.len()],
}

impl ProfileHead {
    /// Reads it.
    pub fn parse(words: &dyn Words) -> Result<ProfileHead, ProfileRefusal> {
        if words.count() < at::LENGTH || words.load(at::MAGIC) != MAGIC {
            return Err(ProfileRefusal::NoProfile);
        }
        if words.load(at::LAYOUT) != layout() {
            return Err(ProfileRefusal::OtherLayout);
        }
        let bytes = words.load(at::BYTES);
        if bytes != 8 * words.count() as u64 || bytes > MOST_BYTES {
            return Err(ProfileRefusal::Size);
        }
        Ok(ProfileHead {
            pid: u32::try_from(words.load(at::PID)).unwrap_or(0),
            clock: ProfileClock::numbered(words.load(at::CLOCK)).ok_or(ProfileRefusal::Clock)?,
            first: ClockPair { ticks: words.load(at::FIRST_TICKS), ns: words.load(at::FIRST_NS) },
            sections: sections(words).ok_or(ProfileRefusal::Sections)?,
        })
    }
}

/// None if one lies outside or over another.
fn sections(words: &dyn Words) -> Option<[SectionSpan; SECTIONS.len()]> {
    let mut spans = [SectionSpan::default(); SECTIONS.len()];
    let mut taken = Vec::with_capacity(SECTIONS.len() + 1);
    taken.push(0..at::LENGTH);
    for (number, section) in SECTIONS.iter().enumerate() {
        let word = |more: usize| usize::try_from(words.load(at::SECTIONS + 2 * number + more)).ok();
        let (first, records) = (word(0)?, word(1)?);
        let end = first.checked_add(records.checked_mul(section.words)?)?;
        let is_free = taken.iter().all(|other| end <= other.start || first >= other.end);
        // No program of this layout makes more of them.
        if end > words.count() || records > section.records || !is_free && records > 0 {
            return None;
        }
        taken.push(first..end);
        spans[number] = SectionSpan { first, records };
    }
    Some(spans)
}
