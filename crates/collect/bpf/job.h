/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the kernel side keeps about a job, and the maps it is kept in. These types are the only
 * declaration: user space gets them from the object's BTF. Records of what happens, and of processes, are
 * declared in the schema.
 */
#ifndef WEIGH_JOB_H
#define WEIGH_JOB_H

#include "owner.h"
#include "members.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "counters.h" /* derived from the schema by the build script */
#include "records.h" /* and so is this */

/* How far the end of a job has come; set by user space, except that a crossing sets HELD. */
enum phase {
	PHASE_RUNNING,
	PHASE_HELD, /* a limit was crossed: a process that grows further is stopped */
	PHASE_ENDING, /* the job is being told to end: a process that grows further is killed */
	PHASE_KILLING, /* a process that forks is killed */
};

/* What crossing a limit does to who crosses it. */
enum hold {
	HOLD_NOT,
	HOLD_STOP,
	HOLD_KILL, /* stop, and kill who grows on */
};

/* Written by user space. */
struct control {
	__u64 limits[N_LIMITED]; /* 0: none */
	__u64 warnings[N_LIMITED];
	enum hold hold;
	enum phase phase;
	/*
	 * Memory that a look at the pages found beyond the lower bound, while no address space was
	 * given up since: copies that processes made of what they had inherited, files that only
	 * some of them have mapped.
	 */
	__u64 unseen;
	__u64 departures;
};

/* Who can have a CPU while a thread of the job waits for it. */
enum turn {
	TURN_NOBODY,
	TURN_OWN, /* the job itself */
	TURN_OTHERS,
	TURN_NONE, /* so that two bits tell whose a turn is */
	N_TURNS,
};

/* A thread that is runnable and waits for a CPU: see cpu_waits.h. */
struct cpu_wait {
	__u64 since; /* 0: it does not */
	__u64 ran[N_TURNS]; /* what the clocks of the CPU showed then */
	__u64 cpu;
};

/* Written by the programs only. Memory is in bytes, time in nanoseconds since boot. */
struct job {
	__u64 counters[N_COUNTERS];
	__u64 started, ended;
	__u64 processes, processes_peak, processes_total;
	__u64 threads, threads_peak;
	__u64 unsettled; /* threads whose last accounting is still to come */
	__s64 rss, floor, swap, virtual_size, anonymous, shared, hugetlb;
	__s64 rss_peak, floor_peak, swap_peak, virtual_peak, process_peak, hugetlb_peak;
	__u64 rss_peak_at;
	__s64 spaces; /* address spaces that somebody uses */
	/* When the sum of resident sizes was greatest. */
	__s64 spaces_at_peak, anonymous_at_peak, unshared_at_peak, shared_at_peak;
	__s64 common; /* greatest file and shared memory of one address space */
	__u64 common_mm;
	__s64 announced_peak;
	__u64 announced_at;
	__u64 mm_ids;
	__u64 departures; /* address spaces that were given up */
	__s64 held_peak; /* greatest lower bound with what looks have found: what a limit is held to */
	__u32 level; /* PID namespaces between the initial one and the first process */
	__u32 unused;
	__u64 crossed; /* the first limit that was crossed */
	__s64 crossed_value; /* and by how much: a huge page is a long step */
	__u64 warned; /* bit set of limits warned of */
	__u64 lost_threads, lost_processes, lost_mms, lost_events, lost_files, lost_calls;
	__u64 hidden_requests; /* of io_uring, of which no result tells */
	__u64 unreceived_bytes; /* taken from TCP sockets by no call that receives */
	__u64 uncounted_calls; /* of splice, tee, vmsplice, AIO, where each call is looked at */
	__u64 waited[N_TURNS]; /* for a CPU, by who had it */
	__u64 waited_unknown; /* and where that was missed */
};

struct task_counters {
	__u64 values[N_TASK_COUNTERS];
};

