//! Whether the thread is the user's, before anything else is looked at.

use super::writer::{TEXT, Writer};
use crate::assemble::{Helper, Op, R, When};

/// `MMF_DUMPABLE_MASK`, and `SUID_DUMP_USER`, of `<linux/sched/coredump.h>`.
const OPEN_MASK: i32 = 3;
const OPEN: i32 = 1;

impl Writer<'_> {
    /// Only threads go on that the probe's owner might look into anyway, if it has one.
    pub(super) fn leave_others_out(&mut self) {
        let Some(owner) = &self.probe.owner else { return };
        let end = self.end;
        self.code.constant(R::R8, u64::from(owner.uid));
        // The thread's own user in one call: that sends nearly all of the others away.
        self.code.call(Helper::CurrentUser);
        self.shorten(R::R0);
        self.code.jump_if(When::Unequal, R::R0, R::R8, end);
        self.code.call(Helper::CurrentTask);
        self.code.with(Op::Move, R::R7, R::R0);
        self.behind_thread(owner.credentials);
        self.code.with(Op::Move, R::R3, R::R0);
        self.code.with_constant(Op::Add, R::R3, owner.first);
        self.code.with(Op::Move, R::R1, R::Frame);
        self.code.with_constant(Op::Add, R::R1, i32::from(TEXT));
        self.code.constant(R::R2, u64::from(owner.bytes));
        self.code.call(Helper::ReadKernel);
        self.code.jump_if_constant(When::Unequal, R::R0, 0, end);
        for user in owner.users {
            self.code.load(R::R0, R::Frame, TEXT + user, 4);
            self.code.jump_if(When::Unequal, R::R0, R::R8, end);
        }
        self.code.constant(R::R1, u64::from(owner.gid));
        for group in owner.groups {
            self.code.load(R::R0, R::Frame, TEXT + group, 4);
            self.code.jump_if(When::Unequal, R::R0, R::R1, end);
        }
        // By halves: where it begins need not be a multiple of 8.
        for half in [0, 4] {
            self.code.load(R::R0, R::Frame, TEXT + owner.capabilities + half, 4);
            self.code.jump_if_constant(When::Unequal, R::R0, 0, end);
        }
        // A thread that has none any more, at its end, has nothing to hide there.
        let is_his = self.code.label();
        self.behind_thread(owner.memory);
        self.code.jump_if_constant(When::Equal, R::R0, 0, is_his);
        self.code.with(Op::Move, R::R3, R::R0);
        self.code.with_constant(Op::Add, R::R3, owner.flags);
        self.read_kernel(8, end);
        self.code.with_constant(Op::And, R::R0, OPEN_MASK);
        self.code.jump_if_constant(When::Unequal, R::R0, OPEN, end);
        self.code.place(is_his);
    }

    /// R0 is the pointer that lies so far behind R7, the thread.
    fn behind_thread(&mut self, offset: i32) {
        self.code.with(Op::Move, R::R3, R::R7);
        self.code.with_constant(Op::Add, R::R3, offset);
        self.read_kernel(8, self.end);
    }

    fn shorten(&mut self, register: R) {
        self.code.with_constant(Op::ShiftLeft, register, 32);
        self.code.with_constant(Op::ShiftRight, register, 32);
    }
}
