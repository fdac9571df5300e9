//! Numbers of an account. Derived from crates/schema by `weigh generate`.

use crate::Number;

/// What libweigh says if it lays an account out in the same way.
pub(crate) const LAYOUT: u64 = 0x28f4083dc1e3bc01;

/// A part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Subsystem {
    /// The remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying.
    Kernel = 0,
    /// Waiting that no other part asked for, and the scheduler's doings.
    Sched = 1,
    /// Interrupts and softirqs that ran on top of the thread: work of others, most of it.
    Irq = 2,
    /// Contended locks of the kernel: spinning is time, sleeping is waiting.
    Lock = 3,
    /// The allocators; time and waiting are those of direct reclaim.
    Memory = 4,
    /// Page faults; their time is in the parts they call, and in the remainder.
    Fault = 5,
    /// The page cache: what had to be put in and what was made dirty.
    Pagecache = 6,
    /// Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty.
    Writeback = 7,
    /// The file system (ext4): synchronising, mapping, truncating, allocating, writing pages.
    Fs = 8,
    /// The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit.
    Journal = 9,
    /// File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers.
    Fuse = 10,
    /// Block devices: waiting for them, and requests that were done while the call lasted.
    Block = 11,
    /// Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets).
    Socket = 12,
    /// TCP: what was handed to it, and what it had to send again at once.
    Tcp = 13,
    /// UDP, of what socket has (tracepoints of Linux 6.3; before, functions).
    Udp = 14,
    /// Devices and their queues; time is that of the driver's transmission, which loopback has none of.
    Net = 15,
    /// Queues before devices (traffic control); a packet that need not wait passes them by.
    Qdisc = 16,
    /// Work that is left to kernel threads.
    Workqueue = 17,
    /// Timers that were set.
    Timer = 18,
    /// Io_uring: requests that were handed in and completed.
    Uring = 19,
}

impl Subsystem {
    /// The set that holds it alone.
    pub fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// A counter of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Counter {
    /// Cycles of the CPU while the thread had it, on request: see counting_ns.
    Cycles = 28,
    /// Instructions that were done meanwhile, on request: see counting_ns.
    Instructions = 29,
}

/// All of them.
pub const COUNTERS: u64 = 0x30000000;

/// With parts, and counters: allocations, and these counters, of each part.
pub const BY_PART: u64 = 0x40000000;

/// All parts of the kernel; of some of them: `Subsystem::Block.bit() | Subsystem::Sched.bit()`.
pub const ALL: u64 = 0xfffffff;

impl Counter {
    /// The set that holds it alone.
    pub fn bit(self) -> u64 {
        1 << self as u32
    }
}

impl Account {
    /// As it was counted, all the time or a part of it.
    pub(crate) fn raw_counter(&self, counter: Counter) -> &Number {
        match counter {
            Counter::Cycles => &self.cycles,
            Counter::Instructions => &self.instructions,
        }
    }
}

