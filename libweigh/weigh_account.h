/* Derived from crates/schema/src/subsystem/table.rs by `weigh generate`. */
#ifndef WEIGH_ACCOUNT_H
#define WEIGH_ACCOUNT_H

#ifndef WEIGH_U64
#include <stdint.h>
#define WEIGH_U64 uint64_t
#endif

/* Parts of the kernel; the bit of each in a set is 1 << its number. */
enum weigh_subsystem {
	/* the remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying */
	WEIGH_KERNEL = 0,
	/* waiting that no other part asked for, and the scheduler's doings */
	WEIGH_SCHED = 1,
	/* interrupts and softirqs that ran on top of the thread: work of others, most of it */
	WEIGH_IRQ = 2,
	/* contended locks of the kernel: spinning is time, sleeping is waiting */
	WEIGH_LOCK = 3,
	/* the allocators; time and waiting are those of direct reclaim */
	WEIGH_MEMORY = 4,
	/* page faults; their time is in the parts they call, and in the remainder */
	WEIGH_FAULT = 5,
	/* the page cache: what had to be put in and what was made dirty */
	WEIGH_PAGECACHE = 6,
	/* writing dirty pages back: files that the call writes itself, waiting for the threads that write for it, and being held back because too much is dirty */
	WEIGH_WRITEBACK = 7,
	/* the file system (ext4): synchronising, mapping, truncating, allocating, writing pages */
	WEIGH_FS = 8,
	/* the journal of ext4 (jbd2): changes that the call makes, and waiting for a commit */
	WEIGH_JOURNAL = 9,
	/* file systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers */
	WEIGH_FUSE = 10,
	/* block devices: waiting for them, and requests that were done while the call lasted */
	WEIGH_BLOCK = 11,
	/* payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets) */
	WEIGH_SOCKET = 12,
	/* TCP: what was handed to it, and what it had to send again at once */
	WEIGH_TCP = 13,
	/* UDP, of what socket has (tracepoints of Linux 6.3; before, functions) */
	WEIGH_UDP = 14,
	/* devices and their queues; time is that of the driver's transmission, which loopback has none of */
	WEIGH_NET = 15,
	/* queues before devices (traffic control); a packet that need not wait passes them by */
	WEIGH_QDISC = 16,
	/* work that is left to kernel threads */
	WEIGH_WORKQUEUE = 17,
	/* timers that were set */
	WEIGH_TIMER = 18,
	/* io_uring: requests that were handed in and completed */
	WEIGH_URING = 19,
	/* the first of those that a configuration defines */
	WEIGH_FIRST_OWN = 20,
	WEIGH_SUBSYSTEMS = 28
};

/* Counters of the CPU, in the same sets behind the parts; not in WEIGH_ALL. */
enum weigh_counter {
	WEIGH_CYCLES = 28,
	WEIGH_INSTRUCTIONS = 29,
};

#define WEIGH_FIRST_COUNTER 28
#define WEIGH_COUNTERS 0x30000000ULL

/* In the same sets: allocations, and the counters that are asked for, of each part. */
#define WEIGH_BY_PART 0x40000000ULL

#define WEIGH_OWN_NUMBERS 8

struct weigh_part {
	WEIGH_U64 time_ns; /* on a CPU in this part, less what other parts took that it called */
	WEIGH_U64 waiting_ns; /* off the CPU for this part, less waiting for a CPU */
	WEIGH_U64 entries; /* times it was entered */
};

/* On request: WEIGH_BY_PART. */
struct weigh_by_part {
	WEIGH_U64 cycles; /* cycles of the CPU in this part, less those of parts that it called */
	WEIGH_U64 instructions; /* instructions that were done there */
	WEIGH_U64 allocations; /* objects that its code took from kmalloc and the slab caches */
	WEIGH_U64 allocated_bytes; /* their sizes, as the caches round them */
	WEIGH_U64 pages; /* pages that its code took from the page allocator */
};

/* Beside an account that wants it. */
struct weigh_parts {
	struct weigh_by_part of[WEIGH_SUBSYSTEMS]; /* by number */
};

struct weigh_sched {
	WEIGH_U64 run_queue_ns; /* runnable, but another thread had the CPU */
	WEIGH_U64 switches; /* times the thread left the CPU to wait */
	WEIGH_U64 preemptions; /* times the CPU was taken from it */
	WEIGH_U64 migrations; /* times it was moved to another CPU, as the kernel counts them for each thread */
};

struct weigh_irq {
	WEIGH_U64 hard_ns; /* in handlers of interrupts */
	WEIGH_U64 soft_ns; /* in softirqs */
};

