"""Numbers of an account. Derived from crates/schema by `weigh generate`."""

from __future__ import annotations

from typing import Protocol


class _Source(Protocol):
    def _number(self, index: int) -> int: ...


class _Numbers:
    __slots__ = ("_of",)

    def __init__(self, of: _Source) -> None:
        self._of = of


class Kernel(_Numbers):
    """The remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(10) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(11) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(12)


class Sched(_Numbers):
    """Waiting that no other part asked for, and the scheduler's doings."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(13) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(14) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(15)

    @property
    def run_queue_seconds(self) -> float:
        """Runnable, but another thread had the CPU."""
        return self._of._number(94) / 1e9

    @property
    def switches_total(self) -> int:
        """Times the thread left the CPU to wait."""
        return self._of._number(95)

    @property
    def preemptions_total(self) -> int:
        """Times the CPU was taken from it."""
        return self._of._number(96)


class Irq(_Numbers):
    """Interrupts and softirqs that ran on top of the thread: work of others, most of it."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(16) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(17) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(18)

    @property
    def hard_seconds(self) -> float:
        """In handlers of interrupts."""
        return self._of._number(97) / 1e9

    @property
    def soft_seconds(self) -> float:
        """In softirqs."""
        return self._of._number(98) / 1e9


class Lock(_Numbers):
    """Contended locks of the kernel: spinning is time, sleeping is waiting."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(19) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(20) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(21)


class Memory(_Numbers):
    """The allocators; time and waiting are those of direct reclaim."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(22) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(23) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(24)

    @property
    def allocations_total(self) -> int:
        """Objects taken from kmalloc and the slab caches."""
        return self._of._number(99)

    @property
    def allocated_bytes_total(self) -> int:
        """Their sizes, as the caches round them."""
        return self._of._number(100)

    @property
    def pages_total(self) -> int:
        """Pages taken from the page allocator."""
        return self._of._number(101)


class Fault(_Numbers):
    """Page faults; their time is in the parts they call, and in the remainder."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(25) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(26) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(27)

    @property
    def user_total(self) -> int:
        """Faults of the program's own code."""
        return self._of._number(102)

    @property
    def kernel_total(self) -> int:
        """Faults of kernel code on the program's memory."""
        return self._of._number(103)


class Pagecache(_Numbers):
    """The page cache: what had to be put in and what was made dirty."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(28) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(29) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(30)

    @property
    def added_pages_total(self) -> int:
        """Pages put into it: misses, read-ahead, new pages."""
        return self._of._number(104)

    @property
    def dirtied_pages_total(self) -> int:
        """Pages that became dirty."""
        return self._of._number(105)


class Writeback(_Numbers):
    """Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(31) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(32) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(33)

    @property
    def pauses_total(self) -> int:
        """Times it was held back because too much was dirty."""
        return self._of._number(106)

    @property
    def inodes_total(self) -> int:
        """Inodes that the call wrote itself, as the kernel's own writers do."""
        return self._of._number(107)

    @property
    def pages_total(self) -> int:
        """Pages that the call itself sent on their way (ext4)."""
        return self._of._number(108)

    @property
    def awaited_total(self) -> int:
        """Waits for one folio on its way; their time is of block."""
        return self._of._number(109)


class Fs(_Numbers):
    """The file system (ext4): synchronising, mapping, truncating, allocating, writing pages."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(34) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(35) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(36)


class Journal(_Numbers):
    """The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(37) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(38) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(39)

    @property
    def handles_total(self) -> int:
        """Changes begun, each to be in the journal as a whole."""
        return self._of._number(110)

    @property
    def dirtied_blocks_total(self) -> int:
        """Blocks of metadata that they changed."""
        return self._of._number(111)

    @property
    def restarts_total(self) -> int:
        """Times one was too large and went on in the next transaction."""
        return self._of._number(112)


class Fuse(_Numbers):
    """File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(40) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(41) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(42)

    @property
    def requests_total(self) -> int:
        """Requests sent to the server."""
        return self._of._number(113)

    @property
    def server_seconds(self) -> float:
        """From one to its answer, of those answered while the call lasted."""
        return self._of._number(114) / 1e9


class Block(_Numbers):
    """Block devices: waiting for them, and requests that were done while the call lasted."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(43) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(44) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(45)

    @property
    def requests_total(self) -> int:
        """Parts of requests to a device that were the call's."""
        return self._of._number(115)

    @property
    def transferred_bytes_total(self) -> int:
        """Bytes of them."""
        return self._of._number(116)

    @property
    def carried_bytes_total(self) -> int:
        """Of these, pages that other calls which are followed, or earlier ones, made dirty; known with `pagecache`."""
        return self._of._number(117)

    @property
    def written_bytes_total(self) -> int:
        """Bytes written of pages that the call made dirty itself, and of direct writes."""
        return self._of._number(118)

    @property
    def queue_seconds(self) -> float:
        """From the request to its issue to the device."""
        return self._of._number(119) / 1e9

    @property
    def device_seconds(self) -> float:
        """From its issue to its completion, shared by bytes."""
        return self._of._number(120) / 1e9

    @property
    def foreign_requests_total(self) -> int:
        """Of the requests, those with bytes of files that nobody who is followed made dirty; known with `pagecache`."""
        return self._of._number(121)

    @property
    def foreign_bytes_total(self) -> int:
        """These bytes: another program's, or written before anybody was followed. Metadata and journals of file systems are nobody's, and not in it, nor what the kernel's own threads sent to the device."""
        return self._of._number(122)


