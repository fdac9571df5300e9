//! Which processes use one address space: children of vfork(2) until their exec, of clone(2) with CLONE_VM for as long
//! as they live.
//!
//! Asks kcmp(2) with KCMP_VM. Refuses to guess: a process that the kernel lets nobody compare counts as one with an
//! address space of its own.

use std::cmp::Ordering;
use std::io;

use libc::{c_long, c_ulong};

/// The order of two address spaces, as the kernel has them.
fn compare(a: u32, b: u32) -> io::Result<Ordering> {
    const KCMP_VM: c_long = 1;
    let none: c_ulong = 0;
    // SAFETY: the call reads no memory of ours.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, a as c_long, b as c_long, KCMP_VM, none, none) };
    match order {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether two processes use the same memory; none if the kernel does not say.
pub(crate) fn share_memory(a: u32, b: u32) -> Option<bool> {
    compare(a, b).ok().map(Ordering::is_eq)
}

/// Why address spaces cannot be told apart here; none if they can.
pub(crate) fn why_not_compared() -> Option<String> {
    refusal().map(|why| format!("{why}: processes that share one count once each"))
}

/// That the kernel refuses to compare address spaces, and its error; none if it does not.
pub(crate) fn refusal() -> Option<String> {
    let own = std::process::id();
    let error = compare(own, own).err()?;
    Some(format!("this system lets no address spaces be compared (kcmp: {error})"))
}

/// For each thread the place in the list of the first one that uses its address space. Of a process it has to be a
/// thread [with memory](thread_with_memory): those that have none any more would be taken for one.
pub(crate) fn first_of_each(tids: &[u32]) -> Vec<usize> {
    // Places of one thread for each address space, in the kernel's order.
    let mut known: Vec<usize> = Vec::new();
    let mut first = Vec::with_capacity(tids.len());
    for place in 0..tids.len() {
        first.push(match search(tids, &mut known, place) {
            Some(Ok(same)) => known[same],
            Some(Err(before)) => {
                known.insert(before, place);
                place
            }
            None => place,
        });
    }
    first
}

/// As a binary search; none for a process that cannot be compared. Those among the known that have gone are taken out.
fn search(tids: &[u32], known: &mut Vec<usize>, place: usize) -> Option<Result<usize, usize>> {
    let (mut low, mut high) = (0, known.len());
    while low < high {
        let middle = (low + high) / 2;
        match compare(tids[known[middle]], tids[place]) {
            Ok(Ordering::Equal) => return Some(Ok(middle)),
            Ok(Ordering::Less) => low = middle + 1,
            Ok(Ordering::Greater) => high = middle,
            Err(_) if compare(tids[place], tids[place]).is_err() => return None,
            Err(_) => {
                known.remove(middle);
                high -= 1;
            }
        }
    }
    Some(Err(low))
}

/// The thread by whose number the memory of a process can be looked at: its first one, as long as that has not ended.
pub(crate) fn thread_with_memory(pid: u32) -> u32 {
    match has_memory(pid, pid) {
        true => pid,
        false => threads(pid).find(|tid| has_memory(pid, *tid)).unwrap_or(pid),
    }
}

/// `statm` of a thread that has no memory is all zeros.
fn has_memory(pid: u32, tid: u32) -> bool {
    let text = crate::procfs::read(format!("/proc/{pid}/task/{tid}/statm"));
    text.is_ok_and(|text| !text.starts_with(b"0 "))
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleeper() -> Ended {
        Ended(Command::new("sleep").arg("60").spawn().unwrap())
    }

    #[test]
    fn threads_share_what_processes_do_not() {
        if let Some(why) = why_not_compared() {
            eprintln!("{why}");
            return;
        }
        let own = std::process::id();
        // A thread stands for a process here that uses the memory of another.
        let (say, heard) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = heard.recv().unwrap();
        let others = [sleeper(), sleeper()];
        let pids = [others[0].0.id(), own, tid, others[1].0.id(), tid, own];
        assert_eq!(first_of_each(&pids), [0, 1, 1, 3, 1, 1]);
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn who_has_gone_is_alone() {
        let own = std::process::id();
        assert_eq!(first_of_each(&[u32::MAX - 1, own, u32::MAX - 1, own]), [0, 1, 2, 1]);
        assert_eq!(share_memory(own, u32::MAX - 1), None);
    }
}
