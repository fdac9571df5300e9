//! The filter that lets only calls of interest stop, from the tables of calls.

use std::collections::BTreeSet;

use libc::sock_filter;

use super::table::{ABIS, Abi, CallAction, X32};
use crate::call_filter::CallFilter;
use crate::follow::JobDetail;
use crate::io::calls::short::is_known_abi;
use crate::ptrace::io::{short, table as files};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where the number, and whose it is, lie in `struct seccomp_data`.
const NUMBER: u32 = 0;
const AUDIT_ARCH: u32 = 4;
/// Where the lower half of an argument lies, in the order of bytes of x86 and ARM.
const fn argument(number: u32) -> u32 {
    16 + 8 * number
}

/// Which calls are to stop.
#[derive(Clone, Copy, Debug)]
pub struct Stopping {
    /// For counters, connections and opened files, if calls are wanted.
    pub wanted: Option<JobDetail>,
    /// For what is read and written by file.
    pub files: bool,
}

/// Picks out the calls that are wanted, of every kind of program that is known; of others all, so
/// that they can be named.
pub fn filter(stopping: Stopping) -> CallFilter {
    let mut program = vec![step(LOAD, AUDIT_ARCH)];
    for abi in ABIS {
        let part = part(abi, stopping);
        program.push(jump(IF_EQUAL, abi.audit_arch, 0, part.len() as u8));
        program.extend(part);
    }
    program.push(step(RETURN, libc::SECCOMP_RET_TRACE));
    CallFilter::new(program)
}

