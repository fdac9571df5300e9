/* Derived from crates/schema/src/library.rs by `weigh generate`. */
#ifndef WEIGH_PAGE_H
#define WEIGH_PAGE_H

#define WEIGH_LAYOUT 0x28f4083dc1e3bc01ULL
#define WEIGH_AGENT_SOCKET "/run/weigh/agent.sock"
#define WEIGH_AGENT_VARIABLE "WEIGH_SOCKET"
#define WEIGH_INSIDE_VARIABLE "WEIGH_CALLS_SOCKET"

#define ELEMENT_BYTES 1536
#define SLOT_ELEMENTS 256
#define SLOTS_PER_ELEMENT 16
#define MAX_SLOTS 4096
#define MAX_ACCOUNTS 1024
#define ACCOUNT_WORDS 16
#define LIMITS 32
#define MAX_CLIENTS 4096
#define FIRST_SLOT_ELEMENT 1
#define FIRST_ACCOUNT 257
#define MAX_PARTS 128
#define FIRST_PARTS 1281
#define ELEMENTS 1409

/* What a page begins with. */
struct page_head {
	WEIGH_U64 served; /* 1 while somebody serves the program; 0 from the server's orderly end on */
	WEIGH_U64 available; /* bit set of the parts of the kernel that can be seen */
	WEIGH_U64 attached; /* bit set of those that are seen now */
	WEIGH_U64 looked; /* each how many milliseconds it is looked for what has settled; 0: it is not */
	WEIGH_U64 refused; /* tokens that found no account */
	WEIGH_U64 watched[16]; /* bit set of accounts: set by the program, cleared when settled */
	WEIGH_U64 settled[16]; /* bit set of accounts: set by the server, cleared by the program */
	WEIGH_U64 passed; /* bit set of limits: set by the server, cleared by the program */
	WEIGH_U64 limited[32]; /* each an account's number + 1, cleared when it is passed; 0: no limit */
	WEIGH_U64 limit_at[32]; /* which number of that account, counted from its first */
	WEIGH_U64 limit_value[32]; /* what that number has to reach */
};

/*
 * Where a thread of a program says what is to be accounted: written by the program, and so it
 * may hold anything.
 */
struct slot {
	WEIGH_U64 request; /* 0: nothing; else the account's number + 1, and above it a running number */
	WEIGH_U64 wanted; /* bit set of subsystems */
	WEIGH_U64 ticket; /* of the thread that the slot belongs to */
	WEIGH_U64 calls; /* 0: an interval that the program ends itself; else calls that are left of it */
	WEIGH_U64 unused[4];
};

/* The first is a head, then come slots, then accounts, then their numbers of each part. */
union element {
	struct page_head head;
	struct slot slots[SLOTS_PER_ELEMENT];
	struct {
		struct weigh_account account;
		WEIGH_U64 wanted; /* bit set of what its intervals were to account: by the program */
		WEIGH_U64 parts_element; /* 0: it has no numbers of each part; else the number of their element + 1: by the program */
	};
	struct weigh_parts parts;
	unsigned char bytes[ELEMENT_BYTES];
};

/* What a program can ask for. */
enum weigh_request_kind {
	WEIGH_ASK_ENTER = 0, /* a page of its own */
	WEIGH_ASK_JOIN = 1, /* to account for a thread, by a slot */
	WEIGH_ASK_PEER = 2, /* to read another program's page */
	WEIGH_ASK_LEAVE = 3, /* to read another program's page no more */
	WEIGH_ASK_WATCH = 4, /* to be told when a watched account has settled */
	WEIGH_ASK_FOLLOW = 5, /* a stream to somebody who follows a job in the kernel */
	WEIGH_ASK_WANT = 6, /* these parts of the kernel, and no others any more */
	WEIGH_ASK_COUNT = 7, /* counters of the CPU, of a thread */
	WEIGH_ASK_CONFIGURED = 8, /* struct weigh_configured, in a file that nobody can write */
};

#define WEIGH_FOLLOWS_CALLS 1
#define WEIGH_CONFIGURED 2

struct weigh_request {
	WEIGH_U64 layout; /* WEIGH_LAYOUT of who sends */
	WEIGH_U64 kind; /* enum weigh_request_kind */
	WEIGH_U64 number; /* of the thread or process that it is about */
	WEIGH_U64 value; /* of WEIGH_ASK_JOIN: the slot; of WEIGH_ASK_ENTER and WEIGH_ASK_WANT: the parts; of WEIGH_ASK_COUNT: the counters */
};