struct thread {
	enum stage stage;
	__u32 job;
	__u64 sockets; /* calls of its process on sockets, when a limit of I/O was checked last */
	__u64 inside; /* bit set of probed functions it has entered and not left */
	struct cpu_wait wait;
	struct task_counters seen; /* what is already in the process's and the job's counters */
};

/* An address space. Processes share one between vfork and exec, or for good after clone(CLONE_VM). */
struct memory {
	__s64 pages[NR_MM_COUNTERS];
	__s64 rss, floor, swap, virtual_size, anonymous, shared, hugetlb;
	__s64 inherited; /* anonymous pages it got at fork, which it may share with its parent */
	__s64 rss_peak, virtual_peak, swap_peak;
	__u64 address; /* of its mm_struct */
	__u64 process; /* the one that it was made for; 0 when that has left it to others */
	__u64 id;
	__u32 job;
	__u32 users;
	__u32 dying;
};

#define EXEC_HEAD __builtin_offsetof(struct exec, arguments)
#define FILE_HEAD __builtin_offsetof(struct file_opened, path)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct job);
} jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

MEMBERS(struct thread)

/* By signal_struct: unlike a PID it is not given to another process before this one is gone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct memory);
} memories SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

union scratch {
	struct process process;
	struct memory memory;
	struct exec exec;
	struct file_opened file;
	struct crossing crossing;
};

/* Two, so that a program can hold one while a helper function fills the other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, union scratch);
} scratches SEC(".maps");

const volatile __u32 page_bytes = 4096;
const volatile __u32 cpus = 1;
const volatile __u64 wake_mark = 1 << 20; /* wake the reader when this much is waiting */

/* So that these types are in the object's BTF for user space. */
const volatile struct thread thread_layout;
const volatile struct job job_layout;
const volatile struct control control_layout;
const volatile struct memory memory_layout;
const volatile enum turn turn_layout;

#define atomic_add(place, amount) __sync_fetch_and_add(place, amount)
#define exchange(place, value) __sync_lock_test_and_set(place, value)

/*
 * What follows are global functions, verified once each rather than at every call. The kernel
 * side loads in a third of the time for it. They take memory and numbers only: pointers to the
 * kernel's own structures cannot be handed over on all kernels.
 */
int raise_to(__s64 *peak, __s64 value)
{
	if (!peak)
		return 0;
	for (int i = 0; i < 4; i++) {
		__s64 seen = *(volatile __s64 *)peak;
		if (value <= seen || __sync_val_compare_and_swap(peak, seen, value) == seen)
			return 0;
	}
	return 0;
}

static __always_inline struct job *job_of(__u32 index)
{
	return bpf_map_lookup_elem(&jobs, &index);
}

static __always_inline struct control *control_of(__u32 index)
{
	return bpf_map_lookup_elem(&controls, &index);
}

/*
 * Pointers that are only passed on or compared are read with BPF_CORE_READ: a plain load of a
 * pointer makes the verifier search all of the kernel's type names, each time it comes by.
 */
static __always_inline __u64 process_key(struct task_struct *task)
{
	return (__u64)BPF_CORE_READ(task, signal);
}

static __always_inline struct process *process_of(struct task_struct *task)
{
	__u64 key = process_key(task);

	return bpf_map_lookup_elem(&processes, &key);
}

static __always_inline union scratch *scratch(__u32 which)
{
	return bpf_map_lookup_elem(&scratches, &which);
}

/* Wake the reader when the mark is crossed, not at each event past it. */
static __always_inline __u64 wake_flags(__u64 length)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	return waiting <= wake_mark && waiting + length > wake_mark ? BPF_RB_FORCE_WAKEUP :
								      BPF_RB_NO_WAKEUP;
}

static __always_inline void count(struct job *job, struct process *process, int which,
				  __u64 amount)
{
	atomic_add(&job->counters[which], amount);
	if (process)
		atomic_add(&process->counters[which], amount);
}

#endif