class Socket(_Numbers):
    """Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets)."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(46) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(47) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(48)

    @property
    def sent_bytes_total(self) -> int:
        """Payload accepted by sockets."""
        return self._of._number(123)

    @property
    def received_bytes_total(self) -> int:
        """Payload taken from sockets."""
        return self._of._number(124)


class Tcp(_Numbers):
    """TCP: what was handed to it, and what it had to send again at once."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(49) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(50) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(51)

    @property
    def retransmits_total(self) -> int:
        """Segments sent again while the call lasted."""
        return self._of._number(125)

    @property
    def transmitted_bytes_total(self) -> int:
        """Of its payload, handed to the network by itself."""
        return self._of._number(126)

    @property
    def retransmitted_bytes_total(self) -> int:
        """Of these, sent again."""
        return self._of._number(127)


class Udp(_Numbers):
    """UDP, of what socket has (tracepoints of Linux 6.3; before, functions)."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(52) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(53) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(54)

    @property
    def datagrams_total(self) -> int:
        """Sends that were accepted; one may be cut into several later."""
        return self._of._number(128)

    @property
    def sent_bytes_total(self) -> int:
        """Their payload."""
        return self._of._number(129)

    @property
    def receipts_total(self) -> int:
        """Datagrams that were taken from sockets."""
        return self._of._number(130)

    @property
    def received_bytes_total(self) -> int:
        """Their payload."""
        return self._of._number(131)


class Net(_Numbers):
    """Devices and their queues; time is that of the driver's transmission, which loopback has none of."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(55) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(56) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(57)

    @property
    def packets_total(self) -> int:
        """Packets handed to a device."""
        return self._of._number(132)

    @property
    def transmitted_bytes_total(self) -> int:
        """Their lengths, headers included."""
        return self._of._number(133)


class Qdisc(_Numbers):
    """Queues before devices (traffic control); a packet that need not wait passes them by."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(58) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(59) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(60)

    @property
    def packets_total(self) -> int:
        """Packets that the call itself put into a queue."""
        return self._of._number(134)

    @property
    def dropped_total(self) -> int:
        """Packets that a queue threw away because the call's came, most often those."""
        return self._of._number(135)

    @property
    def queue_seconds(self) -> float:
        """In a queue, of those that the call itself took out again."""
        return self._of._number(136) / 1e9


class Workqueue(_Numbers):
    """Work that is left to kernel threads."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(61) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(62) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(63)

    @property
    def queued_total(self) -> int:
        """Work items handed over."""
        return self._of._number(137)


class Timer(_Numbers):
    """Timers that were set."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(64) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(65) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(66)

    @property
    def started_total(self) -> int:
        """Timers and high-resolution timers started."""
        return self._of._number(138)


class Uring(_Numbers):
    """Io_uring: requests that were handed in and completed."""

    __slots__ = ()

    @property
    def time_seconds(self) -> float:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._number(67) / 1e9

    @property
    def waiting_seconds(self) -> float:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._number(68) / 1e9

    @property
    def entries_total(self) -> int:
        """Times it was entered."""
        return self._of._number(69)

    @property
    def submitted_total(self) -> int:
        """Requests handed in."""
        return self._of._number(139)

    @property
    def completed_total(self) -> int:
        """Requests completed while the call lasted."""
        return self._of._number(140)