/// Why something is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Reason {
    /// It is measured.
    Measured = 0,
    /// No agent of weigh answers.
    NoServer = 1,
    /// The agent of weigh, or the stream that was read, has ended, or has dropped this program.
    Gone = 2,
    /// The agent and libweigh are of different versions of weigh.
    OtherVersion = 3,
    /// The process belongs to another user.
    NotPermitted = 4,
    /// As many programs are measured, or have just come, as the agent allows a user, or all of them.
    TooMany = 5,
    /// No such process is measured.
    NoProcess = 6,
    /// The agent cannot see this thread: it is in another PID namespace.
    NoThread = 7,
    /// As many threads of this program are measured as can be.
    NoSlot = 8,
    /// All accounts are taken: weigh_release() gives them back.
    NoAccount = 9,
    /// The handle is of the process that this one was forked from.
    Forked = 10,
    /// The handle is closed.
    Closed = 11,
    /// An interval of this thread is open already.
    Busy = 12,
    /// No interval of this thread is open.
    NotOpen = 13,
    /// Nothing was accounted to this token.
    NoToken = 14,
    /// There is no memory for the accounts.
    NoMemory = 15,
    /// The agent does not understand the request.
    NotUnderstood = 16,
    /// The kernel refuses what the agent needs for it.
    Kernel = 17,
    /// The weigh that measures does not see this part: it was started without it, or the kernel does not tell of it.
    NotSeen = 18,
    /// The program has not asked for this part, or has said that it does not want it.
    NotWanted = 19,
    /// No agent of weigh answers, and the weigh that has started the program may not measure.
    NoRights = 20,
    /// It is not counted: the CPU, or the virtual machine, has no such counter, or the weigh calls that measures was started without --counters.
    NoCounter = 21,
    /// No `weigh trace` listens there.
    NoStream = 22,
    /// The event has no field of that name.
    NoField = 23,
    /// The stream refuses what was asked for: its answer says why.
    Refused = 24,
    /// The stream has no buffer of that name that can be read.
    NoBuffer = 25,
    /// This program reads as many others' accounts as libweigh has room for: weigh_peer_close() gives one back.
    TooManyPeers = 26,
    /// Nobody measured it when it was wanted.
    NotThen = 27,
    /// The configuration of the weigh that measures leaves this part out: weigh_why_text() names it.
    Removed = 28,
    /// The agent that measures now has another configuration than the one that this program found first: its parts are not those that the program knows.
    OtherParts = 29,
    /// This program has as many limits as libweigh has room for: weigh_unlimit() gives one back.
    TooManyLimits = 30,
    /// An account has no such number: expected WEIGH_NUMBER(name), and a value above 0.
    NoNumber = 31,
}

impl Reason {
    pub(crate) fn numbered(number: u32) -> Option<Reason> {
        Some(match number {
            0 => Reason::Measured,
            1 => Reason::NoServer,
            2 => Reason::Gone,
            3 => Reason::OtherVersion,
            4 => Reason::NotPermitted,
            5 => Reason::TooMany,
            6 => Reason::NoProcess,
            7 => Reason::NoThread,
            8 => Reason::NoSlot,
            9 => Reason::NoAccount,
            10 => Reason::Forked,
            11 => Reason::Closed,
            12 => Reason::Busy,
            13 => Reason::NotOpen,
            14 => Reason::NoToken,
            15 => Reason::NoMemory,
            16 => Reason::NotUnderstood,
            17 => Reason::Kernel,
            18 => Reason::NotSeen,
            19 => Reason::NotWanted,
            20 => Reason::NoRights,
            21 => Reason::NoCounter,
            22 => Reason::NoStream,
            23 => Reason::NoField,
            24 => Reason::Refused,
            25 => Reason::NoBuffer,
            26 => Reason::TooManyPeers,
            27 => Reason::NotThen,
            28 => Reason::Removed,
            29 => Reason::OtherParts,
            30 => Reason::TooManyLimits,
            31 => Reason::NoNumber,
            _ => return None,
        })
    }
}

/// Time and entries of one part.
#[derive(Debug)]
#[repr(C)]
pub struct Part {
    /// On a CPU in this part, less what other parts took that it called.
    pub time_ns: Number,
    /// Off the CPU for this part, less waiting for a CPU.
    pub waiting_ns: Number,
    /// Times it was entered.
    pub entries: Number,
}

/// What is known of a part on request: [`BY_PART`].
#[derive(Debug)]
#[repr(C)]
pub struct ByPart {
    /// Cycles of the CPU in this part, less those of parts that it called.
    pub cycles: Number,
    /// Instructions that were done there.
    pub instructions: Number,
    /// Objects that its code took from kmalloc and the slab caches.
    pub allocations: Number,
    /// Their sizes, as the caches round them.
    pub allocated_bytes: Number,
    /// Pages that its code took from the page allocator.
    pub pages: Number,
}

/// Numbers of each part.
#[derive(Debug)]
#[repr(C)]
pub struct Parts {
    /// By the number of [`Subsystem`].
    pub of: [ByPart; 28],
}

/// Waiting that no other part asked for, and the scheduler's doings.
#[derive(Debug)]
#[repr(C)]
pub struct Sched {
    /// Runnable, but another thread had the CPU.
    pub run_queue_ns: Number,
    /// Times the thread left the CPU to wait.
    pub switches: Number,
    /// Times the CPU was taken from it.
    pub preemptions: Number,
    /// Times it was moved to another CPU, as the kernel counts them for each thread.
    pub migrations: Number,
}

