//! How many of the events that the filter let through go on, over all CPUs at once.

use super::writer::{TIME, Writer};
use crate::assemble::{Op, R, When};
use crate::sampling::Sampling;

impl Writer<'_> {
    pub(super) fn sample(&mut self, sampling: Sampling) {
        let gate = self.state.gate(self.slot.number as usize, self.slot.gate) as u32;
        match sampling {
            Sampling::OneIn(n) => {
                let code = &mut self.code;
                code.map_value(R::R2, self.maps.state, gate);
                code.constant(R::R1, 1);
                code.fetch_add(R::R2, 0, R::R1);
                code.constant(R::R3, n);
                code.with(Op::Modulo, R::R1, R::R3);
                code.jump_if_constant(When::Unequal, R::R1, 0, self.end);
            }
            Sampling::Every(ns) => self.sample_by_time(gate, ns),
            Sampling::AtMost(most) => self.sample_by_rate(gate, most),
        }
    }

    /// The word says when the next may come; the thread that moves it on has won.
    fn sample_by_time(&mut self, gate: u32, ns: u64) {
        self.learn_time();
        let code = &mut self.code;
        code.map_value(R::R2, self.maps.state, gate);
        code.load(R::R0, R::R2, 0, 8);
        code.load(R::R3, R::Frame, TIME, 8);
        code.jump_if(When::Less, R::R3, R::R0, self.end);
        code.constant(R::R1, ns);
        code.with(Op::Add, R::R1, R::R3);
        code.with(Op::Move, R::R4, R::R0);
        code.compare_exchange(R::R2, 0, R::R1);
        code.jump_if(When::Unequal, R::R0, R::R4, self.end);
    }

    /// The word is the second, in its upper half, and how many have been let through in it.
    fn sample_by_rate(&mut self, gate: u32, most: u64) {
        self.learn_time();
        let code = &mut self.code;
        let (counts, passes) = (code.label(), code.label());
        code.load(R::R3, R::Frame, TIME, 8);
        code.constant(R::R1, 1_000_000_000);
        code.with(Op::Divide, R::R3, R::R1);
        code.map_value(R::R2, self.maps.state, gate);
        code.load(R::R0, R::R2, 0, 8);
        code.with(Op::Move, R::R4, R::R0);
        code.with_constant(Op::ShiftRight, R::R4, 32);
        code.jump_if(When::Equal, R::R4, R::R3, counts);
        // A new second: the thread that puts it there is its first.
        code.with(Op::Move, R::R4, R::R0);
        code.with(Op::Move, R::R1, R::R3);
        code.with_constant(Op::ShiftLeft, R::R1, 32);
        code.with_constant(Op::Add, R::R1, 1);
        code.compare_exchange(R::R2, 0, R::R1);
        code.jump_if(When::Equal, R::R0, R::R4, passes);
        code.place(counts);
        code.constant(R::R1, 1);
        code.fetch_add(R::R2, 0, R::R1);
        code.with_constant(Op::ShiftLeft, R::R1, 32);
        code.with_constant(Op::ShiftRight, R::R1, 32);
        code.constant(R::R3, most);
        code.jump_if(When::AtLeast, R::R1, R::R3, self.end);
        code.place(passes);
    }
}
