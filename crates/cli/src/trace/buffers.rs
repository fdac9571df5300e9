//! The rings of a stream: how many, how large, and which CPU writes into which.

use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::Context as _;
use weigh_collect::trace::{self, KernelTrace, Reader, ReaderFds};
use weigh_schema::ring::Layout;
use weigh_trace::generate;
use weigh_trace::state::{OfBuffer, State};

/// Bytes of one ring for all CPUs, if nothing else is asked for.
const FOR_ALL: usize = 8 << 20;
/// Bytes of all rings together, where each CPU has one.
const TOGETHER: usize = 128 << 20;
/// Bytes of each of them: at least, at most.
const EACH: (usize, usize) = (1 << 20, 8 << 20);

/// Who writes into the same ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All CPUs.
    One,
    /// Each CPU has one of its own.
    PerCpu,
}

impl Spread {
    /// Bytes of each ring, if nothing else is asked for.
    fn bytes(self, rings: usize) -> usize {
        match self {
            Spread::One => FOR_ALL,
            Spread::PerCpu => {
                let each = (TOGETHER / rings).max(1);
                (1 << each.ilog2()).clamp(EACH.0, EACH.1)
            }
        }
    }
}

/// The rings of a stream.
pub struct Buffer {
    /// Who reads them.
    pub reader: Reader,
    kernel: trace::Buffer,
    is_shared: bool,
}

impl Buffer {
    /// Makes them.
    pub fn make(spread: Spread, bytes: Option<usize>) -> anyhow::Result<Buffer> {
        let rings = match spread {
            Spread::One => 1,
            Spread::PerCpu => trace::cpus_online().len(),
        };
        let bytes = bytes.unwrap_or_else(|| spread.bytes(rings));
        let layout = Layout::new(rings as u64, bytes as u64);
        let layout =
            layout.with_context(|| format!("{rings} rings of {bytes} bytes can not be"))?;
        let kernel = trace::Buffer::make(layout)?;
        let reader = kernel.for_reader().and_then(Reader::new);
        let reader = reader.context("the rings can not be read")?;
        Ok(Buffer { reader, kernel, is_shared: rings < trace::cpus() })
    }

    /// Says to each CPU which is its ring. One that is not there yet may have another's, when it comes.
    pub fn assign(&self, kernel: &KernelTrace, state: &State) {
        let online = trace::cpus_online();
        for cpu in 0..state.cpus {
            let own = online.iter().position(|online| *online == cpu).unwrap_or(cpu);
            let ring = own % self.reader.layout().rings;
            kernel.set_word(state.buffer(cpu, 0, OfBuffer::Ring), ring as u64);
        }
    }

    /// The rings, for those who read along.
    pub fn rings(&self) -> BorrowedFd<'_> {
        self.kernel.rings()
    }

    /// Descriptors for who is to be their owner: rings, how far each has been read, what wakes.
    pub fn given(&self) -> std::io::Result<Vec<OwnedFd>> {
        let ReaderFds { rings, consumers, doorbell } = self.kernel.for_reader()?;
        Ok(vec![rings, consumers, doorbell])
    }

    /// What programs know of them.
    pub fn for_programs(&self) -> generate::Buffer {
        let [rings, consumers, doorbell] = self.kernel.descriptors();
        let (layout, is_shared) = (self.kernel.layout(), self.is_shared);
        generate::Buffer { number: 0, rings, consumers, doorbell, layout, is_shared }
    }

    /// How much a CPU writes until weigh is waked: an eighth of what it can write.
    pub fn watermark(&self) -> u64 {
        let Layout { rings, bytes } = self.reader.layout();
        (rings * bytes / trace::cpus_online().len().max(1)) as u64 / 8
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn many_cpus_have_smaller_rings() {
        let bytes = [1, 2, 32, 48, 64, 256, 4096].map(|cpus| Spread::PerCpu.bytes(cpus) >> 20);
        assert_eq!(bytes, [8, 8, 4, 2, 2, 1, 1]);
        assert_eq!(Spread::One.bytes(1) >> 20, 8);
    }
}