struct weigh_memory {
	WEIGH_U64 allocations; /* objects taken from kmalloc and the slab caches */
	WEIGH_U64 allocated_bytes; /* their sizes, as the caches round them */
	WEIGH_U64 pages; /* pages taken from the page allocator */
};

struct weigh_fault {
	WEIGH_U64 user; /* faults of the program's own code */
	WEIGH_U64 kernel; /* faults of kernel code on the program's memory */
};

struct weigh_pagecache {
	WEIGH_U64 added_pages; /* pages put into it: misses, read-ahead, new pages */
	WEIGH_U64 dirtied_pages; /* pages that became dirty */
};

struct weigh_writeback {
	WEIGH_U64 pauses; /* times it was held back because too much was dirty */
	WEIGH_U64 inodes; /* inodes that the call wrote itself, as the kernel's own writers do */
	WEIGH_U64 pages; /* pages that the call itself sent on their way (ext4) */
	WEIGH_U64 awaited; /* waits for one folio on its way; their time is of block */
};

struct weigh_journal {
	WEIGH_U64 handles; /* changes begun, each to be in the journal as a whole */
	WEIGH_U64 dirtied_blocks; /* blocks of metadata that they changed */
	WEIGH_U64 restarts; /* times one was too large and went on in the next transaction */
};

struct weigh_fuse {
	WEIGH_U64 requests; /* requests sent to the server */
	WEIGH_U64 server_ns; /* from one to its answer, of those answered while the call lasted */
};

struct weigh_block {
	WEIGH_U64 requests; /* parts of requests to a device that were the call's */
	WEIGH_U64 transferred_bytes; /* bytes of them */
	WEIGH_U64 carried_bytes; /* of these, pages that other calls which are followed, or earlier ones, made dirty; known with `pagecache` */
	WEIGH_U64 written_bytes; /* bytes written of pages that the call made dirty itself, and of direct writes; without `pagecache` of direct writes alone */
	WEIGH_U64 queue_ns; /* from the request to its issue to the device */
	WEIGH_U64 device_ns; /* from its issue to its completion, shared by bytes */
	WEIGH_U64 foreign_requests; /* of the requests, those with bytes of files that nobody who is followed made dirty; known with `pagecache` */
	WEIGH_U64 foreign_bytes; /* these bytes: another program's, or written before anybody was followed. Metadata and journals of file systems are nobody's, and not in it, nor what the kernel's own threads sent to the device. Known with `pagecache` */
	WEIGH_U64 carried_queue_ns; /* of `queue`, the share of the bytes `carried`: whose they are have it in their accounts, too, so a sum over accounts is that of `queue` less that of this. Known with `pagecache` */
	WEIGH_U64 carried_device_ns; /* of `device`, the share of the bytes `carried`, which is in their accounts, too. Known with `pagecache` */
	WEIGH_U64 issued; /* requests that a part of the call's was first in, and that were seen as the device got them */
	WEIGH_U64 in_flight; /* requests that the device had when it got one of these, this one included, added up over them: divided by `issued` it is the mean length of the device's queue. What it got before anybody looked is not in it */
	WEIGH_U64 in_flight_most; /* the most at once of these */
};

struct weigh_socket {
	WEIGH_U64 sent_bytes; /* payload accepted by sockets */
	WEIGH_U64 received_bytes; /* payload taken from sockets */
};

struct weigh_tcp {
	WEIGH_U64 retransmits; /* segments sent again while the call lasted */
	WEIGH_U64 transmitted_bytes; /* of its payload, handed to the network by itself */
	WEIGH_U64 retransmitted_bytes; /* of these, sent again */
	WEIGH_U64 srtt_ns; /* smoothed round-trip time of the connection it sent by last, as TCP had it then */
	WEIGH_U64 cwnd; /* its congestion window then, in segments */
	WEIGH_U64 unacked; /* its segments then that were sent and not acknowledged */
	WEIGH_U64 observations; /* times a connection was looked at so: as payload was handed to TCP (Linux 6.16), and as it left for the network while the call lasted */
};

struct weigh_udp {
	WEIGH_U64 datagrams; /* sends that were accepted; one may be cut into several later */
	WEIGH_U64 sent_bytes; /* their payload */
	WEIGH_U64 receipts; /* datagrams that were taken from sockets */
	WEIGH_U64 received_bytes; /* their payload */
};

struct weigh_net {
	WEIGH_U64 packets; /* packets handed to a device */
	WEIGH_U64 transmitted_bytes; /* their lengths, headers included */
};

