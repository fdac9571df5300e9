"""Numbers of an account. Derived from crates/schema by `weigh generate`."""

from __future__ import annotations

import enum
from typing import Optional, Protocol


class _Source(Protocol):
    def _count(self, index: int, parts: int) -> Optional[int]: ...

    def _seconds(self, index: int, parts: int) -> Optional[float]: ...

    def _later_count(self, index: int, parts: int) -> Optional[int]: ...

    def _later_seconds(self, index: int, parts: int) -> Optional[float]: ...


class _Numbers:
    __slots__ = ("_of",)

    def __init__(self, of: _Source) -> None:
        self._of = of

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_")]
        numbers = " ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<weigh.{type(self).__name__} {numbers}>"


class Kernel(_Numbers):
    """The remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(10, 0x1)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(11, 0x1)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(12, 0x1)


class Sched(_Numbers):
    """Waiting that no other part asked for, and the scheduler's doings."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(13, 0x2)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(14, 0x2)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(15, 0x2)

    @property
    def run_queue_seconds(self) -> Optional[float]:
        """Runnable, but another thread had the CPU."""
        return self._of._seconds(94, 0x2)

    @property
    def switches_total(self) -> Optional[int]:
        """Times the thread left the CPU to wait."""
        return self._of._count(95, 0x2)

    @property
    def preemptions_total(self) -> Optional[int]:
        """Times the CPU was taken from it."""
        return self._of._count(96, 0x2)

    @property
    def migrations_total(self) -> Optional[int]:
        """Times it was moved to another CPU, as the kernel counts them for each thread."""
        return self._of._count(97, 0x2)


class Irq(_Numbers):
    """Interrupts and softirqs that ran on top of the thread: work of others, most of it."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(16, 0x4)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(17, 0x4)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(18, 0x4)

    @property
    def hard_seconds(self) -> Optional[float]:
        """In handlers of interrupts."""
        return self._of._seconds(98, 0x4)

    @property
    def soft_seconds(self) -> Optional[float]:
        """In softirqs."""
        return self._of._seconds(99, 0x4)


class Lock(_Numbers):
    """Contended locks of the kernel: spinning is time, sleeping is waiting."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(19, 0x8)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(20, 0x8)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(21, 0x8)


class Memory(_Numbers):
    """The allocators; time and waiting are those of direct reclaim."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(22, 0x10)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(23, 0x10)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(24, 0x10)

    @property
    def allocations_total(self) -> Optional[int]:
        """Objects taken from kmalloc and the slab caches."""
        return self._of._count(100, 0x10)

    @property
    def allocated_bytes_total(self) -> Optional[int]:
        """Their sizes, as the caches round them."""
        return self._of._count(101, 0x10)

    @property
    def pages_total(self) -> Optional[int]:
        """Pages taken from the page allocator."""
        return self._of._count(102, 0x10)


class Fault(_Numbers):
    """Page faults; their time is in the parts they call, and in the remainder."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(25, 0x20)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(26, 0x20)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(27, 0x20)

    @property
    def user_total(self) -> Optional[int]:
        """Faults of the program's own code."""
        return self._of._count(103, 0x20)

    @property
    def kernel_total(self) -> Optional[int]:
        """Faults of kernel code on the program's memory."""
        return self._of._count(104, 0x20)


class Pagecache(_Numbers):
    """The page cache: what had to be put in and what was made dirty."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(28, 0x40)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(29, 0x40)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(30, 0x40)

    @property
    def added_pages_total(self) -> Optional[int]:
        """Pages put into it: misses, read-ahead, new pages."""
        return self._of._count(105, 0x40)

    @property
    def dirtied_pages_total(self) -> Optional[int]:
        """Pages that became dirty."""
        return self._of._count(106, 0x40)


class Writeback(_Numbers):
    """Writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(31, 0x80)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(32, 0x80)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(33, 0x80)

    @property
    def pauses_total(self) -> Optional[int]:
        """Times it was held back because too much was dirty."""
        return self._of._count(107, 0x80)

    @property
    def inodes_total(self) -> Optional[int]:
        """Inodes that the call wrote itself, as the kernel's own writers do."""
        return self._of._count(108, 0x80)

    @property
    def pages_total(self) -> Optional[int]:
        """Pages that the call itself sent on their way (ext4)."""
        return self._of._count(109, 0x80)

    @property
    def awaited_total(self) -> Optional[int]:
        """Waits for one folio on its way; their time is of block."""
        return self._of._count(110, 0x80)


