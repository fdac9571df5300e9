//! The words of a profile.

/// Words that another process may write to.
pub trait Words {
    /// How many there are.
    fn count(&self) -> usize;

    /// A word as it is now, read before all that is read later; 0 where there is none.
    fn load(&self, at: usize) -> u64;
}

impl Words for [u64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.get(at).copied().unwrap_or(0)
    }
}

impl Words for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.as_slice().load(at)
    }
}
