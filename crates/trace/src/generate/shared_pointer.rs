//! A pointer that several fields lie behind, as a packet's device: it is loaded once.
//!
//! Where the verifier knows the structures it looks each such load up in all of the kernel's types, by names: that was most
//! of what it took to check a program of packets. So it is loaded from a pointer that was cast, where that can be done.

use super::writer::{Access, SHARED, SharedPointer, Writer};
use crate::assemble::{Label, Op, R, When};
use crate::condition::{Source, TextSource};
use crate::path_resolve::PathEnd;
use crate::probe::{Content, ProbeField};

impl Writer<'_> {
    /// The pointer that most fields of the probe lie behind, on the stack: 0 if there is none.
    pub(super) fn share_pointer(&mut self) {
        let Some(shared) = self.find_shared() else { return };
        let none = self.code.label();
        self.argument(shared.slot, none);
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::R0);
        code.jump_if_constant(When::Equal, R::R1, 0, none);
        if let Some((cast, of)) = self.cast(shared.slot) {
            let code = &mut self.code;
            code.constant(R::R2, of.into());
            code.call_function(cast);
            code.with(Op::Move, R::R1, R::R0);
        }
        let code = &mut self.code;
        code.load(R::R0, R::R1, shared.hop.offset as i16, 8);
        code.place(none);
        code.store(R::Frame, SHARED, R::R0, 8);
        self.shared = Some(shared);
    }

    /// The function that casts an argument, if that is a packet, and its type.
    fn cast(&self, slot: i16) -> Option<(u32, u32)> {
        if self.access != Access::Direct {
            return None;
        }
        self.probe.fields.iter().find_map(|field| match &field.content {
            Content::Packet(packet) if packet.skb.slot == slot => packet.cast,
            _ => None,
        })
    }

    fn find_shared(&self) -> Option<SharedPointer> {
        if self.access == Access::Helpers || self.site.is_some() || self.maps.calls.is_some() {
            return None;
        }
        let all: Vec<SharedPointer> = self.probe.fields.iter().filter_map(of_field).collect();
        let times = |one: &SharedPointer| all.iter().filter(|other| *other == one).count();
        all.iter().copied().max_by_key(times).filter(|most| times(most) > 1)
    }

    /// R1 is the last pointer of a way that is shared, and not NULL; false if the way is another one.
    pub(super) fn load_shared(&mut self, place: &PathEnd, absent: Label) -> bool {
        let is_shared = self.shared.is_some() && of_place(place) == self.shared;
        if is_shared {
            self.code.load(R::R1, R::Frame, SHARED, 8);
            self.code.jump_if_constant(When::Equal, R::R1, 0, absent);
        }
        is_shared
    }
}

fn of_field(field: &ProbeField) -> Option<SharedPointer> {
    match &field.content {
        Content::Number(Source::PathEnd(place)) => of_place(place),
        Content::Text { source: TextSource::PathEnd(place), is_user: false } => of_place(place),
        _ => None,
    }
}

fn of_place(place: &PathEnd) -> Option<SharedPointer> {
    let [hop] = place.hops[..] else { return None };
    let is_near = hop.is_typed && i16::try_from(hop.offset).is_ok();
    is_near.then_some(SharedPointer { slot: place.slot, hop })
}
