//! What was found out about a name, kept by the line that it stands in.

/// One answer per line of a file whose lines keep their order.
#[derive(Default)]
pub(super) struct NameCache {
    entries: Vec<(Vec<u8>, bool)>,
}

impl NameCache {
    /// The answer for the name in that line; asked where the line has another name than before.
    pub fn get(&mut self, line: usize, name: &[u8], decide: impl FnOnce() -> bool) -> bool {
        match self.entries.get(line) {
            Some((known, answer)) if known == name => *answer,
            _ => {
                let answer = decide();
                self.entries.truncate(line);
                // Lines come in order: the one before this is there.
                self.entries.push((name.to_vec(), answer));
                answer
            }
        }
    }
}
