//! What a job holds for certain where address spaces cannot be compared: processes that may share one by CLONE_VM count
//! once.
//!
//! Reads where each program was put at its last exec: processes of one address space cannot differ there. A fork does
//! not either, so that it counts with its parent. Emits lower bounds, against which limits are held.

use std::collections::BTreeMap;

use weigh_schema::event::CertainMemory;

/// Lower bounds of sums at one look, or what one process holds, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CertainSums {
    /// What no two processes can have in common.
    pub unshared: u64,
    /// Resident sizes.
    pub rss: u64,
    /// Swapped-out sizes.
    pub swap: u64,
    /// Virtual sizes.
    pub virtual_size: u64,
    /// Huge pages of hugetlbfs.
    pub hugetlb: u64,
}

impl CertainSums {
    /// Adds up the greatest of each image. A process whose image is hidden may use the memory of any other: it adds
    /// nothing.
    pub fn of_images(
        processes: impl Iterator<Item = (Option<[u64; 2]>, CertainSums)>,
    ) -> CertainSums {
        let mut images: BTreeMap<[u64; 2], CertainSums> = BTreeMap::new();
        for (image, held) in processes {
            if let Some(image) = image {
                images.entry(image).or_default().take_greater(&held);
            }
        }
        images.into_values().fold(CertainSums::default(), CertainSums::plus)
    }

    fn take_greater(&mut self, other: &CertainSums) {
        self.unshared = self.unshared.max(other.unshared);
        self.rss = self.rss.max(other.rss);
        self.swap = self.swap.max(other.swap);
        self.virtual_size = self.virtual_size.max(other.virtual_size);
        self.hugetlb = self.hugetlb.max(other.hugetlb);
    }

    fn plus(self, other: CertainSums) -> CertainSums {
        CertainSums {
            unshared: self.unshared + other.unshared,
            rss: self.rss + other.rss,
            swap: self.swap + other.swap,
            virtual_size: self.virtual_size + other.virtual_size,
            hugetlb: self.hugetlb + other.hugetlb,
        }
    }

    /// The peaks so far; one process holds `largest` by itself.
    pub fn peaks(&self, before: Option<&CertainMemory>, largest: u64) -> CertainMemory {
        let before = before.copied().unwrap_or_default();
        CertainMemory {
            rss_sum_peak: before.rss_sum_peak.max(self.rss).max(largest),
            swap_peak: before.swap_peak.max(self.swap),
            virtual_peak: before.virtual_peak.max(self.virtual_size),
            hugetlb_peak: before.hugetlb_peak.max(self.hugetlb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums_of(rss: u64) -> CertainSums {
        CertainSums { unshared: rss / 2, rss, swap: 1, virtual_size: 2 * rss, hugetlb: 0 }
    }

    #[test]
    fn the_greatest_of_an_image_counts_and_images_add_up() {
        let (one, other) = (Some([1, 2]), Some([1, 3]));
        let held = [(one, 50), (other, 40), (one, 60), (None, 90)];
        let both =
            CertainSums::of_images(held.into_iter().map(|(image, rss)| (image, sums_of(rss))));
        assert_eq!((both.rss, both.unshared, both.swap, both.virtual_size), (100, 50, 2, 200));
    }

    #[test]
    fn peaks_stay_and_one_process_is_certain_by_itself() {
        let before = CertainMemory { rss_sum_peak: 80, virtual_peak: 500, ..Default::default() };
        let peaks = sums_of(60).peaks(Some(&before), 90);
        assert_eq!((peaks.rss_sum_peak, peaks.virtual_peak, peaks.swap_peak), (90, 500, 1));
    }
}