class Fs(_Numbers):
    """The file system (ext4): synchronising, mapping, truncating, allocating, writing pages."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(34, 0x100)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(35, 0x100)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(36, 0x100)


class Journal(_Numbers):
    """The journal of ext4 (jbd2): changes that the call makes, and waiting for a commit."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(37, 0x200)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(38, 0x200)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(39, 0x200)

    @property
    def handles_total(self) -> Optional[int]:
        """Changes begun, each to be in the journal as a whole."""
        return self._of._count(111, 0x200)

    @property
    def dirtied_blocks_total(self) -> Optional[int]:
        """Blocks of metadata that they changed."""
        return self._of._count(112, 0x200)

    @property
    def restarts_total(self) -> Optional[int]:
        """Times one was too large and went on in the next transaction."""
        return self._of._count(113, 0x200)


class Fuse(_Numbers):
    """File systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(40, 0x400)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(41, 0x400)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(42, 0x400)

    @property
    def requests_total(self) -> Optional[int]:
        """Requests sent to the server."""
        return self._of._count(114, 0x400)

    @property
    def server_seconds(self) -> Optional[float]:
        """From one to its answer, of those answered while the call lasted."""
        return self._of._seconds(115, 0x400)


class Block(_Numbers):
    """Block devices: waiting for them, and requests that were done while the call lasted."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(43, 0x800)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(44, 0x800)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(45, 0x800)

    @property
    def requests_total(self) -> Optional[int]:
        """Parts of requests to a device that were the call's."""
        return self._of._count(116, 0x800)

    @property
    def transferred_bytes_total(self) -> Optional[int]:
        """Bytes of them."""
        return self._of._count(117, 0x800)

    @property
    def carried_bytes_total(self) -> Optional[int]:
        """Of these, pages that other calls which are followed, or earlier ones, made dirty; known with `pagecache`."""
        return self._of._count(118, 0x840)

    @property
    def written_bytes_total(self) -> Optional[int]:
        """Bytes written of pages that the call made dirty itself, and of direct writes; without `pagecache` of direct writes alone."""
        return self._of._count(119, 0x840)

    @property
    def queue_seconds(self) -> Optional[float]:
        """From the request to its issue to the device."""
        return self._of._seconds(120, 0x800)

    @property
    def device_seconds(self) -> Optional[float]:
        """From its issue to its completion, shared by bytes."""
        return self._of._seconds(121, 0x800)

    @property
    def foreign_requests_total(self) -> Optional[int]:
        """Of the requests, those with bytes of files that nobody who is followed made dirty; known with `pagecache`."""
        return self._of._count(122, 0x840)

    @property
    def foreign_bytes_total(self) -> Optional[int]:
        """These bytes: another program's, or written before anybody was followed. Metadata and journals of file systems are nobody's, and not in it, nor what the kernel's own threads sent to the device. Known with `pagecache`."""
        return self._of._count(123, 0x840)

    @property
    def carried_queue_seconds(self) -> Optional[float]:
        """Of `queue`, the share of the bytes `carried`: whose they are have it in their accounts, too, so a sum over accounts is that of `queue` less that of this. Known with `pagecache`."""
        return self._of._seconds(124, 0x840)

    @property
    def carried_device_seconds(self) -> Optional[float]:
        """Of `device`, the share of the bytes `carried`, which is in their accounts, too. Known with `pagecache`."""
        return self._of._seconds(125, 0x840)

    @property
    def issued_total(self) -> Optional[int]:
        """Requests that a part of the call's was first in, and that were seen as the device got them."""
        return self._of._count(126, 0x800)

    @property
    def in_flight_total(self) -> Optional[int]:
        """Requests that the device had when it got one of these, this one included, added up over them: divided by `issued` it is the mean length of the device's queue. What it got before anybody looked is not in it."""
        return self._of._count(127, 0x800)

    @property
    def in_flight_most(self) -> Optional[int]:
        """The most at once of these."""
        return self._of._count(128, 0x800)