class Later(_Numbers):
    """What came after the calls."""

    __slots__ = ()

    @property
    def pending_total(self) -> int:
        """Things it caused that have not come to an end."""
        return self._of._number(149)

    @property
    def block_requests_total(self) -> int:
        """Parts of requests to a device that were its own, or carried its pages."""
        return self._of._number(150)

    @property
    def block_bytes_total(self) -> int:
        """Bytes of these, at completion."""
        return self._of._number(151)

    @property
    def block_written_bytes_total(self) -> int:
        """Bytes written of its pages, and of direct writes."""
        return self._of._number(152)

    @property
    def block_queue_seconds(self) -> float:
        """From the request to its issue, shared by bytes."""
        return self._of._number(153) / 1e9

    @property
    def block_device_seconds(self) -> float:
        """From issue to completion, shared by bytes."""
        return self._of._number(154) / 1e9

    @property
    def block_foreign_bytes_total(self) -> int:
        """Bytes of these of files that nobody who is followed made dirty, as `foreign` of `block`; known with `pagecache`."""
        return self._of._number(155)

    @property
    def tcp_transmitted_bytes_total(self) -> int:
        """Payload that TCP handed to the network, repeats included."""
        return self._of._number(156)

    @property
    def tcp_retransmitted_bytes_total(self) -> int:
        """Payload that TCP sent again."""
        return self._of._number(157)

    @property
    def udp_dropped_total(self) -> int:
        """Datagrams for the socket it read last that found no room."""
        return self._of._number(158)

    @property
    def qdisc_packets_total(self) -> int:
        """Packets it put into a queue that others took out."""
        return self._of._number(159)

    @property
    def qdisc_seconds(self) -> float:
        """How long those were in it."""
        return self._of._number(160) / 1e9

    @property
    def qdisc_dropped_total(self) -> int:
        """Packets that others made it throw away."""
        return self._of._number(161)

    @property
    def fuse_requests_total(self) -> int:
        """Requests to a file system's server that were answered."""
        return self._of._number(162)

    @property
    def fuse_seconds(self) -> float:
        """From them to their answers."""
        return self._of._number(163) / 1e9

    @property
    def uring_requests_total(self) -> int:
        """Requests of io_uring that completed in none of its calls."""
        return self._of._number(164)

    @property
    def softirq_seconds(self) -> float:
        """In softirqs on its behalf."""
        return self._of._number(165) / 1e9

    @property
    def work_items_total(self) -> int:
        """Work items it queued that have run."""
        return self._of._number(166)

    @property
    def work_seconds(self) -> float:
        """Their time."""
        return self._of._number(167) / 1e9

    @property
    def timers_total(self) -> int:
        """Timers it started that have run."""
        return self._of._number(168)

    @property
    def timer_seconds(self) -> float:
        """Their time."""
        return self._of._number(169) / 1e9

    @property
    def lost_total(self) -> int:
        """Things it left behind that found no room to be remembered, at least so many: what they cost later is missing."""
        return self._of._number(170)


LAYOUT = 0x8a030e9209a6dcfe
WORDS = 171
TOUCHED = 2
UNMEASURED = 3
CALLS = 4
TIME = 5
COUNTING = 8
COUNTED = 9
#: Counters of the CPU: the place of each in an account, and of its bit in a set.
COUNTERS = {
    "cycles": (6, 28),
    "instructions": (7, 29),
}
#: The parts of the kernel; the bit of each is 1 << its place.
SUBSYSTEMS = (
    "kernel",
    "sched",
    "irq",
    "lock",
    "memory",
    "fault",
    "pagecache",
    "writeback",
    "fs",
    "journal",
    "fuse",
    "block",
    "socket",
    "tcp",
    "udp",
    "net",
    "qdisc",
    "workqueue",
    "timer",
    "uring",
)


class Parts:
    """The parts of the kernel, of one account."""

    __slots__ = ()

    def _number(self, index: int) -> int:
        raise NotImplementedError

    @property
    def kernel(self) -> Kernel:
        """The remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying."""
        return Kernel(self)

    @property
    def sched(self) -> Sched:
        """Waiting that no other part asked for, and the scheduler's doings."""
        return Sched(self)

    @property
    def irq(self) -> Irq:
        """Interrupts and softirqs that ran on top of the thread: work of others, most of it."""
        return Irq(self)

    @property
    def lock(self) -> Lock:
        """Contended locks of the kernel: spinning is time, sleeping is waiting."""
        return Lock(self)

    @property
    def memory(self) -> Memory:
        """The allocators; time and waiting are those of direct reclaim."""
        return Memory(self)

    @property
    def fault(self) -> Fault:
        """Page faults; their time is in the parts they call, and in the remainder."""
        return Fault(self)

    @property
    def pagecache(self) -> Pagecache:
        """The page cache: what had to be put in and what was made dirty."""
        return Pagecache(self)

    @property
    def writeback(self) -> Writeback:
        """Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty."""
        return Writeback(self)

    @property
    def fs(self) -> Fs:
        """The file system (ext4): synchronising, mapping, truncating, allocating, writing pages."""
        return Fs(self)

    @property
    def journal(self) -> Journal:
        """The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit."""
        return Journal(self)

    @property
    def fuse(self) -> Fuse:
        """File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers."""
        return Fuse(self)

    @property
    def block(self) -> Block:
        """Block devices: waiting for them, and requests that were done while the call lasted."""
        return Block(self)

    @property
    def socket(self) -> Socket:
        """Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets)."""
        return Socket(self)

    @property
    def tcp(self) -> Tcp:
        """TCP: what was handed to it, and what it had to send again at once."""
        return Tcp(self)

    @property
    def udp(self) -> Udp:
        """UDP, of what socket has (tracepoints of Linux 6.3; before, functions)."""
        return Udp(self)

    @property
    def net(self) -> Net:
        """Devices and their queues; time is that of the driver's transmission, which loopback has none of."""
        return Net(self)

    @property
    def qdisc(self) -> Qdisc:
        """Queues before devices (traffic control); a packet that need not wait passes them by."""
        return Qdisc(self)

    @property
    def workqueue(self) -> Workqueue:
        """Work that is left to kernel threads."""
        return Workqueue(self)

    @property
    def timer(self) -> Timer:
        """Timers that were set."""
        return Timer(self)

    @property
    def uring(self) -> Uring:
        """Io_uring: requests that were handed in and completed."""
        return Uring(self)

    @property
    def later(self) -> Later:
        """What came after the calls."""
        return Later(self)
