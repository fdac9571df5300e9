//! Names, metadata, and threads with their open regions.

use std::sync::Arc;

use weigh_schema::byte_text;
use weigh_schema::profile::{FRAMES, MOST_TEXT, OTHER_NAME, frame, metadata, name, node, thread};
use weigh_schema::region::snapshot::{OpenFrame, ProfileLosses, ProfileThread};

use super::reader::{ProfileReader, TRIES, section, settled};
use super::words::Words;

/// The number of the name of what found no room.
const OTHER: usize = 1;

impl ProfileReader {
    /// Names come and stay: those that are known are not read again.
    pub(super) fn read_names(&mut self, words: &dyn Words, lost: &mut ProfileLosses) {
        let places = self.records(words, section::NAMES, name::LENGTH);
        let mut names = std::mem::take(&mut self.names);
        let known = Arc::make_mut(&mut names);
        // 0 and 1 are there whatever the process says.
        known.resize(places.count.max(2).max(known.len()), String::new());
        known[OTHER] = OTHER_NAME.to_string();
        for (known, place) in known.iter_mut().zip(places.iter()).skip(OTHER + 1) {
            if known.is_empty() && words.load(place + name::BYTES) != 0 {
                match self.read_name(words, place) {
                    Some(text) => *known = text,
                    None => lost.damaged += 1,
                }
            }
        }
        lost.names_cut = self.names_cut;
        self.names = names;
    }

    fn read_name(&mut self, words: &dyn Words, place: usize) -> Option<String> {
        let word = |at: usize| words.load(place + at);
        let text = self.text(words, word(name::TEXT), word(name::BYTES))?;
        // Names lie apart: together they are not longer than all texts.
        self.name_bytes += text.len();
        if self.name_bytes > 16 * self.head.sections[section::TEXTS].records {
            return None;
        }
        self.names_cut += u64::from(word(name::CUT) > 0);
        Some(text)
    }

    /// A text of so many bytes; none if it does not lie among the texts.
    fn text(&self, words: &dyn Words, first: u64, bytes: u64) -> Option<String> {
        let span = self.head.sections[section::TEXTS];
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_TEXT)?;
        let first = usize::try_from(first).ok()?;
        let end = first.checked_add(bytes.div_ceil(8)).filter(|end| *end <= span.records)?;
        let mut text = Vec::with_capacity(8 * (end - first));
        (first..end).for_each(|at| text.extend(words.load(span.first + at).to_ne_bytes()));
        text.truncate(bytes);
        Some(byte_text::keep(&text))
    }

    pub(super) fn metadata(
        &self,
        words: &dyn Words,
        lost: &mut ProfileLosses,
    ) -> Vec<(String, String)> {
        let places = self.records(words, section::METADATA, metadata::LENGTH);
        let mut found = Vec::new();
        for place in places.iter().filter(|at| words.load(at + metadata::SEQUENCE) != 0) {
            match self.piece(words, place) {
                Some(piece) => found.push(piece),
                None => lost.damaged += 1,
            }
        }
        found
    }

    fn piece(&self, words: &dyn Words, place: usize) -> Option<(String, String)> {
        let parts =
            || [metadata::KEY, metadata::TEXT, metadata::BYTES].map(|at| words.load(place + at));
        let [key, text, bytes] = settled(words, place + metadata::SEQUENCE, TRIES, parts)?;
        let key = self.names.get(self.name(key)?).filter(|key| !key.is_empty())?;
        Some((key.clone(), self.text(words, text, bytes)?))
    }

    pub(super) fn threads(
        &self,
        words: &dyn Words,
        lost: &mut ProfileLosses,
    ) -> Vec<ProfileThread> {
        let places = self.records(words, section::THREADS, thread::LENGTH);
        places.iter().map(|place| self.read_thread(words, place, lost)).collect()
    }

    fn read_thread(
        &self,
        words: &dyn Words,
        place: usize,
        lost: &mut ProfileLosses,
    ) -> ProfileThread {
        let word = |at: usize| words.load(place + at);
        let depth = word(thread::DEPTH);
        let frames = usize::try_from(depth).unwrap_or(usize::MAX).min(FRAMES);
        let nodes = self.records(words, section::NODES, node::LENGTH).count;
        let mut open = Vec::with_capacity(frames);
        for number in 0..frames {
            let first = place + thread::STACK + number * frame::LENGTH;
            let begun = words.load(first + frame::BEGUN);
            let inside = words.load(first + frame::INSIDE);
            match usize::try_from(words.load(first + frame::NODE)) {
                Ok(node) if node < nodes => {
                    open.push(OpenFrame { node, begun: (begun != 0).then_some(begun), inside });
                }
                _ => lost.damaged += 1,
            }
        }
        let name = [word(thread::NAME), word(thread::NAME + 1)].map(u64::to_ne_bytes).concat();
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        ProfileThread {
            tid: u32::try_from(word(thread::TID)).unwrap_or(0),
            name: byte_text::keep(&name[..length]),
            begun: word(thread::BEGUN),
            ended: Some(word(thread::ENDED)).filter(|ended| *ended != 0),
            root: usize::try_from(word(thread::ROOT)).unwrap_or(usize::MAX),
            open,
            deeper: depth.saturating_sub(FRAMES as u64),
        }
    }
}