class Socket(_Numbers):
    """Payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets)."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(46, 0x1000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(47, 0x1000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(48, 0x1000)

    @property
    def sent_bytes_total(self) -> Optional[int]:
        """Payload accepted by sockets."""
        return self._of._count(129, 0x1000)

    @property
    def received_bytes_total(self) -> Optional[int]:
        """Payload taken from sockets."""
        return self._of._count(130, 0x1000)


class Tcp(_Numbers):
    """TCP: what was handed to it, and what it had to send again at once."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(49, 0x2000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(50, 0x2000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(51, 0x2000)

    @property
    def retransmits_total(self) -> Optional[int]:
        """Segments sent again while the call lasted."""
        return self._of._count(131, 0x2000)

    @property
    def transmitted_bytes_total(self) -> Optional[int]:
        """Of its payload, handed to the network by itself."""
        return self._of._count(132, 0x2000)

    @property
    def retransmitted_bytes_total(self) -> Optional[int]:
        """Of these, sent again."""
        return self._of._count(133, 0x2000)

    @property
    def srtt_seconds(self) -> Optional[float]:
        """Smoothed round-trip time of the connection it sent by last, as TCP had it then."""
        if not self.observations_total:
            return None
        return self._of._seconds(134, 0x2000)

    @property
    def cwnd(self) -> Optional[int]:
        """Its congestion window then, in segments."""
        if not self.observations_total:
            return None
        return self._of._count(135, 0x2000)

    @property
    def unacked(self) -> Optional[int]:
        """Its segments then that were sent and not acknowledged."""
        if not self.observations_total:
            return None
        return self._of._count(136, 0x2000)

    @property
    def observations_total(self) -> Optional[int]:
        """Times a connection was looked at so: as payload was handed to TCP (Linux 6.16), and as it left for the network while the call lasted."""
        return self._of._count(137, 0x2000)


class Udp(_Numbers):
    """UDP, of what socket has (tracepoints of Linux 6.3; before, functions)."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(52, 0x4000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(53, 0x4000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(54, 0x4000)

    @property
    def datagrams_total(self) -> Optional[int]:
        """Sends that were accepted; one may be cut into several later."""
        return self._of._count(138, 0x4000)

    @property
    def sent_bytes_total(self) -> Optional[int]:
        """Their payload."""
        return self._of._count(139, 0x4000)

    @property
    def receipts_total(self) -> Optional[int]:
        """Datagrams that were taken from sockets."""
        return self._of._count(140, 0x4000)

    @property
    def received_bytes_total(self) -> Optional[int]:
        """Their payload."""
        return self._of._count(141, 0x4000)


class Net(_Numbers):
    """Devices and their queues; time is that of the driver's transmission, which loopback has none of."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(55, 0x8000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(56, 0x8000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(57, 0x8000)

    @property
    def packets_total(self) -> Optional[int]:
        """Packets handed to a device."""
        return self._of._count(142, 0x8000)

    @property
    def transmitted_bytes_total(self) -> Optional[int]:
        """Their lengths, headers included."""
        return self._of._count(143, 0x8000)


class Qdisc(_Numbers):
    """Queues before devices (traffic control); a packet that need not wait passes them by."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(58, 0x10000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(59, 0x10000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(60, 0x10000)

    @property
    def packets_total(self) -> Optional[int]:
        """Packets that the call itself put into a queue."""
        return self._of._count(144, 0x10000)

    @property
    def dropped_total(self) -> Optional[int]:
        """Packets that a queue threw away because the call's came, most often those."""
        return self._of._count(145, 0x10000)

    @property
    def queue_seconds(self) -> Optional[float]:
        """In a queue, of those that the call itself took out again."""
        return self._of._seconds(146, 0x10000)

    @property
    def in_queue_total(self) -> Optional[int]:
        """Packets in the queue when one of these was put into it, this one included, added up over them: divided by `packets` it is the mean length of the queue."""
        return self._of._count(147, 0x10000)

    @property
    def in_queue_most(self) -> Optional[int]:
        """The most at once of these."""
        return self._of._count(148, 0x10000)


class Workqueue(_Numbers):
    """Work that is left to kernel threads."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(61, 0x20000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(62, 0x20000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(63, 0x20000)

    @property
    def queued_total(self) -> Optional[int]:
        """Work items handed over."""
        return self._of._count(149, 0x20000)


class Timer(_Numbers):
    """Timers that were set."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(64, 0x40000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(65, 0x40000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(66, 0x40000)

    @property
    def started_total(self) -> Optional[int]:
        """Timers and high-resolution timers started."""
        return self._of._count(150, 0x40000)


