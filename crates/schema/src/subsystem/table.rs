//! The parts of the kernel and their numbers, declared: the one place where a number is added.

use super::field::Field;
use super::part::Subsystem;
use crate::custom_subsystem::OWN_PARTS;
use crate::unit::Unit;

/// What is kept of every subsystem: time is split so that each moment belongs to one of them.
pub const PART: &[Field] = &[
    Field::new(
        "time",
        Unit::Seconds,
        "on a CPU in this part, less what other parts took that it called",
    ),
    Field::new("waiting", Unit::Seconds, "off the CPU for this part, less waiting for a CPU"),
    Field::new("entries", Unit::Count, "times it was entered"),
];

/// What is kept of every subsystem on request ([`super::ON_REQUEST_BY_PART`]): what happened while it was the innermost part.
pub const BY_PART: &[Field] = &[
    Field::new(
        "cycles",
        Unit::Count,
        "cycles of the CPU in this part, less those of parts that it called",
    ),
    Field::new("instructions", Unit::Count, "instructions that were done there"),
    Field::new(
        "allocations",
        Unit::Count,
        "objects that its code took from kmalloc and the slab caches",
    ),
    Field::new("allocated", Unit::Bytes, "their sizes, as the caches round them"),
    Field::new("pages", Unit::Count, "pages that its code took from the page allocator"),
];

/// How often connections were looked at: in one word, for the states that are known by it.
const OBSERVATIONS: &str = "observations";

const COUNT: Unit = Unit::Count;
const BYTES: Unit = Unit::Bytes;
const SECONDS: Unit = Unit::Seconds;

