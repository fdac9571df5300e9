//! How much of their packets records have: all, as much as was wanted, or less, where the kernel gave no more.

use crate::path_resolve::Shape;
use crate::probe::Probe;
use crate::record::Record;
use crate::value::PlainNumber;

/// Where records say it.
#[derive(Clone, Copy, Debug)]
pub struct PacketSizes {
    kept: PlainNumber,
    length: PlainNumber,
    snap: u32,
}

/// Packets that went into a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// All.
    pub packets: u64,
    /// Those that ended before what was wanted of them.
    pub cut: u64,
}

impl PacketSizes {
    /// None if the records of a probe have no packet.
    pub fn new(probe: &Probe) -> Option<PacketSizes> {
        let number =
            |name: String| probe.fields.iter().find(|field| field.name == name)?.plain_number();
        probe.fields.iter().filter(|field| field.shape == Shape::Bytes).find_map(|field| {
            let [kept, length] =
                ["kept", "length"].map(|what| number(format!("{}_{what}", field.name)));
            Some(PacketSizes { kept: kept?, length: length?, snap: field.bytes })
        })
    }
}

impl PacketCounts {
    /// One more.
    #[inline]
    pub fn count(&mut self, sizes: &PacketSizes, record: Record<'_>) {
        let [kept, length] =
            [sizes.kept, sizes.length].map(|number| number.of(record).unwrap_or(0));
        self.packets += 1;
        self.cut += u64::from(kept < length.min(sizes.snap.into()));
    }

    /// A line for people, if there is something to say.
    pub fn remark(&self) -> Option<String> {
        let PacketCounts { packets, cut } = self;
        (*cut > 0).then(|| {
            format!(
                "{cut} of {packets} packets end before --snap: this kernel gives no more of them than their first part"
            )
        })
    }
}
