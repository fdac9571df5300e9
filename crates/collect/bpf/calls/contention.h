/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rivals of a call: the thread that had the CPU before its own got it, the holder of the lock that it
 * waited for, the thread with other requests in the disk's queue. Of each kind one is kept, the one of the
 * longest wait. Nothing is done unless single calls are told.
 */
#ifndef WEIGH_CALLS_RIVALS_H
#define WEIGH_CALLS_RIVALS_H

#include "call_table.h" /* derived from the schema by the build script */

struct rival {
	__u64 time; /* of the wait; while it lasts: when it began */
	__u32 pid;
	char name[16];
};

/* What a window keeps of them. */
struct rivals {
	struct rival longest[RIVAL_KINDS];
	__u64 arrived; /* on the CPU, when the last wait ended */
	struct rival holder; /* of the lock that is waited for */
};

const volatile bool names_rivals;
const volatile struct rival rival_layout;

static __always_inline void forget_rivals(struct rivals *rivals)
{
	for (int kind = 0; kind < RIVAL_KINDS; kind++) {
		rivals->longest[kind].time = 0;
		rivals->longest[kind].pid = 0;
	}
	rivals->holder.pid = 0;
}

/* By its process. The idle task has no number: nobody is behind it. */
static __always_inline void name_rival(struct rival *rival, struct task_struct *task)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	rival->pid = BPF_CORE_READ(task, tgid);
	if (rival->pid)
		bpf_probe_read_kernel(rival->name, sizeof(rival->name), &leader->comm);
}

/* The last thread on a CPU, and when: to name what a thread waited behind. */
#define TURNS 16

struct turns {
	__u64 since; /* the last switch */
	__u32 next;
	struct turn {
		struct rival who; /* its time: when it ended */
		__u64 began;
	} turns[TURNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turns);
} cpu_turns SEC(".maps");

static __always_inline void had_turn(struct task_struct *before, __u64 now)
{
	__u32 zero = 0;
	struct turns *turns = bpf_map_lookup_elem(&cpu_turns, &zero);
	struct turn *turn;

	if (!turns)
		return;
	if (before->tgid) {
		turn = &turns->turns[turns->next++ % TURNS];
		name_rival(&turn->who, before);
		turn->began = turns->since;
		turn->who.time = now;
	}
	turns->since = now;
}

/* A wait for a CPU has ended: it was behind who had the CPU longest in it. */
static __noinline void was_behind(struct rivals *rivals, __u64 wait)
{
	struct rival *longest = &rivals->longest[RIVAL_BEHIND];
	__u64 until = rivals->arrived, from = until - wait, most = 0;
	__u32 zero = 0;
	struct turns *turns = bpf_map_lookup_elem(&cpu_turns, &zero);

	if (!turns || wait <= longest->time)
		return;
	for (int i = 0; i < TURNS; i++) {
		struct turn *turn = &turns->turns[i];
		__u64 began = turn->began > from ? turn->began : from;
		__u64 ended = turn->who.time < until ? turn->who.time : until;

		if (ended <= began || ended - began <= most)
			continue;
		most = ended - began;
		__builtin_memcpy(longest, &turn->who, sizeof(*longest));
		longest->time = wait;
	}
}

/* A wait for this one has ended. */
static __always_inline void met(struct rivals *rivals, enum rival_kind kind, struct rival *rival,
				__u64 time)
{
	struct rival *longest = &rivals->longest[kind];

	if (!rival->pid || time <= longest->time)
		return;
	__builtin_memcpy(longest, rival, sizeof(*longest));
	longest->time = time;
}

#endif
