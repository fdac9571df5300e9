//! Which programs for packets are wanted.

use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::layout::skeleton;
use crate::job::{JobError, bpf};

const DRIVER: &str = "__driver_";
const ARRIVAL: &str = "__arrival_";

/// Which of the programs on standby are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) drivers: bool,
    pub(super) arrivals: bool,
}

impl Demand {
    /// Whether a program is attached for the parts that it is of: all are that are not on standby.
    pub(super) fn wants(self, program: &str) -> bool {
        (self.drivers || !program.contains(DRIVER)) && (self.arrivals || !program.contains(ARRIVAL))
    }
}

pub(super) struct Standby {
    pub(super) seen: Demand,
    pub(super) attention: RingBuffer<'static>,
}

impl Standby {
    pub(super) fn new(skeleton: &skeleton::CallsSkel<'static>) -> Result<Standby, JobError> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&skeleton.maps.attention, |_| 0).map_err(bpf("ring buffer"))?;
        let attention = builder.build().map_err(bpf("ring buffer"))?;
        Ok(Standby { seen: Demand { drivers: true, arrivals: false }, attention })
    }
}