class Uring(_Numbers):
    """Io_uring: requests that were handed in and completed."""

    __slots__ = ()

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        return self._of._seconds(67, 0x80000)

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        return self._of._seconds(68, 0x80000)

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._of._count(69, 0x80000)

    @property
    def submitted_total(self) -> Optional[int]:
        """Requests handed in."""
        return self._of._count(151, 0x80000)

    @property
    def completed_total(self) -> Optional[int]:
        """Requests completed while the call lasted."""
        return self._of._count(152, 0x80000)


class ByPart(_Numbers):
    """What is known of a part on request: by_part=True."""

    __slots__ = ()

    @property
    def cycles_total(self) -> Optional[int]:
        """Cycles of the CPU in this part, less those of parts that it called."""
        return self._of._count(0, 0x50000000)

    @property
    def instructions_total(self) -> Optional[int]:
        """Instructions that were done there."""
        return self._of._count(1, 0x60000000)

    @property
    def allocations_total(self) -> Optional[int]:
        """Objects that its code took from kmalloc and the slab caches."""
        return self._of._count(2, 0x40000010)

    @property
    def allocated_bytes_total(self) -> Optional[int]:
        """Their sizes, as the caches round them."""
        return self._of._count(3, 0x40000010)

    @property
    def pages_total(self) -> Optional[int]:
        """Pages that its code took from the page allocator."""
        return self._of._count(4, 0x40000010)


class Later(_Numbers):
    """What came after the calls."""

    __slots__ = ()

    def __repr__(self) -> str:
        numbers = super().__repr__()
        return f"{numbers[:-1]}; each is at least so much>" if self.lost_total else numbers

    @property
    def pending_total(self) -> Optional[int]:
        """Things it caused that have not come to an end."""
        return self._of._count(161, 0x0)

    @property
    def block_requests_total(self) -> Optional[int]:
        """Parts of requests to a device that were its own, or carried its pages, which are known with `pagecache`: so with the bytes and times of these."""
        return self._of._later_count(162, 0x840)

    @property
    def block_bytes_total(self) -> Optional[int]:
        """Bytes of these, at completion."""
        return self._of._later_count(163, 0x840)

    @property
    def block_written_bytes_total(self) -> Optional[int]:
        """Bytes written of its pages, and of direct writes; without `pagecache` of direct writes alone."""
        return self._of._later_count(164, 0x840)

    @property
    def block_queue_seconds(self) -> Optional[float]:
        """From the request to its issue, shared by bytes."""
        return self._of._later_seconds(165, 0x840)

    @property
    def block_device_seconds(self) -> Optional[float]:
        """From issue to completion, shared by bytes."""
        return self._of._later_seconds(166, 0x840)

    @property
    def block_foreign_bytes_total(self) -> Optional[int]:
        """Bytes of these of files that nobody who is followed made dirty, as `foreign` of `block`; known with `pagecache`."""
        return self._of._later_count(167, 0x840)

    @property
    def tcp_transmitted_bytes_total(self) -> Optional[int]:
        """Payload that TCP handed to the network, repeats included."""
        return self._of._later_count(168, 0x2000)

    @property
    def tcp_retransmitted_bytes_total(self) -> Optional[int]:
        """Payload that TCP sent again."""
        return self._of._later_count(169, 0x2000)

    @property
    def udp_dropped_total(self) -> Optional[int]:
        """Datagrams for the socket it read last that found no room."""
        return self._of._later_count(170, 0x4000)

    @property
    def qdisc_packets_total(self) -> Optional[int]:
        """Packets it put into a queue that others took out."""
        return self._of._later_count(171, 0x10000)

    @property
    def qdisc_seconds(self) -> Optional[float]:
        """How long those were in it."""
        return self._of._later_seconds(172, 0x10000)

    @property
    def qdisc_dropped_total(self) -> Optional[int]:
        """Packets that others made it throw away."""
        return self._of._later_count(173, 0x10000)

    @property
    def fuse_requests_total(self) -> Optional[int]:
        """Requests to a file system's server that were answered."""
        return self._of._later_count(174, 0x400)

    @property
    def fuse_seconds(self) -> Optional[float]:
        """From them to their answers."""
        return self._of._later_seconds(175, 0x400)

    @property
    def uring_requests_total(self) -> Optional[int]:
        """Requests of io_uring that completed in none of its calls."""
        return self._of._later_count(176, 0x80000)

    @property
    def softirq_seconds(self) -> Optional[float]:
        """In softirqs on its behalf, from where a packet is known to be of its connection to the next one, or the end."""
        return self._of._later_seconds(177, 0x2000)

    @property
    def work_items_total(self) -> Optional[int]:
        """Work items it queued that have run."""
        return self._of._later_count(178, 0x20000)

    @property
    def work_seconds(self) -> Optional[float]:
        """Their time."""
        return self._of._later_seconds(179, 0x20000)

    @property
    def timers_total(self) -> Optional[int]:
        """Timers it started that have run."""
        return self._of._later_count(180, 0x40000)

    @property
    def timer_seconds(self) -> Optional[float]:
        """Their time."""
        return self._of._later_seconds(181, 0x40000)

    @property
    def lost_total(self) -> Optional[int]:
        """Things it left behind that found no room to be remembered, at least so many: what they cost later is missing."""
        return self._of._count(182, 0x0)

    @property
    def block_carried_queue_seconds(self) -> Optional[float]:
        """Of `block_queue`, the share of bytes that are in other accounts, too, as `carried_queue` of `block`; known with `pagecache`."""
        return self._of._later_seconds(183, 0x840)

    @property
    def block_carried_device_seconds(self) -> Optional[float]:
        """Of `block_device`, the share of bytes that are in other accounts, too, as `carried_device` of `block`; known with `pagecache`."""
        return self._of._later_seconds(184, 0x840)

    @property
    def block_issued_total(self) -> Optional[int]:
        """Of its own requests, those whose issue was seen, as `issued` of `block`."""
        return self._of._later_count(185, 0x800)

    @property
    def block_in_flight_total(self) -> Optional[int]:
        """Requests that devices had when they got these, added up, as `in_flight` of `block`."""
        return self._of._later_count(186, 0x800)


