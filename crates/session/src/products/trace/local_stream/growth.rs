//! Larger rings in place of those that a stream began with, when records come faster than they are taken in.
//!
//! To make rings takes as long as to write them full: a thread of its own does it, while records are taken in from those that
//! there are. Rings that others read along stay as they are, and so do those whose size somebody has said.

use std::sync::mpsc::TryRecvError;

use weigh_trace::sink::MAIN;

use super::super::buffer::StreamBuffer;
use super::super::rings::Rings;
use super::state::LocalStream;

/// Rings grow when one is filled by more than one part in so many.
const FULL: u64 = 2;

impl LocalStream {
    /// Has larger rings made when one is half full, and puts them in place when they are there. Without them it goes on as
    /// it is.
    pub(super) fn grow_rings(&mut self) {
        let Some(mut growth) = self.growth.take() else { return };
        let is_main = |held: &StreamBuffer| held.name == MAIN && held.rings.is_some();
        let Some(index) = self.buffers.iter().position(is_main) else { return };
        let held = &self.buffers[index];
        let goes_on = match (&held.rings, &growth.making) {
            (Some(rings), None) if !held.is_read && is_half_full(rings) => {
                let half = 1 - rings.half;
                growth.begin(self.spread(&held.asked).clone(), half)
            }
            (_, None) => true,
            (_, Some(making)) => match making.try_recv() {
                Err(TryRecvError::Empty) => true,
                Ok(Ok(rings)) if !held.is_read => {
                    self.put_grown(index, rings);
                    false
                }
                _ => false,
            },
        };
        self.growth = goes_on.then_some(growth);
    }

    /// Those that were there are read on for a while. If no programs can be made for the new ones, the old ones stay.
    fn put_grown(&mut self, index: usize, rings: Rings) {
        let bytes = rings.reader.layout().bytes;
        let held = &mut self.buffers[index];
        let old = (held.rings.replace(rings), held.asked.bytes.replace(bytes));
        held.prepare(&self.kernel, &self.state, self.usual_wake);
        let renewed = self.renew();
        let held = &mut self.buffers[index];
        match (renewed, old.0) {
            (Ok(()), Some(rings)) => held.retire(rings),
            (Ok(()), None) => {}
            (Err(_), rings) => {
                held.put_rings(rings);
                held.asked.bytes = old.1;
                held.prepare(&self.kernel, &self.state, self.usual_wake);
                if let Err(error) = self.renew() {
                    self.fail(error);
                }
            }
        }
    }
}

fn is_half_full(rings: &Rings) -> bool {
    rings.reader.fullest() > rings.reader.layout().bytes as u64 / FULL
}