struct weigh_qdisc {
	WEIGH_U64 packets; /* packets that the call itself put into a queue */
	WEIGH_U64 dropped; /* packets that a queue threw away because the call's came, most often those */
	WEIGH_U64 queue_ns; /* in a queue, of those that the call itself took out again */
	WEIGH_U64 in_queue; /* packets in the queue when one of these was put into it, this one included, added up over them: divided by `packets` it is the mean length of the queue */
	WEIGH_U64 in_queue_most; /* the most at once of these */
};

struct weigh_workqueue {
	WEIGH_U64 queued; /* work items handed over */
};

struct weigh_timer {
	WEIGH_U64 started; /* timers and high-resolution timers started */
};

struct weigh_uring {
	WEIGH_U64 submitted; /* requests handed in */
	WEIGH_U64 completed; /* requests completed while the call lasted */
};

/* What came after the calls: each number is known where the part behind it was asked for. */
struct weigh_later {
	WEIGH_U64 pending; /* things it caused that have not come to an end */
	WEIGH_U64 block_requests; /* parts of requests to a device that were its own, or carried its pages, which are known with `pagecache`: so with the bytes and times of these [block] */
	WEIGH_U64 block_bytes; /* bytes of these, at completion [block] */
	WEIGH_U64 block_written_bytes; /* bytes written of its pages, and of direct writes; without `pagecache` of direct writes alone [block] */
	WEIGH_U64 block_queue_ns; /* from the request to its issue, shared by bytes [block] */
	WEIGH_U64 block_device_ns; /* from issue to completion, shared by bytes [block] */
	WEIGH_U64 block_foreign_bytes; /* bytes of these of files that nobody who is followed made dirty, as `foreign` of `block`; known with `pagecache` [block] */
	WEIGH_U64 tcp_transmitted_bytes; /* payload that TCP handed to the network, repeats included [tcp] */
	WEIGH_U64 tcp_retransmitted_bytes; /* payload that TCP sent again [tcp] */
	WEIGH_U64 udp_dropped; /* datagrams for the socket it read last that found no room [udp] */
	WEIGH_U64 qdisc_packets; /* packets it put into a queue that others took out [qdisc] */
	WEIGH_U64 qdisc_ns; /* how long those were in it [qdisc] */
	WEIGH_U64 qdisc_dropped; /* packets that others made it throw away [qdisc] */
	WEIGH_U64 fuse_requests; /* requests to a file system's server that were answered [fuse] */
	WEIGH_U64 fuse_ns; /* from them to their answers [fuse] */
	WEIGH_U64 uring_requests; /* requests of io_uring that completed in none of its calls [uring] */
	WEIGH_U64 softirq_ns; /* in softirqs on its behalf, from where a packet is known to be of its connection to the next one, or the end [tcp] */
	WEIGH_U64 work_items; /* work items it queued that have run [workqueue] */
	WEIGH_U64 work_ns; /* their time [workqueue] */
	WEIGH_U64 timers; /* timers it started that have run [timer] */
	WEIGH_U64 timer_ns; /* their time [timer] */
	WEIGH_U64 lost; /* things it left behind that found no room to be remembered, at least so many: what they cost later is missing */
	WEIGH_U64 block_carried_queue_ns; /* of `block_queue`, the share of bytes that are in other accounts, too, as `carried_queue` of `block`; known with `pagecache` [block] */
	WEIGH_U64 block_carried_device_ns; /* of `block_device`, the share of bytes that are in other accounts, too, as `carried_device` of `block`; known with `pagecache` [block] */
	WEIGH_U64 block_issued; /* of its own requests, those whose issue was seen, as `issued` of `block` [block] */
	WEIGH_U64 block_in_flight; /* requests that devices had when they got these, added up, as `in_flight` of `block` [block] */
};

struct weigh_account {
	WEIGH_U64 token; /* the caller's own number for it */
	WEIGH_U64 generation; /* grows when the account is given to another token */
	WEIGH_U64 touched; /* bit set of the subsystems that were seen */
	WEIGH_U64 unmeasured; /* bit set of those that were wanted while nobody measured them: they lack something */
	WEIGH_U64 calls; /* calls, or intervals, that are added up in it */
	WEIGH_U64 time_ns; /* from their beginnings to their ends */
	WEIGH_U64 cycles; /* cycles of the CPU while the thread had it, on request: see counting_ns */
	WEIGH_U64 instructions; /* instructions that were done meanwhile, on request: see counting_ns */
	WEIGH_U64 counting_ns; /* time on a CPU in which one of these was to be counted */
	WEIGH_U64 counted_ns; /* of it, time in which the CPU did count: if it is less, for others use the counters too, a number times counting_ns / counted_ns is an estimate */
	struct weigh_part parts[WEIGH_SUBSYSTEMS]; /* by number */
	struct weigh_sched sched;
	struct weigh_irq irq;
	struct weigh_memory memory;
	struct weigh_fault fault;
	struct weigh_pagecache pagecache;
	struct weigh_writeback writeback;
	struct weigh_journal journal;
	struct weigh_fuse fuse;
	struct weigh_block block;
	struct weigh_socket socket;
	struct weigh_tcp tcp;
	struct weigh_udp udp;
	struct weigh_net net;
	struct weigh_qdisc qdisc;
	struct weigh_workqueue workqueue;
	struct weigh_timer timer;
	struct weigh_uring uring;
	WEIGH_U64 own[WEIGH_OWN_NUMBERS]; /* by the configuration */
	struct weigh_later later;
};

