/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a thread waited for, where only who ends the wait knows: the journal's thread after a commit,
 * a file system's server with its answer. They leave a note for the thread just before they wake it,
 * and it reads the note when it has the CPU again.
 */
#ifndef WEIGH_CALLS_AWAITED_H
#define WEIGH_CALLS_AWAITED_H

#include "account.h"

struct awaited {
	__u64 ended; /* when the wait's end was brought about */
	__u64 number; /* of the call, or request, that it must be; 0: whichever it is */
	__u32 part;
};

/* Threads that nobody follows leave their notes unread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* thread */
	__type(value, struct awaited);
} awaited SEC(".maps");

/* The last note: a wait that began after it needs no look-up. */
__u64 last_awaited;

static __always_inline void was_awaited(__u32 thread, __u32 part, __u64 number)
{
	struct awaited note = { .ended = bpf_ktime_get_ns(), .number = number, .part = part };

	bpf_map_update_elem(&awaited, &thread, &note, BPF_ANY);
	last_awaited = note.ended;
}

/* Of the open call, or the request of libweigh. */
static __always_inline __u64 number_of(struct window *window)
{
	return window->inside ? window->sequence : window->request;
}

/* What the wait that has just ended was for: a note's part, or the one that seemed so at its beginning. */
static __always_inline __u32 awaited_by(struct window *window, struct task_struct *task)
{
	__u32 part = window->waits_for, thread = task->pid;
	struct awaited *note;
	struct open open;

	if (last_awaited <= window->off || window->preempted)
		return part;
	note = bpf_map_lookup_elem(&awaited, &thread);
	if (!note || note->ended <= window->off)
		return part;
	if (note->number && note->number != number_of(window))
		return part;
	return opened(&open, task, note->part) ? note->part : part;
}

#endif
