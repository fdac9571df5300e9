//! What the programs of a stream and weigh share: one array, in memory of both.
//!
//! First what weigh sets while the stream runs; then, for each probe, what it needs to sample and the
//! constants of its filter; then, for each CPU, what it has counted. A CPU writes to its own lines
//! alone, but for the sampling of a probe, which goes over all CPUs.

/// Bytes until a CPU has to be waked for: a word.
pub const WATERMARK: usize = 0;
/// Bytes before the probes.
const HEAD: usize = 64;
/// Bytes of a probe that all CPUs share.
const PROBE: usize = 128;
/// Bytes before the counts of a CPU.
const CPU_HEAD: usize = 64;
/// Bytes of what a CPU counts for a probe.
const COUNTS: usize = 32;

/// Where things lie in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Probes that there is room for.
    pub probes: usize,
    /// CPUs that there is room for.
    pub cpus: usize,
}

/// What a CPU has counted of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Records that were written.
    Sent = 0,
    /// Events for which the ring had no room.
    Lost = 8,
    /// Events that the filter let through, where there is sampling after it.
    Matched = 16,
}

impl State {
    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.cpu(self.cpus)
    }

    /// What the sampling of a probe counts by.
    pub fn gate(&self, probe: usize) -> usize {
        HEAD + probe * PROBE
    }

    /// What a CPU has to itself: the first word is how much it has written since it waked anybody.
    pub fn cpu(&self, cpu: usize) -> usize {
        HEAD + self.probes * PROBE + cpu * self.stride()
    }

    /// From a CPU to the next.
    pub fn stride(&self) -> usize {
        (CPU_HEAD + self.probes * COUNTS).next_multiple_of(64)
    }

    /// Where a count lies behind the beginning of a CPU.
    pub fn of_cpu(&self, probe: usize, count: Count) -> usize {
        CPU_HEAD + probe * COUNTS + count as usize
    }

    /// Where a count lies.
    pub fn count(&self, cpu: usize, probe: usize, count: Count) -> usize {
        self.cpu(cpu) + self.of_cpu(probe, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_on_top_of_anything() {
        let state = State { probes: 3, cpus: 2 };
        let mut places = vec![WATERMARK];
        places.extend((0..3).flat_map(|probe| [state.gate(probe), state.gate(probe) + 120]));
        for cpu in 0..2 {
            places.push(state.cpu(cpu));
            for probe in 0..3 {
                for count in [Count::Sent, Count::Lost, Count::Matched] {
                    places.push(state.count(cpu, probe, count));
                }
            }
        }
        assert!(places.is_sorted_by(|a, b| a + 8 <= *b), "{places:?}");
        assert!(places.iter().all(|place| place % 8 == 0 && place + 8 <= state.bytes()));
    }
}
