//! Programs that every packet of the machine passes are attached only while they have something to see: the
//! kernel side notices when that changes (`bpf/calls/standby.h`), and here they are attached, or let go.
//!
//! Those at devices' drivers are there from the beginning, and are let go when calls have sent many packets and
//! none to a driver: between programs of one machine there is none. The first one that goes to a driver
//! brings them back, for good. The one where packets come in is attached once packets were seen to come in
//! together. Emits where each CPU counts its packets; refuses nothing: where that is not found, packets count as
//! coming together.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::Link;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::kernel_calls::KernelCalls;
use super::packet_demand::Demand;
use crate::job::JobError;

impl KernelCalls {
    /// Is readable when there is something to [adapt](KernelCalls::adapt) to.
    pub fn attention_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.attention.as_fd()
    }

    /// Attaches, or lets go of, what packets pass, by what was seen of them. What was not seen meanwhile is noted in
    /// the accounts that lack it.
    pub fn adapt(&mut self) -> Result<(), JobError> {
        match self.look_at_packets() {
            true => self.attach_again(),
            false => Ok(()),
        }
    }

    /// Looks at what was seen of packets. Whether what is attached for them is to change: the next time that anything
    /// is attached it does.
    pub fn look_at_packets(&mut self) -> bool {
        // It fails where a callback does, and this does not.
        let _ = self.standby.attention.consume();
        let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() else { return false };
        let counted = &mut variables.standby;
        let seen = Demand {
            drivers: counted.many_without == 0 || counted.has_driven != 0,
            arrivals: counted.together > 0,
        };
        if seen == self.standby.seen {
            return false;
        }
        self.standby.seen = seen;
        if !seen.drivers {
            counted.drivers_away = 1;
        }
        true
    }

    /// Tells the kernel side what of it is attached.
    pub(super) fn tell_of_packets(&mut self, seen: Demand) {
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.standby.drivers_away = u32::from(!seen.drivers);
            variables.standby.arrivals_seen = u32::from(seen.arrivals);
        }
    }

    /// Packets of calls that were handed to a device while nobody looked at its driver: the time of it is not the
    /// driver's but the remainder's.
    pub fn not_driven(&self) -> u64 {
        let variables = self.skeleton.maps.bss_data.as_deref();
        variables.map_or(0, |variables| variables.standby.not_driven)
    }

    /// Finds where each CPU that this thread may use counts packets. A caller that attaches others at once is better off with the
    /// link until then: after the last program of any tracepoint has gone, the kernel waits for a grace period before
    /// it attaches a first one.
    pub(super) fn find_packet_counts(&self) -> Option<Link> {
        let program = &self.skeleton.progs.serve__backlog;
        let link = program.autoload().then(|| program.attach().ok()).flatten()?;
        // By a thread of its own, which moves from CPU to CPU.
        let started = std::thread::Builder::new().spawn(send_on_each_cpu);
        let _ = started.map(std::thread::JoinHandle::join);
        Some(link)
    }
}

/// Sends two packets on each CPU.
fn send_on_each_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = socket.local_addr()?;
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
        let mut this = CpuSet::new();
        this.set(cpu);
        // One that was taken away meanwhile is as one that is not allowed.
        if sched_setaffinity(None, &this).is_ok() {
            socket.send_to(&[], own)?;
            socket.send_to(&[], own)?;
        }
    }
    Ok(())
}
