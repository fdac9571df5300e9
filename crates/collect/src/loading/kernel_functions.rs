//! Calls of the kernel's own functions in BPF programs (`bpf/follow.h`): numbers in place of their names.

use std::slice;

use libbpf_rs::libbpf_sys as sys;

use crate::offers::Offers;

/// What the first of them is called by in a compiled program. No helper has such a number.
const FIRST: i32 = 0x5700_0000;

/// In the order of their numbers in `bpf/follow.h`.
const NAMES: [&str; 2] = ["bpf_rdonly_cast", "bpf_send_signal_task"];

/// `call`
const CALL: u8 = 0x85;

/// `r0 = `
const SET: u8 = 0xb7;

/// The type numbers of the functions; 0 of one that this kernel lacks, which programs ask before.
pub(super) struct KernelFunctions([u32; NAMES.len()]);

impl KernelFunctions {
    pub(super) fn new(offers: &Offers<'_>) -> KernelFunctions {
        KernelFunctions(NAMES.map(|name| offers.function_id(name).unwrap_or(0)))
    }

    /// The instructions of a program, in which the functions are called.
    ///
    /// # Safety
    /// It must be a program that libbpf is about to load.
    pub(super) unsafe fn put_into(&self, program: *const sys::bpf_program) -> Vec<sys::bpf_insn> {
        // SAFETY: the caller vouches for it; so many instructions are there.
        let mut instructions = unsafe {
            let first = sys::bpf_program__insns(program);
            slice::from_raw_parts(first, sys::bpf_program__insn_cnt(program) as usize).to_vec()
        };
        instructions.iter_mut().for_each(|instruction| self.put_in(instruction));
        instructions
    }

    fn put_in(&self, instruction: &mut sys::bpf_insn) {
        let is_helper = instruction.code == CALL && instruction.src_reg() == 0;
        let index = instruction.imm.checked_sub(FIRST).filter(|_| is_helper);
        let id = index.and_then(|index| self.0.get(usize::try_from(index).ok()?));
        match id {
            None => {}
            // It is not reached there, but has to be an instruction.
            Some(0) => *instruction = sys::bpf_insn { code: SET, ..Default::default() },
            Some(id) => {
                instruction.set_src_reg(sys::BPF_PSEUDO_KFUNC_CALL as u8);
                instruction.off = 0;
                instruction.imm = *id as i32;
            }
        }
    }
}