fn part(abi: &Abi, stopping: Stopping) -> Vec<sock_filter> {
    let wanted = |kind| stopping.wanted.is_some_and(|wanted| is_wanted(kind, wanted));
    let counted = abi.calls.iter().filter(|(_, kind)| wanted(*kind));
    let mut numbers: BTreeSet<u32> = counted.map(|(number, _)| *number as u32).collect();
    let mut part = vec![step(LOAD, NUMBER)];
    if stopping.files && !abi.is_32_bit {
        numbers.extend(files::numbers().filter(|number| !files::is_by_argument(*number)));
        part.extend(by_argument(libc::SYS_mmap as u32, &[libc::SYS_fcntl as u32]));
    } else if stopping.files && is_known_abi(abi.audit_arch) {
        let (own, by): (Vec<u32>, Vec<u32>) =
            short::numbers().partition(|number| short::by_argument(*number).is_none());
        numbers.extend(own);
        let is_map = |number: &u32| short::by_argument(*number) == Some(libc::SYS_mmap as u32);
        let (maps, copies): (Vec<u32>, Vec<u32>) = by.into_iter().partition(is_map);
        maps.first().iter().for_each(|map| part.extend(by_argument(**map, &copies)));
    } else if stopping.files {
        // Theirs are not told apart, but counted.
        let moves = |kind| matches!(kind, CallAction::Read | CallAction::Write);
        let calls = abi.calls.iter().filter(|(_, kind)| moves(*kind));
        numbers.extend(calls.map(|(number, _)| *number as u32));
    }
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

/// Calls that are looked at only with some arguments: most of them have others.
fn by_argument(mmap: u32, copies: &[u32]) -> Vec<sock_filter> {
    // Memory that is no file's.
    let mut program = vec![
        jump(IF_EQUAL, mmap, 0, 4),
        step(LOAD, argument(4)),
        jump(IF_EQUAL, u32::MAX, 0, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
        step(RETURN, libc::SECCOMP_RET_TRACE),
    ];
    // What does not copy a descriptor.
    for fcntl in copies {
        program.extend([
            jump(IF_EQUAL, *fcntl, 0, 5),
            step(LOAD, argument(1)),
            jump(IF_EQUAL, libc::F_DUPFD as u32, 2, 0),
            jump(IF_EQUAL, libc::F_DUPFD_CLOEXEC as u32, 1, 0),
            step(RETURN, libc::SECCOMP_RET_ALLOW),
            step(RETURN, libc::SECCOMP_RET_TRACE),
        ]);
    }
    program
}

fn is_wanted(kind: CallAction, detail: JobDetail) -> bool {
    match kind {
        CallAction::Open(_) => detail.files,
        CallAction::Trace | CallAction::Uring | CallAction::Aio => true,
        _ => detail.network,
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
    fn verdict(program: &[sock_filter], audit_arch: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let taken = match code {
                LOAD => {
                    held = match k {
                        NUMBER => number,
                        AUDIT_ARCH => audit_arch,
                        other => arguments[(other as usize - 16) / 8],
                    };
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
        let all = JobDetail { calls: true, network: true, files: true, ..JobDetail::default() };
        let program = filter(Stopping { wanted: Some(all), files: false }).program();
        for abi in ABIS {
            for number in 0..500 {
                let is_known = matches!(table::kind(abi.audit_arch, number.into()), Ok(Some(_)));
                let expected =
                    if is_known { libc::SECCOMP_RET_TRACE } else { libc::SECCOMP_RET_ALLOW };
                let found = verdict(&program, abi.audit_arch, number, [0; 6]);
                assert_eq!(found, expected, "{number}");
            }
        }
        let unknown = verdict(&program, 0x8000_0016, 4, [0; 6]);
        assert_eq!(unknown, libc::SECCOMP_RET_TRACE, "another machine's");
        let native = ABIS[0].audit_arch;
        let x32 = verdict(&program, native, X32 as u32 + 5, [0; 6]);
        assert_eq!(x32, libc::SECCOMP_RET_TRACE);
    }

    #[test]
    fn what_is_not_wanted_does_not_stop() {
        let files = JobDetail { calls: true, network: false, files: true, ..JobDetail::default() };
        let program = filter(Stopping { wanted: Some(files), files: false }).program();
        let of =
            |number: libc::c_long| verdict(&program, ABIS[0].audit_arch, number as u32, [0; 6]);
        assert_eq!(of(libc::SYS_openat), libc::SECCOMP_RET_TRACE);
        assert_eq!(of(libc::SYS_read), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn for_files_calls_stop_that_are_about_them() {
        let program = filter(Stopping { wanted: None, files: true }).program();
        let of = |number: libc::c_long, arguments| {
            let found = verdict(&program, ABIS[0].audit_arch, number as u32, arguments);
            found == libc::SECCOMP_RET_TRACE
        };
        let stops = [libc::SYS_read, libc::SYS_pwritev2, libc::SYS_close, libc::SYS_io_uring_setup];
        assert!(stops.iter().all(|number| of(*number, [0; 6])));
        let goes_on = [libc::SYS_futex, libc::SYS_brk, libc::SYS_io_uring_enter, libc::SYS_execve];
        assert!(goes_on.iter().all(|number| !of(*number, [0; 6])));
        assert!(of(libc::SYS_mmap, [0, 0, 0, 0, 3, 0]));
        assert!(!of(libc::SYS_mmap, [0, 0, 0, 0, u32::MAX, 0]));
        assert!(of(libc::SYS_fcntl, [3, libc::F_DUPFD as u32, 0, 0, 0, 0]));
        assert!(!of(libc::SYS_fcntl, [3, libc::F_SETFL as u32, 0, 0, 0, 0]));
        #[cfg(target_arch = "x86_64")]
        {
            let of = |number, arguments| {
                verdict(&program, 0x4000_0003, number, arguments) == libc::SECCOMP_RET_TRACE
            };
            // read, pwritev2, sendfile64, socketcall, mmap, recvmmsg_time64, _llseek
            assert!([3, 379, 239, 102, 90, 417, 140].iter().all(|number| of(*number, [0; 6])));
            // brk, futex, execve, mprotect
            assert!([45, 240, 11, 125].iter().all(|number| !of(*number, [0; 6])));
            assert!(of(192, [0, 0, 0, 0, 3, 0]) && !of(192, [0, 0, 0, 0, u32::MAX, 0]));
            for fcntl in [55, 221] {
                assert!(of(fcntl, [3, libc::F_DUPFD as u32, 0, 0, 0, 0]));
                assert!(!of(fcntl, [3, libc::F_SETFL as u32, 0, 0, 0, 0]));
            }
        }
    }
}