/// All of them. The first is what is left when the others are taken away.
pub const SUBSYSTEMS: &[Subsystem] = &[
    Subsystem {
        name: "kernel",
        help: "the remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying",
        busy: "in kernel code without a probe",
        waits: "waiting in kernel code without a probe",
        fields: &[],
    },
    Subsystem {
        name: "sched",
        help: "waiting that no other part asked for, and the scheduler's doings",
        busy: "in the scheduler",
        waits: "waiting for what no probe tells",
        fields: &[
            Field::new("run_queue", SECONDS, "runnable, but another thread had the CPU"),
            Field::new("switches", COUNT, "times the thread left the CPU to wait"),
            Field::new("preemptions", COUNT, "times the CPU was taken from it"),
            Field::new(
                "migrations",
                COUNT,
                "times it was moved to another CPU, as the kernel counts them for each thread",
            )
            .counted("move to another CPU", "moves to another CPU"),
        ],
    },
    Subsystem {
        name: "irq",
        help: "interrupts and softirqs that ran on top of the thread: work of others, most of it",
        busy: "taken by interrupts and softirqs",
        waits: "waiting in interrupts",
        fields: &[
            Field::new("hard", SECONDS, "in handlers of interrupts").in_words("handlers of interrupts"),
            Field::new("soft", SECONDS, "in softirqs").in_words("softirqs"),
        ],
    },
    Subsystem {
        name: "lock",
        help: "contended locks of the kernel: spinning is time, sleeping is waiting",
        busy: "spinning on locks",
        waits: "waiting for locks",
        fields: &[],
    },
    Subsystem {
        name: "memory",
        help: "the allocators; time and waiting are those of direct reclaim",
        busy: "reclaiming memory",
        waits: "waiting for memory to be reclaimed",
        fields: &[
            Field::new("allocations", COUNT, "objects taken from kmalloc and the slab caches"),
            Field::new("allocated", BYTES, "their sizes, as the caches round them"),
            Field::new("pages", COUNT, "pages taken from the page allocator"),
        ],
    },
    Subsystem {
        name: "fault",
        help: "page faults; their time is in the parts they call, and in the remainder",
        busy: "in page faults",
        waits: "waiting in page faults",
        fields: &[
            Field::new("user", COUNT, "faults of the program's own code")
                .counted("fault of the program", "faults of the program"),
            Field::new("kernel", COUNT, "faults of kernel code on the program's memory")
                .counted("fault of kernel code", "faults of kernel code"),
        ],
    },
    Subsystem {
        name: "pagecache",
        help: "the page cache: what had to be put in and what was made dirty",
        busy: "in the page cache",
        waits: "waiting for the page cache",
        fields: &[
            Field::new("added_pages", COUNT, "pages put into it: misses, read-ahead, new pages"),
            Field::new("dirtied_pages", COUNT, "pages that became dirty"),
        ],
    },
    Subsystem {
        name: "writeback",
        help: "writing dirty pages back: files that the call writes itself, waiting for the threads that \
               write for it, and being held back because too much is dirty",
        busy: "writing pages back",
        waits: "waiting for pages to be written back",
        fields: &[
            Field::new("pauses", COUNT, "times it was held back because too much was dirty"),
            Field::new(
                "inodes",
                COUNT,
                "inodes that the call wrote itself, as the kernel's own writers do",
            ),
            Field::new("pages", COUNT, "pages that the call itself sent on their way (ext4)"),
            Field::new("awaited", COUNT, "waits for one folio on its way; their time is of block")
                .counted("wait for a folio", "waits for a folio"),
        ],
    },
    Subsystem {
        name: "fs",
        help: "the file system (ext4): synchronising, mapping, truncating, allocating, writing pages",
        busy: "in the file system",
        waits: "waiting in the file system",
        fields: &[],
    },
    Subsystem {
        name: "journal",
        help: "the journal of ext4 (jbd2): changes that the call makes, and waiting for a commit",
        busy: "in the journal",
        waits: "waiting for the journal",
        fields: &[
            Field::new("handles", COUNT, "changes begun, each to be in the journal as a whole"),
            Field::new("dirtied_blocks", COUNT, "blocks of metadata that they changed"),
            Field::new(
                "restarts",
                COUNT,
                "times one was too large and went on in the next transaction",
            ),
        ],
    },
    Subsystem {
        name: "fuse",
        help: "file systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers",
        busy: "in FUSE",
        waits: "waiting for the file system's server",
        fields: &[
            Field::new("requests", COUNT, "requests sent to the server"),
            Field::new(
                "server",
                SECONDS,
                "from one to its answer, of those answered while the call lasted",
            ),
        ],
    },
    Subsystem {
        name: "block",
        help: "block devices: waiting for them, and requests that were done while the call lasted",
        busy: "in the block layer",
        waits: "waiting for block devices",
        fields: &[
            Field::new("requests", COUNT, "parts of requests to a device that were the call's"),
            Field::new("transferred", BYTES, "bytes of them"),
            Field::new(
                "carried",
                BYTES,
                "of these, pages that other calls which are followed, or earlier ones, made dirty; known with \
                 `pagecache`",
            )
            .beside("pagecache"),
            Field::new(
                "written",
                BYTES,
                "bytes written of pages that the call made dirty itself, and of direct writes; without \
                 `pagecache` of direct writes alone",
            )
            .wholly_with("pagecache"),
            Field::new("queue", SECONDS, "from the request to its issue to the device"),
            Field::new("device", SECONDS, "from its issue to its completion, shared by bytes"),
            Field::new(
                "foreign_requests",
                COUNT,
                "of the requests, those with bytes of files that nobody who is followed made dirty; known with \
                 `pagecache`",
            )
            .beside("pagecache")
            .counted("request caused by nobody followed", "requests caused by nobody followed"),
            Field::new(
                "foreign",
                BYTES,
                "these bytes: another program's, or written before anybody was followed. Metadata and \
                 journals of file systems are nobody's, and not in it, nor what the kernel's own threads sent \
                 to the device. Known with `pagecache`",
            )
            .beside("pagecache")
            .in_words("caused by nobody followed"),
            Field::new(
                "carried_queue",
                SECONDS,
                "of `queue`, the share of the bytes `carried`: whose they are have it in their accounts, too, so a \
                 sum over accounts is that of `queue` less that of this. Known with `pagecache`",
            )
            .beside("pagecache"),
            Field::new(
                "carried_device",
                SECONDS,
                "of `device`, the share of the bytes `carried`, which is in their accounts, too. Known with \
                 `pagecache`",
            )
            .beside("pagecache"),
            Field::new(
                "issued",
                COUNT,
                "requests that a part of the call's was first in, and that were seen as the device got them",
            )
            .counted("request issued", "requests issued"),
            Field::new(
                "in_flight",
                COUNT,
                "requests that the device had when it got one of these, this one included, added up over them: \
                 divided by `issued` it is the mean length of the device's queue. What it got before anybody \
                 looked is not in it",
            )
            .counted("request in flight", "requests in flight"),
            Field::new("in_flight_most", COUNT, "the most at once of these")
                .counted("request in flight at most", "requests in flight at most")
                .greatest(),
        ],
    },
    Subsystem {
        name: "socket",
        help: "payload through sockets (tracepoints of Linux 6.3; before, the functions of IP, Unix and netlink sockets)",
        busy: "in the socket layer",
        waits: "waiting in the socket layer",
        fields: &[
            Field::new("sent", BYTES, "payload accepted by sockets"),
            Field::new("received", BYTES, "payload taken from sockets"),
        ],
    },
    Subsystem {
        name: "tcp",
        help: "TCP: what was handed to it, and what it had to send again at once",
        busy: "in TCP",
        waits: "waiting in TCP",
        fields: &[
            Field::new("retransmits", COUNT, "segments sent again while the call lasted"),
            Field::new("transmitted", BYTES, "of its payload, handed to the network by itself"),
            Field::new("retransmitted", BYTES, "of these, sent again"),
            Field::new(
                "srtt",
                SECONDS,
                "smoothed round-trip time of the connection it sent by last, as TCP had it then",
            )
            .latest(OBSERVATIONS)
            .in_words("of round trip"),
            Field::new("cwnd", COUNT, "its congestion window then, in segments")
                .latest(OBSERVATIONS)
                .counted("segment of congestion window", "segments of congestion window"),
            Field::new("unacked", COUNT, "its segments then that were sent and not acknowledged")
                .latest(OBSERVATIONS)
                .counted("segment unacknowledged", "segments unacknowledged"),
            Field::new(
                OBSERVATIONS,
                COUNT,
                "times a connection was looked at so: as payload was handed to TCP (Linux 6.16), and as it left for \
                 the network while the call lasted",
            ),
        ],
    },
    Subsystem {
        name: "udp",
        help: "UDP, of what socket has (tracepoints of Linux 6.3; before, functions)",
        busy: "in UDP",
        waits: "waiting in UDP",
        fields: &[
            Field::new(
                "datagrams",
                COUNT,
                "sends that were accepted; one may be cut into several later",
            )
            .counted("datagram sent", "datagrams sent"),
            Field::new("sent", BYTES, "their payload"),
            Field::new("receipts", COUNT, "datagrams that were taken from sockets")
                .counted("datagram received", "datagrams received"),
            Field::new("received", BYTES, "their payload"),
        ],
    },
    Subsystem {
        name: "net",
        help: "devices and their queues; time is that of the driver's transmission, which loopback has none of",
        busy: "in network drivers",
        waits: "waiting in network drivers",
        fields: &[
            Field::new("packets", COUNT, "packets handed to a device"),
            Field::new("transmitted", BYTES, "their lengths, headers included"),
        ],
    },
    Subsystem {
        name: "qdisc",
        help: "queues before devices (traffic control); a packet that need not wait passes them by",
        busy: "in queues before devices",
        waits: "waiting in queues before devices",
        fields: &[
            Field::new("packets", COUNT, "packets that the call itself put into a queue"),
            Field::new(
                "dropped",
                COUNT,
                "packets that a queue threw away because the call's came, most often those",
            )
            .counted("packet dropped", "packets dropped"),
            Field::new(
                "queue",
                SECONDS,
                "in a queue, of those that the call itself took out again",
            ),
            Field::new(
                "in_queue",
                COUNT,
                "packets in the queue when one of these was put into it, this one included, added up over them: \
                 divided by `packets` it is the mean length of the queue",
            )
            .counted("packet in the queue", "packets in the queue"),
            Field::new("in_queue_most", COUNT, "the most at once of these")
                .counted("packet in the queue at most", "packets in the queue at most")
                .greatest(),
        ],
    },
    Subsystem {
        name: "workqueue",
        help: "work that is left to kernel threads",
        busy: "queueing work",
        waits: "waiting for queued work",
        fields: &[Field::new("queued", COUNT, "work items handed over")
            .counted("work item queued", "work items queued")],
    },
    Subsystem {
        name: "timer",
        help: "timers that were set",
        busy: "setting timers",
        waits: "waiting for timers",
        fields: &[Field::new("started", COUNT, "timers and high-resolution timers started")
            .counted("timer started", "timers started")],
    },
    Subsystem {
        name: "uring",
        help: "io_uring: requests that were handed in and completed",
        busy: "in io_uring",
        waits: "waiting in io_uring",
        fields: &[
            Field::new("submitted", COUNT, "requests handed in")
                .counted("request handed in", "requests handed in"),
            Field::new("completed", COUNT, "requests completed while the call lasted")
                .counted("request completed", "requests completed"),
        ],
    },
];