struct weigh_reply {
	WEIGH_U64 layout; /* WEIGH_LAYOUT of who sends */
	WEIGH_U64 reason; /* enum weigh_reason; 0: it was done */
	WEIGH_U64 value; /* of WEIGH_ASK_JOIN: the ticket; of WEIGH_ASK_COUNT: the counters whose descriptors come along, as a group */
	WEIGH_U64 flags; /* of WEIGH_ASK_ENTER: WEIGH_FOLLOWS_CALLS, WEIGH_CONFIGURED */
};

#define WEIGH_NAME_BYTES 48
#define WEIGH_WHY_BYTES 464
#define WEIGH_LATER_PREFIX "later."

/* What a configuration has made of the parts of the kernel, by number. */
struct weigh_configured {
	WEIGH_U64 removed; /* bit set of the built-in parts that it leaves out */
	struct {
		char name[WEIGH_NAME_BYTES]; /* of a part that it defines */
		char why[WEIGH_WHY_BYTES]; /* it is not seen */
	} parts[WEIGH_SUBSYSTEMS];
	struct {
		WEIGH_U64 part; /* whose it is; 0: there is no such number */
		WEIGH_U64 is_ns; /* nanoseconds; else bytes, or things */
		char name[WEIGH_NAME_BYTES]; /* with WEIGH_LATER_PREFIX if it comes later */
	} numbers[WEIGH_OWN_NUMBERS]; /* in the order of `own` of an account */
};

/* Texts of enum weigh_reason. */
#define WEIGH_REASON_TEXTS \
	[0] = "it is measured", \
	[1] = "no agent of weigh answers", \
	[2] = "the agent of weigh, or the stream that was read, has ended, or has dropped this program", \
	[3] = "the agent and libweigh are of different versions of weigh", \
	[4] = "the process belongs to another user", \
	[5] = "as many programs are measured, or have just come, as the agent allows a user, or all of them", \
	[6] = "no such process is measured", \
	[7] = "the agent cannot see this thread: it is in another PID namespace", \
	[8] = "as many threads of this program are measured as can be", \
	[9] = "all accounts are taken: weigh_release() gives them back", \
	[10] = "the handle is of the process that this one was forked from", \
	[11] = "the handle is closed", \
	[12] = "an interval of this thread is open already", \
	[13] = "no interval of this thread is open", \
	[14] = "nothing was accounted to this token", \
	[15] = "there is no memory for the accounts", \
	[16] = "the agent does not understand the request", \
	[17] = "the kernel refuses what the agent needs for it", \
	[18] = "the weigh that measures does not see this part: it was started without it, or the kernel does not tell of it", \
	[19] = "the program has not asked for this part, or has said that it does not want it", \
	[20] = "no agent of weigh answers, and the weigh that has started the program may not measure", \
	[21] = "it is not counted: the CPU, or the virtual machine, has no such counter, or the weigh calls that measures was started without --counters", \
	[22] = "no `weigh trace` listens there", \
	[23] = "the event has no field of that name", \
	[24] = "the stream refuses what was asked for: its answer says why", \
	[25] = "the stream has no buffer of that name that can be read", \
	[26] = "this program reads as many others' accounts as libweigh has room for: weigh_peer_close() gives one back", \
	[27] = "nobody measured it when it was wanted", \
	[28] = "the configuration of the weigh that measures leaves this part out: weigh_why_text() names it", \
	[29] = "the agent that measures now has another configuration than the one that this program found first: its parts are not those that the program knows", \
	[30] = "this program has as many limits as libweigh has room for: weigh_unlimit() gives one back", \
	[31] = "an account has no such number: expected WEIGH_NUMBER(name), and a value above 0"

/* Names of enum weigh_subsystem. */
#define WEIGH_PART_NAMES \
	[0] = "kernel", \
	[1] = "sched", \
	[2] = "irq", \
	[3] = "lock", \
	[4] = "memory", \
	[5] = "fault", \
	[6] = "pagecache", \
	[7] = "writeback", \
	[8] = "fs", \
	[9] = "journal", \
	[10] = "fuse", \
	[11] = "block", \
	[12] = "socket", \
	[13] = "tcp", \
	[14] = "udp", \
	[15] = "net", \
	[16] = "qdisc", \
	[17] = "workqueue", \
	[18] = "timer", \
	[19] = "uring"

#endif