/// Interrupts and softirqs that ran on top of the thread: work of others, most of it.
#[derive(Debug)]
#[repr(C)]
pub struct Irq {
    /// In handlers of interrupts.
    pub hard_ns: Number,
    /// In softirqs.
    pub soft_ns: Number,
}

/// The allocators; time and waiting are those of direct reclaim.
#[derive(Debug)]
#[repr(C)]
pub struct Memory {
    /// Objects taken from kmalloc and the slab caches.
    pub allocations: Number,
    /// Their sizes, as the caches round them.
    pub allocated_bytes: Number,
    /// Pages taken from the page allocator.
    pub pages: Number,
}

/// Page faults; their time is in the parts they call, and in the remainder.
#[derive(Debug)]
#[repr(C)]
pub struct Fault {
    /// Faults of the program's own code.
    pub user: Number,
    /// Faults of kernel code on the program's memory.
    pub kernel: Number,
}

/// The page cache: what had to be put in and what was made dirty.
#[derive(Debug)]
#[repr(C)]
pub struct Pagecache {
    /// Pages put into it: misses, read-ahead, new pages.
    pub added_pages: Number,
    /// Pages that became dirty.
    pub dirtied_pages: Number,
}

/// Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty.
#[derive(Debug)]
#[repr(C)]
pub struct Writeback {
    /// Times it was held back because too much was dirty.
    pub pauses: Number,
    /// Inodes that the call wrote itself, as the kernel's own writers do.
    pub inodes: Number,
    /// Pages that the call itself sent on their way (ext4).
    pub pages: Number,
    /// Waits for one folio on its way; their time is of block.
    pub awaited: Number,
}

/// The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit.
#[derive(Debug)]
#[repr(C)]
pub struct Journal {
    /// Changes begun, each to be in the journal as a whole.
    pub handles: Number,
    /// Blocks of metadata that they changed.
    pub dirtied_blocks: Number,
    /// Times one was too large and went on in the next transaction.
    pub restarts: Number,
}

/// File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers.
#[derive(Debug)]
#[repr(C)]
pub struct Fuse {
    /// Requests sent to the server.
    pub requests: Number,
    /// From one to its answer, of those answered while the call lasted.
    pub server_ns: Number,
}

/// Block devices: waiting for them, and requests that were done while the call lasted.
#[derive(Debug)]
#[repr(C)]
pub struct Block {
    /// Parts of requests to a device that were the call's.
    pub requests: Number,
    /// Bytes of them.
    pub transferred_bytes: Number,
    /// Of these, pages that other calls which are followed, or earlier ones, made dirty; known with `pagecache`.
    pub carried_bytes: Number,
    /// Bytes written of pages that the call made dirty itself, and of direct writes; without `pagecache` of direct writes alone.
    pub written_bytes: Number,
    /// From the request to its issue to the device.
    pub queue_ns: Number,
    /// From its issue to its completion, shared by bytes.
    pub device_ns: Number,
    /// Of the requests, those with bytes of files that nobody who is followed made dirty; known with `pagecache`.
    pub foreign_requests: Number,
    /// These bytes: another program's, or written before anybody was followed. Metadata and journals of file systems are nobody's, and not in it, nor what the kernel's own threads sent to the device. Known with `pagecache`.
    pub foreign_bytes: Number,
    /// Of `queue`, the share of the bytes `carried`: whose they are have it in their accounts, too, so a sum over accounts is that of `queue` less that of this. Known with `pagecache`.
    pub carried_queue_ns: Number,
    /// Of `device`, the share of the bytes `carried`, which is in their accounts, too. Known with `pagecache`.
    pub carried_device_ns: Number,
    /// Requests that a part of the call's was first in, and that were seen as the device got them.
    pub issued: Number,
    /// Requests that the device had when it got one of these, this one included, added up over them: divided by `issued` it is the mean length of the device's queue. What it got before anybody looked is not in it.
    pub in_flight: Number,
    /// The most at once of these.
    pub in_flight_most: Number,
}

/// Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets).
#[derive(Debug)]
#[repr(C)]
pub struct Socket {
    /// Payload accepted by sockets.
    pub sent_bytes: Number,
    /// Payload taken from sockets.
    pub received_bytes: Number,
}

/// TCP: what was handed to it, and what it had to send again at once.
#[derive(Debug)]
#[repr(C)]
pub struct Tcp {
    /// Segments sent again while the call lasted.
    pub retransmits: Number,
    /// Of its payload, handed to the network by itself.
    pub transmitted_bytes: Number,
    /// Of these, sent again.
    pub retransmitted_bytes: Number,
    /// Smoothed round-trip time of the connection it sent by last, as TCP had it then.
    pub srtt_ns: Number,
    /// Its congestion window then, in segments.
    pub cwnd: Number,
    /// Its segments then that were sent and not acknowledged.
    pub unacked: Number,
    /// Times a connection was looked at so: as payload was handed to TCP (Linux 6.16), and as it left for the network while the call lasted.
    pub observations: Number,
}

/// UDP, of what socket has (tracepoints of Linux 6.3; before, functions).
#[derive(Debug)]
#[repr(C)]
pub struct Udp {
    /// Sends that were accepted; one may be cut into several later.
    pub datagrams: Number,
    /// Their payload.
    pub sent_bytes: Number,
    /// Datagrams that were taken from sockets.
    pub receipts: Number,
    /// Their payload.
    pub received_bytes: Number,
}

/// Devices and their queues; time is that of the driver's transmission, which loopback has none of.
#[derive(Debug)]
#[repr(C)]
pub struct Net {
    /// Packets handed to a device.
    pub packets: Number,
    /// Their lengths, headers included.
    pub transmitted_bytes: Number,
}

/// Queues before devices (traffic control); a packet that need not wait passes them by.
#[derive(Debug)]
#[repr(C)]
pub struct Qdisc {
    /// Packets that the call itself put into a queue.
    pub packets: Number,
    /// Packets that a queue threw away because the call's came, most often those.
    pub dropped: Number,
    /// In a queue, of those that the call itself took out again.
    pub queue_ns: Number,
    /// Packets in the queue when one of these was put into it, this one included, added up over them: divided by `packets` it is the mean length of the queue.
    pub in_queue: Number,
    /// The most at once of these.
    pub in_queue_most: Number,
}

/// Work that is left to kernel threads.
#[derive(Debug)]
#[repr(C)]
pub struct Workqueue {
    /// Work items handed over.
    pub queued: Number,
}

/// Timers that were set.
#[derive(Debug)]
#[repr(C)]
pub struct Timer {
    /// Timers and high-resolution timers started.
    pub started: Number,
}

/// Io_uring: requests that were handed in and completed.
#[derive(Debug)]
#[repr(C)]
pub struct Uring {
    /// Requests handed in.
    pub submitted: Number,
    /// Requests completed while the call lasted.
    pub completed: Number,
}