LAYOUT = 0x28f4083dc1e3bc01
PARTS = 10
PART = 3
BY_PART = 5
BY_PART_WORDS = 140
ON_REQUEST_BY_PART = 0x40000000
OWN = 153
OWN_NUMBERS = 8
FIRST_OWN = 20
LAST_OWN = 27
WORDS = 189
WANTED = 187
TOUCHED = 2
UNMEASURED = 3
CALLS = 4
TIME = 5
COUNTING = 8
COUNTED = 9
LOST = 182
#: The parts that what comes later is of.
LATER_PARTS = 0xf6c00
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


class Reason(enum.IntEnum):
    """Why something is not measured, as libweigh numbers it."""

    MEASURED = 0
    NO_SERVER = 1
    GONE = 2
    OTHER_VERSION = 3
    NOT_PERMITTED = 4
    TOO_MANY = 5
    NO_PROCESS = 6
    NO_THREAD = 7
    NO_SLOT = 8
    NO_ACCOUNT = 9
    FORKED = 10
    CLOSED = 11
    BUSY = 12
    NOT_OPEN = 13
    NO_TOKEN = 14
    NO_MEMORY = 15
    NOT_UNDERSTOOD = 16
    KERNEL_REFUSES = 17
    NOT_SEEN = 18
    NOT_WANTED = 19
    NO_RIGHTS = 20
    NO_COUNTER = 21
    NO_STREAM = 22
    NO_FIELD = 23
    REFUSED = 24
    NO_BUFFER = 25
    TOO_MANY_PEERS = 26
    NOT_THEN = 27
    REMOVED = 28
    OTHER_PARTS = 29
    TOO_MANY_LIMITS = 30
    NO_NUMBER = 31


class Parts:
    """The parts of the kernel, of one account. What is not known of them is None."""

    __slots__ = ()

    def _count(self, index: int, parts: int) -> Optional[int]:
        raise NotImplementedError

    def _seconds(self, index: int, parts: int) -> Optional[float]:
        raise NotImplementedError

    def _later_count(self, index: int, parts: int) -> Optional[int]:
        raise NotImplementedError

    def _later_seconds(self, index: int, parts: int) -> Optional[float]:
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
