//! What the programs of a stream and weigh share: one array, in memory of both.
//!
//! First what weigh sets while the stream runs; then, for each probe, what it needs to sample and the
//! constants of its filter; then, for each CPU, what it has counted. A CPU writes to its own lines
//! alone, but for the sampling of a probe, which goes over all CPUs.

/// Buffers of a stream at most.
pub const BUFFERS: usize = 8;
/// Bytes that all CPUs share of a buffer: its watermark.
const SHARED: usize = 8;
/// Bytes before the buffers' predicates.
const WATERMARKS: usize = BUFFERS * SHARED;
/// Bytes before the probes. A predicate has what a probe has, and uses its constants alone.
const HEAD: usize = WATERMARKS + BUFFERS * PROBE;
/// Bytes of a probe that all CPUs share: its gates, which bank of constants holds, and both banks.
const PROBE: usize = 64 + 2 * BANK;
/// Bytes of a bank.
pub(crate) const BANK: usize = CONSTANTS * 8;
/// Where the banks begin, behind the beginning of a probe.
pub(crate) const BANKS: usize = 64;
/// Where it says which bank holds: how many bytes behind the first it lies.
pub(crate) const HOLDING: usize = 16;
/// Constants of a filter that can be changed while the stream runs.
pub const CONSTANTS: usize = 8;
/// Bytes of what a CPU has for a buffer.
const CPU_BUFFER: usize = 32;
/// Bytes before the counts of a CPU.
const CPU_HEAD: usize = BUFFERS * CPU_BUFFER;
/// Bytes of what a CPU counts of a probe's records in a buffer.
const IN_BUFFER: usize = 16;
/// Bytes before that.
const BEFORE_BUFFERS: usize = 16;
/// Bytes of what a CPU counts for a probe.
const COUNTS: usize = BEFORE_BUFFERS + BUFFERS * IN_BUFFER;

/// Where things lie in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Probes that there is room for.
    pub probes: usize,
    /// CPUs that there is room for.
    pub cpus: usize,
}

/// What a CPU has for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfBuffer {
    /// How much it has written since it waked anybody.
    Written = 0,
    /// Which of the buffer's rings is its own, in each half: the programs that other rings are made for
    /// read the other one.
    Ring = 8,
    /// Records that the buffer's predicate did not let in.
    Passed = 16,
}

/// What a CPU has counted of a probe in a buffer, since the stream began: another buffer of this number goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InBuffer {
    /// Records that were written.
    Sent = 0,
    /// Events for which the ring had no room.
    Lost = 8,
}

impl State {
    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.cpu(self.cpus)
    }

    /// How much a CPU writes into a buffer until somebody is waked.
    pub fn watermark(&self, buffer: usize) -> usize {
        buffer % BUFFERS * SHARED
    }

    /// What belongs to a buffer's predicate.
    pub(crate) fn predicate(&self, buffer: usize) -> usize {
        WATERMARKS + buffer % BUFFERS * PROBE
    }

    /// Which of a predicate's two banks of constants holds.
    pub fn predicate_holding(&self, buffer: usize) -> usize {
        self.predicate(buffer) + HOLDING
    }

    /// A constant of a predicate in one of its banks.
    pub fn predicate_constant(&self, buffer: usize, bank: usize, number: usize) -> usize {
        self.predicate(buffer) + BANKS + bank % 2 * BANK + number * 8
    }

    /// What belongs to a probe, over all CPUs.
    pub(crate) fn probe(&self, probe: usize) -> usize {
        HEAD + probe * PROBE
    }

    /// What the sampling of a probe counts by. There are two: a new rule begins with the one that the
    /// old rule does not use.
    pub fn gate(&self, probe: usize, gate: usize) -> usize {
        self.probe(probe) + gate % 2 * 8
    }

    /// Which of a filter's two banks of constants holds: 0, or the bytes of a bank.
    pub fn holding(&self, probe: usize) -> usize {
        self.probe(probe) + HOLDING
    }

    /// A constant of a probe's filter in one of its banks.
    pub fn constant(&self, probe: usize, bank: usize, number: usize) -> usize {
        self.probe(probe) + BANKS + bank % 2 * BANK + number * 8
    }

    /// What [`State::holding`] has to say so that a bank holds.
    pub fn bank_word(bank: usize) -> u64 {
        (bank % 2 * BANK) as u64
    }

    /// What a CPU has to itself: first what it has for each buffer.
    pub fn cpu(&self, cpu: usize) -> usize {
        HEAD + self.probes * PROBE + cpu * self.stride()
    }

    /// From a CPU to the next.
    pub fn stride(&self) -> usize {
        (CPU_HEAD + self.probes * COUNTS).next_multiple_of(64)
    }

    /// Where what a CPU has for a buffer lies behind the beginning of a CPU.
    pub fn of_buffer(&self, buffer: usize, what: OfBuffer) -> usize {
        buffer % BUFFERS * CPU_BUFFER + what as usize
    }

    /// Where it lies.
    pub fn buffer(&self, cpu: usize, buffer: usize, what: OfBuffer) -> usize {
        self.cpu(cpu) + self.of_buffer(buffer, what)
    }

    /// Where a CPU counts the events of a probe that its filter let through, where there is sampling after it; behind the
    /// beginning of a CPU.
    pub fn of_cpu_matched(&self, probe: usize) -> usize {
        CPU_HEAD + probe * COUNTS
    }

    /// Where that lies.
    pub fn matched(&self, cpu: usize, probe: usize) -> usize {
        self.cpu(cpu) + self.of_cpu_matched(probe)
    }

    /// Where a count of a probe in a buffer lies behind the beginning of a CPU.
    pub fn of_cpu_in(&self, probe: usize, buffer: usize, count: InBuffer) -> usize {
        CPU_HEAD + probe * COUNTS + BEFORE_BUFFERS + buffer % BUFFERS * IN_BUFFER + count as usize
    }

    /// Where it lies.
    pub fn count_in(&self, cpu: usize, probe: usize, buffer: usize, count: InBuffer) -> usize {
        self.cpu(cpu) + self.of_cpu_in(probe, buffer, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_on_top_of_anything() {
        let state = State { probes: 3, cpus: 2 };
        let mut places: Vec<usize> = (0..BUFFERS).map(|buffer| state.watermark(buffer)).collect();
        for buffer in 0..BUFFERS {
            places.push(state.predicate_holding(buffer));
            for bank in 0..2 {
                let constant = |number| state.predicate_constant(buffer, bank, number);
                places.extend((0..CONSTANTS).map(constant));
            }
        }
        for probe in 0..3 {
            places.extend([state.gate(probe, 0), state.gate(probe, 1), state.holding(probe)]);
            for bank in 0..2 {
                places.extend((0..CONSTANTS).map(|number| state.constant(probe, bank, number)));
            }
        }
        for cpu in 0..2 {
            for buffer in 0..BUFFERS {
                let of = [OfBuffer::Written, OfBuffer::Ring, OfBuffer::Passed];
                places.extend(of.map(|what| state.buffer(cpu, buffer, what)));
            }
            for probe in 0..3 {
                places.push(state.matched(cpu, probe));
                for buffer in 0..BUFFERS {
                    let count = |count| state.count_in(cpu, probe, buffer, count);
                    places.extend([InBuffer::Sent, InBuffer::Lost].map(count));
                }
            }
        }
        assert!(places.is_sorted_by(|a, b| a + 8 <= *b), "{places:?}");
        assert!(places.iter().all(|place| place % 8 == 0 && place + 8 <= state.bytes()));
    }
}