/* Numbers that are no sums, by their places in an account: of several the greatest holds, or the latest that was
 * seen, which a number behind it says: its place, else 0. */
#define WEIGH_IS_GREATEST(place) (0 || (place) == 128 || (place) == 148)
#define WEIGH_LATEST_SEEN(place) (0 ? 0 : (place) == 134 ? 137 : (place) == 135 ? 137 : (place) == 136 ? 137 : 0)

/* Tokens of a process that can be in use at once. */
#define WEIGH_ACCOUNTS 1024

/* Threads of a process that can be measured at once. */
#define WEIGH_THREADS 4096

/* Why something is not measured; weigh_text() has it as text. */
enum weigh_reason {
	/* it is measured */
	WEIGH_MEASURED = 0,
	/* no agent of weigh answers */
	WEIGH_NO_SERVER = 1,
	/* the agent of weigh, or the stream that was read, has ended, or has dropped this program */
	WEIGH_GONE = 2,
	/* the agent and libweigh are of different versions of weigh */
	WEIGH_OTHER_VERSION = 3,
	/* the process belongs to another user */
	WEIGH_NOT_PERMITTED = 4,
	/* as many programs are measured, or have just come, as the agent allows a user, or all of them */
	WEIGH_TOO_MANY = 5,
	/* no such process is measured */
	WEIGH_NO_PROCESS = 6,
	/* the agent cannot see this thread: it is in another PID namespace */
	WEIGH_NO_THREAD = 7,
	/* as many threads of this program are measured as can be */
	WEIGH_NO_SLOT = 8,
	/* all accounts are taken: weigh_release() gives them back */
	WEIGH_NO_ACCOUNT = 9,
	/* the handle is of the process that this one was forked from */
	WEIGH_FORKED = 10,
	/* the handle is closed */
	WEIGH_CLOSED = 11,
	/* an interval of this thread is open already */
	WEIGH_BUSY = 12,
	/* no interval of this thread is open */
	WEIGH_NOT_OPEN = 13,
	/* nothing was accounted to this token */
	WEIGH_NO_TOKEN = 14,
	/* there is no memory for the accounts */
	WEIGH_NO_MEMORY = 15,
	/* the agent does not understand the request */
	WEIGH_NOT_UNDERSTOOD = 16,
	/* the kernel refuses what the agent needs for it */
	WEIGH_KERNEL_REFUSES = 17,
	/* the weigh that measures does not see this part: it was started without it, or the kernel does not tell of it */
	WEIGH_NOT_SEEN = 18,
	/* the program has not asked for this part, or has said that it does not want it */
	WEIGH_NOT_WANTED = 19,
	/* no agent of weigh answers, and the weigh that has started the program may not measure */
	WEIGH_NO_RIGHTS = 20,
	/* it is not counted: the CPU, or the virtual machine, has no such counter, or the weigh calls that measures was started without --counters */
	WEIGH_NO_COUNTER = 21,
	/* no `weigh trace` listens there */
	WEIGH_NO_STREAM = 22,
	/* the event has no field of that name */
	WEIGH_NO_FIELD = 23,
	/* the stream refuses what was asked for: its answer says why */
	WEIGH_REFUSED = 24,
	/* the stream has no buffer of that name that can be read */
	WEIGH_NO_BUFFER = 25,
	/* this program reads as many others' accounts as libweigh has room for: weigh_peer_close() gives one back */
	WEIGH_TOO_MANY_PEERS = 26,
	/* nobody measured it when it was wanted */
	WEIGH_NOT_THEN = 27,
	/* the configuration of the weigh that measures leaves this part out: weigh_why_text() names it */
	WEIGH_REMOVED = 28,
	/* the agent that measures now has another configuration than the one that this program found first: its parts are not those that the program knows */
	WEIGH_OTHER_PARTS = 29,
	/* this program has as many limits as libweigh has room for: weigh_unlimit() gives one back */
	WEIGH_TOO_MANY_LIMITS = 30,
	/* an account has no such number: expected WEIGH_NUMBER(name), and a value above 0 */
	WEIGH_NO_NUMBER = 31,
};

#endif
