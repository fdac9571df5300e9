/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is kept of each process and of each thread, and how user space is told; account.h has what is kept of each file
 * and process. These types are the only declaration: user space gets them from the object's BTF, and the
 * numbers come from the schema.
 */
#ifndef WEIGH_IO_KEEP_H
#define WEIGH_IO_KEEP_H

#include "../owner.h"
#include "../members.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "io_numbers.h" /* derived from the schema by the build script */

#define MAX_USES 32768
#define MAX_PROCESSES 16384
#define PATH_BYTES 4096
#define NAME_BYTES 256
#define UNIX_BYTES 108 /* the longest name of a Unix socket */

/* What a thing is that was done. */
enum io_deed {
	DID_MOVE,
	DID_OPEN,
	DID_CLOSE,
	DID_SEEK,
	DID_METADATA,
	DID_SYNC,
	DID_TRUNCATE,
	DID_MAP,
	DID_FILL,
	DID_PATH, /* what names a file by its path and opens nothing */
};

struct io_doing {
	enum io_deed deed;
	enum io_transfer transfer;
	__u32 wrote; /* of a move: the direction */
	__u32 failed;
	/*
	 * 2: at the file's own position, which lies behind it when it is done; 3: at the file's end, if it has
	 * grown by that much.
	 */
	__u32 is_placed;
	__u32 is_spread; /* over several places of the file; see offset_histogram.h */
	__u32 is_direct;
	__u32 truncates;
	__u32 is_cached; /* of a read: nothing came into the page cache meanwhile */
	__u32 number; /* of the call */
	__u32 tid; /* 0: the thread that runs */
	__u32 is_asked; /* whether it is known how much was asked for */
	__u16 is_shared_map; /* of a map: stores go to the file */
	__u16 is_new; /* what it is counted in; here to be hidden from the verifier */
	__s32 error;
	__u64 calls, bytes, from, asked;
	__u64 time_ns, at;
};

struct io_key {
	__u64 inode;
	__u32 device, generation;
	__u32 pid;
	__u32 tid; /* 0 where threads are not told apart */
};

/* A file, as far as it is needed at each call. */
struct io_file {
	struct file *file; /* 0: known by its inode alone */
	struct inode *inode;
	__u32 mode;
	__u32 flags;
	__u32 is_stacked; /* its file system may lie on another, which has its pages; see overlay.h */
	__u32 unused;
	__s64 position;
	struct io_key key;
};

struct io_window {
	enum stage stage;
	__u32 inside; /* what the call does that it is in; see calls.h */
	__s32 descriptor; /* the call's first argument */
	__u32 number;
	__u64 began;
	__u64 fills; /* folios that came into the page cache for the call */
	/* Of a call by the numbers of 32-bit programs, as this machine's own would make it: see compat32.h. */
	__u32 shape;
	__u32 in_memory; /* so many arguments lie where the first one says */
	__u32 frees; /* whether the call may free space; see frees.h */
	__u32 unused;
	__u64 arguments[6];
	__s64 end; /* of the file, where the call writes there and not at its offset; see append.h */
	__u64 copied_up; /* the inode from which an open seems to make a copy; see overlay.h */
	/*
	 * What the call has done, and with which descriptors: one, or from one to the other. Here and
	 * not on the stack to be hidden from the verifier, which would follow each kind of call, and
	 * because the stack is too short for it on old kernels. A thread is in one call at a time.
	 */
	struct io_doing did[2];
	struct io_file file;
	struct io_file by; /* that pages may be used by */
	__s32 ends[2];
};

MEMBERS(struct io_window)

struct io_process {
	__u32 pid, parent;
	__u64 started, ended;
	__u64 path_calls, path_ns, failed_opens, foreign_calls;
	__u64 hidden_requests; /* of io_uring, of which no result tells all */
	__u32 threads;
	__u32 is_apart; /* the owner may not look at it: its files are not told */
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct io_process);
} processes SEC(".maps");

/* Files whose names were told, and what tells such a name from a later one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_USES);
	__type(key, struct io_key); /* without the process */
	__type(value, __u64);
} named SEC(".maps");