/// What a call or a token caused that happened when the call had returned already.
pub const LATER: &[Field] = &[
    Field::new("pending", COUNT, "things it caused that have not come to an end")
        .counted("thing pending", "things pending"),
    Field::new(
        "block_requests",
        COUNT,
        "parts of requests to a device that were its own, or carried its pages, which are known with \
         `pagecache`: so with the bytes and times of these",
    )
    .wholly_with("pagecache"),
    Field::new("block", BYTES, "bytes of these, at completion")
        .wholly_with("pagecache")
        .in_words("transferred by block devices"),
    Field::new(
        "block_written",
        BYTES,
        "bytes written of its pages, and of direct writes; without `pagecache` of direct writes alone",
    )
    .wholly_with("pagecache")
    .in_words("written to block devices"),
    Field::new("block_queue", SECONDS, "from the request to its issue, shared by bytes")
        .wholly_with("pagecache"),
    Field::new("block_device", SECONDS, "from issue to completion, shared by bytes")
        .wholly_with("pagecache"),
    Field::new(
        "block_foreign",
        BYTES,
        "bytes of these of files that nobody who is followed made dirty, as `foreign` of `block`; known with \
         `pagecache`",
    )
    .beside("pagecache")
    .in_words("transferred by block devices for nobody followed"),
    Field::new(
        "tcp_transmitted",
        BYTES,
        "payload that TCP handed to the network, repeats included",
    )
    .in_words("sent by TCP"),
    Field::new("tcp_retransmitted", BYTES, "payload that TCP sent again").in_words("sent again by TCP"),
    Field::new("udp_dropped", COUNT, "datagrams for the socket it read last that found no room")
        .counted("UDP datagram dropped", "UDP datagrams dropped"),
    Field::new("qdisc_packets", COUNT, "packets it put into a queue that others took out")
        .counted("packet queued before a device", "packets queued before a device"),
    Field::new("qdisc", SECONDS, "how long those were in it").in_words("queues before devices"),
    Field::new("qdisc_dropped", COUNT, "packets that others made it throw away")
        .counted("packet dropped before a device", "packets dropped before a device"),
    Field::new("fuse_requests", COUNT, "requests to a file system's server that were answered")
        .counted("FUSE request", "FUSE requests"),
    Field::new("fuse", SECONDS, "from them to their answers").in_words("FUSE server"),
    Field::new("uring_requests", COUNT, "requests of io_uring that completed in none of its calls")
        .counted("request of io_uring", "requests of io_uring"),
    Field::new("softirq", SECONDS, "in softirqs on its behalf, from where a packet is known to be of its connection to the next one, or the end").in_words("softirqs"),
    Field::new("work_items", COUNT, "work items it queued that have run"),
    Field::new("work", SECONDS, "their time"),
    Field::new("timers", COUNT, "timers it started that have run"),
    Field::new("timer", SECONDS, "their time").in_words("timer functions"),
    Field::new(
        "lost",
        COUNT,
        "things it left behind that found no room to be remembered, at least so many: what they cost later \
         is missing",
    )
    .counted("thing that found no room", "things that found no room"),
    Field::new(
        "block_carried_queue",
        SECONDS,
        "of `block_queue`, the share of bytes that are in other accounts, too, as `carried_queue` of `block`; known \
         with `pagecache`",
    )
    .beside("pagecache"),
    Field::new(
        "block_carried_device",
        SECONDS,
        "of `block_device`, the share of bytes that are in other accounts, too, as `carried_device` of `block`; \
         known with `pagecache`",
    )
    .beside("pagecache"),
    Field::new("block_issued", COUNT, "of its own requests, those whose issue was seen, as `issued` of `block`")
        .counted("request issued", "requests issued"),
    Field::new(
        "block_in_flight",
        COUNT,
        "requests that devices had when they got these, added up, as `in_flight` of `block`",
    )
    .counted("request in flight", "requests in flight"),
];

/// How many parts an account has room for: the built-in ones, and those of a configuration.
pub const PARTS: usize = SUBSYSTEMS.len() + OWN_PARTS;

/// Fields of `block`: what of the requests of a call nobody who is followed has caused, how many and bytes.
pub const FOREIGN: [&str; 2] = ["foreign_requests_total", "foreign_bytes_total"];

/// What came of calls after they had returned: a number for each of [`LATER`].
pub type LaterNumbers = [u64; LATER.len()];
