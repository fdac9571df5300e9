//! What `/proc` tells of one thread, read quickly: the thread waits meanwhile.
//!
//! Reads `/proc/PID/task/TID/{io,stat}`, which hold the numbers of that thread alone (unlike
//! `/proc/PID/io`, to which the kernel adds the children that were waited for), and
//! `/proc/TID/{schedstat,status}`, which do too: the shorter a path, the less the kernel has to set
//! up for it. Of a process also `cmdline` and `statm`. What cannot be read is left as it was, and told.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use weigh_schema::{Counter, CounterValues};

use crate::procfs::{self, Stat, Status};

/// More arguments than this are cut off.
const LONGEST: usize = 16 * 1024;

/// Reads files under `/proc` into one buffer.
pub struct Files {
    proc: OwnedFd,
    buffer: Box<[u8]>,
}

impl Files {
    /// Opens `/proc`.
    pub fn open() -> rustix::io::Result<Files> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
        Ok(Files { proc, buffer: vec![0; LONGEST].into() })
    }

    /// What one read of a file gives; none if it cannot be read.
    fn read(&mut self, path: std::fmt::Arguments<'_>) -> Option<&[u8]> {
        let mut name = [0u8; 64];
        // The last byte stays 0, whatever is written.
        let end = name.len() - 1;
        (&mut name[..end]).write_fmt(path).ok()?;
        let name = std::ffi::CStr::from_bytes_until_nul(&name).ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.proc, name, flags, Mode::empty()).ok()?;
        let length = rustix::io::read(file, &mut self.buffer[..]).ok()?;
        self.buffer.get(..length)
    }

    /// Sets the counters of I/O; false if they are hidden.
    pub fn io(&mut self, pid: u32, tid: u32, to: &mut CounterValues) -> bool {
        self.io_from(format_args!("{pid}/task/{tid}/io"), to)
    }

    /// The same for the only thread of a process that has no children.
    pub fn io_of_all(&mut self, pid: u32, to: &mut CounterValues) -> bool {
        self.io_from(format_args!("{pid}/io"), to)
    }

    fn io_from(&mut self, path: std::fmt::Arguments<'_>, to: &mut CounterValues) -> bool {
        let text = self.read(path);
        let Some(io) = text.and_then(procfs::parse_io) else { return false };
        for (counter, value) in procfs::io_values(&io) {
            to.set(counter, value);
        }
        true
    }

    /// Sets CPU time and the time spent waiting for a CPU.
    pub fn cpu(&mut self, tid: u32, to: &mut CounterValues) -> bool {
        let text = self.read(format_args!("{tid}/schedstat"));
        let Some((runtime, delay)) = text.and_then(parse_schedstat) else { return false };
        to.set(Counter::Runtime, runtime);
        to.set(Counter::RunDelay, delay);
        true
    }

    /// Sets ticks and faults, and gives the rest.
    pub fn stat(&mut self, pid: u32, tid: u32, to: &mut CounterValues) -> Option<Stat> {
        let stat = procfs::parse_stat(self.read(format_args!("{pid}/task/{tid}/stat"))?)?;
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        to.set(Counter::UserTicks, stat.user_ticks * tick);
        to.set(Counter::SystemTicks, stat.system_ticks * tick);
        to.set(Counter::MinorFaults, stat.minor_faults);
        to.set(Counter::MajorFaults, stat.major_faults);
        Some(stat)
    }

    /// Sets context switches, and gives the rest.
    pub fn status(&mut self, tid: u32, to: &mut CounterValues) -> Option<Status> {
        let status = self.status_of(tid)?;
        to.set(Counter::VoluntarySwitches, status.voluntary_switches?);
        to.set(Counter::InvoluntarySwitches, status.involuntary_switches?);
        Some(status)
    }

    /// The status of a thread or process, whichever a number belongs to.
    pub fn status_of(&mut self, tid: u32) -> Option<Status> {
        Some(procfs::parse_status(self.read(format_args!("{tid}/status"))?))
    }

    /// Resident bytes, and those of them that are not of a file or shared memory.
    pub fn resident(&mut self, pid: u32) -> Option<(u64, u64)> {
        let text = std::str::from_utf8(self.read(format_args!("{pid}/statm"))?).ok()?;
        let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        let (all, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
        let page = rustix::param::page_size() as u64;
        Some((all * page, all.saturating_sub(shared) * page))
    }

    /// The arguments, and whether some are missing.
    pub fn command(&mut self, pid: u32) -> (Vec<String>, bool) {
        let text = self.read(format_args!("{pid}/cmdline")).unwrap_or_default();
        (procfs::parse_cmdline(text), text.len() == LONGEST)
    }

    /// Numbers of processes that a thread has created and that still are its children.
    pub fn children(&mut self, pid: u32, tid: u32) -> Vec<u32> {
        let text = self.read(format_args!("{pid}/task/{tid}/children")).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
    }

    /// Whether `tid` is a thread of the process `pid`.
    pub fn is_thread_of(&self, pid: u32, tid: u32) -> bool {
        let path = format!("{pid}/task/{tid}");
        rustix::fs::accessat(
            &self.proc,
            path,
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )
        .is_ok()
    }

    /// Everything that is counted of a living thread; false if its I/O is hidden, none if it is
    /// gone.
    pub fn all(&mut self, pid: u32, tid: u32, to: &mut CounterValues) -> Option<bool> {
        self.stat(pid, tid, to)?;
        self.status(tid, to)?;
        self.cpu(tid, to);
        Some(self.io(pid, tid, to))
    }
}

/// Nanoseconds on a CPU, and nanoseconds waiting for one.
fn parse_schedstat(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_files_hold_its_own_numbers_only() {
        let mut files = Files::open().unwrap();
        let pid = std::process::id();
        let read = |path: &str, bytes: usize| {
            use std::io::Read as _;
            let mut buffer = vec![0; bytes];
            std::fs::File::open(path).unwrap().read_exact(&mut buffer).unwrap();
        };
        // By another thread, and by a child that is waited for.
        std::thread::spawn(move || read("/dev/zero", 7_000_003)).join().unwrap();
        let mut child = std::process::Command::new("head");
        let child = child.args(["-c", "5000003", "/dev/zero"]).stdout(std::process::Stdio::null());
        assert!(child.status().unwrap().success());
        read("/dev/zero", 3_000_003);
        let mut own = CounterValues::default();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(files.all(pid, tid, &mut own), Some(true));
        let own = own.get(Counter::ReadChars);
        assert!((3_000_003..5_000_000).contains(&own), "{own}");
        let all = procfs::parse_io(&procfs::read_of(pid, "io").unwrap()).unwrap().read_chars;
        assert!(all >= own + 12_000_006, "the whole process: {all}");
    }

    #[test]
    fn schedstat_has_two_times_and_a_count() {
        assert_eq!(parse_schedstat(b"123 45 6\n"), Some((123, 45)));
        assert_eq!(parse_schedstat(b"123"), None);
    }
}