/// What came after the calls.
#[derive(Debug)]
#[repr(C)]
pub struct Later {
    /// Things it caused that have not come to an end.
    pub pending: Number,
    /// Parts of requests to a device that were its own, or carried its pages, which are known with `pagecache`: so with the bytes and times of these.
    pub block_requests: Number,
    /// Bytes of these, at completion.
    pub block_bytes: Number,
    /// Bytes written of its pages, and of direct writes; without `pagecache` of direct writes alone.
    pub block_written_bytes: Number,
    /// From the request to its issue, shared by bytes.
    pub block_queue_ns: Number,
    /// From issue to completion, shared by bytes.
    pub block_device_ns: Number,
    /// Bytes of these of files that nobody who is followed made dirty, as `foreign` of `block`; known with `pagecache`.
    pub block_foreign_bytes: Number,
    /// Payload that TCP handed to the network, repeats included.
    pub tcp_transmitted_bytes: Number,
    /// Payload that TCP sent again.
    pub tcp_retransmitted_bytes: Number,
    /// Datagrams for the socket it read last that found no room.
    pub udp_dropped: Number,
    /// Packets it put into a queue that others took out.
    pub qdisc_packets: Number,
    /// How long those were in it.
    pub qdisc_ns: Number,
    /// Packets that others made it throw away.
    pub qdisc_dropped: Number,
    /// Requests to a file system's server that were answered.
    pub fuse_requests: Number,
    /// From them to their answers.
    pub fuse_ns: Number,
    /// Requests of io_uring that completed in none of its calls.
    pub uring_requests: Number,
    /// In softirqs on its behalf, from where a packet is known to be of its connection to the next one, or the end.
    pub softirq_ns: Number,
    /// Work items it queued that have run.
    pub work_items: Number,
    /// Their time.
    pub work_ns: Number,
    /// Timers it started that have run.
    pub timers: Number,
    /// Their time.
    pub timer_ns: Number,
    /// Things it left behind that found no room to be remembered, at least so many: what they cost later is missing.
    pub lost: Number,
    /// Of `block_queue`, the share of bytes that are in other accounts, too, as `carried_queue` of `block`; known with `pagecache`.
    pub block_carried_queue_ns: Number,
    /// Of `block_device`, the share of bytes that are in other accounts, too, as `carried_device` of `block`; known with `pagecache`.
    pub block_carried_device_ns: Number,
    /// Of its own requests, those whose issue was seen, as `issued` of `block`.
    pub block_issued: Number,
    /// Requests that devices had when they got these, added up, as `in_flight` of `block`.
    pub block_in_flight: Number,
}

/// An account.
#[derive(Debug)]
#[repr(C)]
pub struct Account {
    /// The caller's own number for it.
    pub token: Number,
    /// Grows when the account is given to another token.
    pub generation: Number,
    /// Bit set of the subsystems that were seen.
    pub touched: Number,
    /// Bit set of those that were wanted while nobody measured them: they lack something.
    pub unmeasured: Number,
    /// Calls, or intervals, that are added up in it.
    pub calls: Number,
    /// From their beginnings to their ends.
    pub time_ns: Number,
    /// Cycles of the CPU while the thread had it, on request: see counting_ns.
    pub cycles: Number,
    /// Instructions that were done meanwhile, on request: see counting_ns.
    pub instructions: Number,
    /// Time on a CPU in which one of these was to be counted.
    pub counting_ns: Number,
    /// Of it, time in which the CPU did count: if it is less, for others use the counters too, a number times counting_ns / counted_ns is an estimate.
    pub counted_ns: Number,
    /// By the number of [`Subsystem`].
    pub parts: [Part; 28],
    /// Waiting that no other part asked for, and the scheduler's doings.
    pub sched: Sched,
    /// Interrupts and softirqs that ran on top of the thread: work of others, most of it.
    pub irq: Irq,
    /// The allocators; time and waiting are those of direct reclaim.
    pub memory: Memory,
    /// Page faults; their time is in the parts they call, and in the remainder.
    pub fault: Fault,
    /// The page cache: what had to be put in and what was made dirty.
    pub pagecache: Pagecache,
    /// Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty.
    pub writeback: Writeback,
    /// The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit.
    pub journal: Journal,
    /// File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers.
    pub fuse: Fuse,
    /// Block devices: waiting for them, and requests that were done while the call lasted.
    pub block: Block,
    /// Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets).
    pub socket: Socket,
    /// TCP: what was handed to it, and what it had to send again at once.
    pub tcp: Tcp,
    /// UDP, of what socket has (tracepoints of Linux 6.3; before, functions).
    pub udp: Udp,
    /// Devices and their queues; time is that of the driver's transmission, which loopback has none of.
    pub net: Net,
    /// Queues before devices (traffic control); a packet that need not wait passes them by.
    pub qdisc: Qdisc,
    /// Work that is left to kernel threads.
    pub workqueue: Workqueue,
    /// Timers that were set.
    pub timer: Timer,
    /// Io_uring: requests that were handed in and completed.
    pub uring: Uring,
    /// Of parts that a configuration defines.
    pub own: [Number; 8],
    /// What came after the calls.
    pub later: Later,
}