enum io_kind {
	TOLD_NAME = 1,
	TOLD_USE,
	TOLD_PROCESS,
	TOLD_CALL,
};

struct io_told_process {
	enum io_kind kind;
	__u32 unused;
	struct io_process process;
};

/* One thing that was done, where each is wanted: what is counted is told, and nothing else. */
struct io_told_call {
	enum io_kind kind;
	enum io_deed deed;
	struct io_key key; /* without a file where none is known */
	__u32 tid, number;
	enum io_transfer transfer;
	__u32 wrote;
	__u32 is_placed, is_asked;
	__s32 error;
	__u32 calls;
	__u64 bytes, from, asked;
	__u64 time_ns, at;
};

/* Components of a path from the last to the first, each with a zero behind it. */
struct io_told_name {
	enum io_kind kind;
	__u32 mode;
	struct io_key key;
	__u32 rdev, length;
	__u32 is_complete; /* whether the root was reached */
	__u32 family, protocol;
	/* Of a Unix socket: how long the names are that stand where a path would, one behind the other's room. */
	__u16 local_port, remote_port;
	__u8 local[16], remote[16];
	char path[PATH_BYTES + NAME_BYTES];
};

#define NAME_HEAD __builtin_offsetof(struct io_told_name, path)

/*
 * Names have a ring of their own: what is kept of a file stays where it is as long as there is no room to
 * tell it, but a name that is not told when the file is first used may be lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} told_names SEC(".maps");

/* User space says how much, if it wants each call; else this is as small as may be. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} told_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct io_told_name);
} name_scratch SEC(".maps");

struct io_tally {
	__u64 threads, living;
	__u64 lost_processes, lost_threads, lost_names, lost_requests, rest_calls, lost_calls;
	__u64 lost_pages; /* what devices did with them is not known */
	__u64 lost_ahead; /* pages of which it is not known whether they were used */
	__u64 untold_calls, untold_bytes[2]; /* counted, but without room to tell them one by one */
	__u64 apart_calls; /* of processes that are apart: in the rest, without their files */
	__u64 shared_maps, memory_maps; /* by which files are written; those of files in memory (tmpfs) */
	__u64 sparse_fills; /* pages that came by mapped memory, of files with less storage than their size */
	__u64 hidden_requests; /* of io_uring, of which no result tells all */
	__u64 uncounted_calls; /* that moved bytes which the kernel's own sums leave out */
	__u64 frees; /* calls that may have freed space of a file system; see frees.h */
};

struct io_tally tally;

const volatile __u64 told_mark = 1 << 20; /* wake the reader when this much is waiting */
const volatile bool tells_calls = false; /* each call is wanted */
const volatile bool by_thread = false; /* not by process */
/* Everybody is followed, but only what is done with files of this file system; 0: a job, with all its files. */
const volatile __u32 only_device = 0;
const volatile struct io_told_process process_layout;
const volatile struct io_told_name name_layout;
const volatile struct io_told_call call_told_layout;
const volatile struct io_window window_layout;
const volatile struct io_tally tally_layout;

#define add(place, amount) __sync_fetch_and_add(place, amount)

/* Wake the reader when the mark is crossed, not at each record past it. */
static __always_inline __u64 waking(void *ring, __u64 length)
{
	__u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return waiting <= told_mark && waiting + length > told_mark ? BPF_RB_FORCE_WAKEUP :
								      BPF_RB_NO_WAKEUP;
}

/* Whether what is done with files of this file system is wanted. */
static __always_inline bool is_wanted(__u32 device)
{
	return !only_device || device == only_device;
}

static __always_inline struct io_process *process_of(__u32 pid)
{
	return bpf_map_lookup_elem(&processes, &pid);
}

/*
 * Whether the owner is told nothing of a process but sums. All that names a file asks here: so it is of no
 * process either that is not known, or has ended.
 */
static __always_inline bool is_apart(__u32 pid)
{
	struct io_process *process;

	if (!has_owner)
		return false;
	process = process_of(pid);
	return !process || process->is_apart;
}

#endif
