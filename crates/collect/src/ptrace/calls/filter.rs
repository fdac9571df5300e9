//! The filter that lets only calls of interest stop, from the table of calls.

use libc::sock_filter;

use super::table::{ABIS, Abi, Kind, X32};
use crate::call_filter::CallFilter;
use crate::follow::Wanted;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where the number, and whose it is, lie in `struct seccomp_data`.
const NUMBER: u32 = 0;
const AUDIT_ARCH: u32 = 4;

/// Picks out the calls that are wanted, of every kind of program that is known; of others all, so
/// that they can be named.
pub fn filter(wanted: Wanted) -> CallFilter {
    let mut program = vec![step(LOAD, AUDIT_ARCH)];
    for abi in ABIS {
        let part = part(abi, wanted);
        program.push(jump(IF_EQUAL, abi.audit_arch, 0, part.len() as u8));
        program.extend(part);
    }
    program.push(step(RETURN, libc::SECCOMP_RET_TRACE));
    CallFilter::new(program)
}

fn part(abi: &Abi, wanted: Wanted) -> Vec<sock_filter> {
    let numbers: Vec<u32> = abi
        .calls
        .iter()
        .filter(|(_, kind)| is_wanted(*kind, wanted))
        .map(|(number, _)| *number as u32)
        .collect();
    let mut part = vec![step(LOAD, NUMBER)];
    let mut left = numbers.len() as u8;
    if !abi.is_32_bit {
        part.push(jump(IF_AT_LEAST, X32 as u32, left + 1, 0));
    }
    for number in numbers {
        part.push(jump(IF_EQUAL, number, left, 0));
        left -= 1;
    }
    part.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    part.push(step(RETURN, libc::SECCOMP_RET_TRACE));
    part
}

fn is_wanted(kind: Kind, wanted: Wanted) -> bool {
    match kind {
        Kind::Open(_) => wanted.files,
        Kind::Trace | Kind::Uring | Kind::Aio => true,
        _ => wanted.network,
    }
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    /// What the kernel would do with a call.
    fn verdict(program: &[sock_filter], audit_arch: u32, number: u32) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let taken = match code {
                LOAD => {
                    held = if k == NUMBER { number } else { audit_arch };
                    continue;
                }
                IF_EQUAL => held == k,
                IF_AT_LEAST => held >= k,
                RETURN => return k,
                other => panic!("{other}"),
            };
            at += usize::from(if taken { jt } else { jf });
        }
    }

    #[test]
    fn the_filter_stops_what_the_table_knows_and_nothing_else() {
        let all = Wanted { calls: true, network: true, files: true };
        let program = filter(all).program();
        for abi in ABIS {
            for number in 0..500 {
                let is_known = matches!(table::kind(abi.audit_arch, number.into()), Ok(Some(_)));
                let expected =
                    if is_known { libc::SECCOMP_RET_TRACE } else { libc::SECCOMP_RET_ALLOW };
                assert_eq!(verdict(&program, abi.audit_arch, number), expected, "{number}");
            }
        }
        let unknown = verdict(&program, 0x8000_0016, 4);
        assert_eq!(unknown, libc::SECCOMP_RET_TRACE, "another machine's");
        let native = ABIS[0].audit_arch;
        assert_eq!(verdict(&program, native, X32 as u32 + 5), libc::SECCOMP_RET_TRACE);
    }

    #[test]
    fn what_is_not_wanted_does_not_stop() {
        let files = Wanted { calls: true, network: false, files: true };
        let program = filter(files).program();
        let of = |number: libc::c_long| verdict(&program, ABIS[0].audit_arch, number as u32);
        assert_eq!(of(libc::SYS_openat), libc::SECCOMP_RET_TRACE);
        assert_eq!(of(libc::SYS_read), libc::SECCOMP_RET_ALLOW);
    }
}
