//! The rings of a buffer: how many, how large, and which CPU writes into which.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;

use anyhow::Context as _;
use weigh_collect::trace::{self, KernelTrace, Reader, ReaderFds};
use weigh_schema::ring::Layout;
use weigh_trace::buffer_spec::Spread;
use weigh_trace::state::{OfBuffer, State};

/// Bytes of one ring for all CPUs, if nothing else is asked for.
const FOR_ALL: usize = 8 << 20;
/// Bytes of all rings together, where each CPU has one.
const TOGETHER: usize = 128 << 20;
/// Bytes of each of them: at least, at most.
const EACH: (usize, usize) = (1 << 20, 8 << 20);

/// Rings, and who writes into them.
pub struct Rings {
    /// Who reads them.
    pub reader: Reader,
    kernel: trace::Buffer,
    /// The ring of each CPU.
    of_cpus: Vec<usize>,
    /// Whether several CPUs write into one.
    pub is_shared: bool,
    /// Which half of what a CPU knows says which is its ring: those that were there before have the other one.
    pub half: usize,
}

impl Rings {
    /// Makes them.
    pub fn make(spread: &Spread, bytes: Option<usize>, half: usize) -> anyhow::Result<Rings> {
        let of_cpus = of_cpus(spread, trace::cpus(), &trace::cpus_online());
        let rings = of_cpus.iter().max().map_or(1, |last| last + 1);
        let bytes = bytes.unwrap_or_else(|| bytes_of_each(rings));
        let layout = Layout::new(rings as u64, bytes as u64);
        let layout = layout.with_context(|| format!("{rings} rings of {bytes} bytes cannot be"))?;
        let kernel = trace::Buffer::make(layout)?;
        let reader = kernel.for_reader().and_then(Reader::new);
        let reader = reader.context("the rings cannot be read")?;
        let is_shared = rings < of_cpus.len();
        Ok(Rings { reader, kernel, of_cpus, is_shared, half: half % 2 })
    }

    /// Says to each CPU which is its ring.
    pub fn assign(&self, kernel: &KernelTrace, state: &State, number: usize) {
        for (cpu, ring) in self.of_cpus.iter().enumerate().take(state.cpus) {
            let place = state.buffer(cpu, number, OfBuffer::Ring);
            let shift = 32 * self.half;
            let others = kernel.word(place) & !(u64::from(u32::MAX) << shift);
            kernel.set_word(place, others | (*ring as u64) << shift);
        }
    }

    /// The rings, for those who read along.
    pub fn array(&self) -> BorrowedFd<'_> {
        self.kernel.rings()
    }

    /// Descriptors for who is to be their owner: rings, how far each has been read, what wakes.
    pub fn given(&self) -> std::io::Result<Vec<OwnedFd>> {
        let ReaderFds { rings, consumers, doorbell } = self.kernel.for_reader()?;
        Ok(vec![rings, consumers, doorbell])
    }

    /// The descriptors that programs name: rings, how far each has been read, doorbell.
    pub fn descriptors(&self) -> [i32; 3] {
        self.kernel.descriptors()
    }

    /// What its stamps are made with.
    pub fn key(&self) -> u64 {
        self.kernel.key()
    }

    /// How much a CPU writes until weigh is waked: an eighth of what it can write.
    pub fn watermark(&self) -> u64 {
        let Layout { rings, bytes } = self.reader.layout();
        (rings * bytes / trace::cpus_online().len().max(1)) as u64 / 8
    }
}

/// Larger rings for a buffer.
pub struct Growth {
    /// Bytes of each.
    bytes: usize,
    /// Who makes them; none: nobody yet.
    pub making: Option<Receiver<anyhow::Result<Rings>>>,
}

impl Growth {
    /// Up to so many bytes each.
    pub fn new(bytes: usize) -> Growth {
        Growth { bytes, making: None }
    }

    /// Has them made. False if no thread can be.
    pub fn begin(&mut self, spread: Spread, half: usize) -> bool {
        let (give, take) = channel();
        let bytes = self.bytes;
        let make = move || {
            // Who has asked may have ended.
            let _ = give.send(Rings::make(&spread, Some(bytes), half));
        };
        self.making = Some(take);
        Builder::new().name("rings".into()).spawn(make).is_ok()
    }
}

/// Bytes of each of so many rings, if nothing else is asked for.
fn bytes_of_each(rings: usize) -> usize {
    match rings {
        1 => FOR_ALL,
        _ => (1 << (TOGETHER / rings).max(1).ilog2()).clamp(EACH.0, EACH.1),
    }
}

/// The ring of each CPU that is possible. One that is not there yet may have another's, when it comes.
fn of_cpus(spread: &Spread, possible: usize, online: &[usize]) -> Vec<usize> {
    let ring = |cpu: usize| match spread {
        Spread::One => 0,
        Spread::PerCpu => {
            let own = online.iter().position(|online| *online == cpu);
            own.unwrap_or(cpu % online.len().max(1))
        }
        Spread::Groups(groups) => {
            groups.iter().position(|group| group.contains(&cpu)).unwrap_or(groups.len())
        }
    };
    (0..possible.max(1)).map(ring).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpus_have_smaller_rings() {
        let bytes = [1, 2, 32, 48, 64, 256, 4096].map(|rings| bytes_of_each(rings) >> 20);
        assert_eq!(bytes, [8, 8, 4, 2, 2, 1, 1]);
    }

    #[test]
    fn every_cpu_has_a_ring() {
        assert_eq!(of_cpus(&Spread::One, 3, &[0, 1, 2]), [0, 0, 0]);
        assert_eq!(of_cpus(&Spread::PerCpu, 5, &[0, 2, 3]), [0, 1, 1, 2, 1]);
        let groups = Spread::Groups(vec![vec![3], vec![0, 1]]);
        assert_eq!(of_cpus(&groups, 5, &[0, 1, 2, 3, 4]), [1, 1, 2, 0, 2]);
    }
}
