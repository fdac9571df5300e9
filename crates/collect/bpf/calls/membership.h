/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The threads whose calls are followed, and those of programs with libweigh: what membership.h asks of this object.
 * Programs for which no library spoke are counted by name.
 */
#ifndef WEIGH_CALLS_MEMBERSHIP_H
#define WEIGH_CALLS_MEMBERSHIP_H

#include "call.h"
#include "../membership.h"

/* Programs that no library spoke for until they ended or executed another: how often each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, char[IMAGE_BYTES]);
	__type(value, __u64);
} unheard SEC(".maps");

static __always_inline void count_unheard(struct window *window)
{
	__u64 none = 0, *times;

	if (follows_calls || !window->unheard)
		return;
	window->unheard = 0;
	bpf_map_update_elem(&unheard, window->image, &none, BPF_NOEXIST);
	times = bpf_map_lookup_elem(&unheard, window->image);
	if (times)
		add(times, 1);
	else
		count_lost();
}

static __always_inline void note_lost_member(void)
{
	count_lost();
}

static __always_inline void count_member(void)
{
	add(&tally.threads, 1);
	add(&tally.living, 1);
}

static __always_inline void note_fork(struct window *creator, struct task_struct *parent,
				      struct task_struct *child)
{
	if (new_member(child))
		count_member();
}

static __always_inline void note_exec(struct window *window, struct task_struct *task, bool begins)
{
	/* What it shared with weigh is gone with its old memory. */
	window->client = 0;
	window->bounded = 0;
	if (begins)
		count_member();
	if (window->stage == STAGE_MEMBER) {
		count_unheard(window);
		window->unheard = 1;
		bpf_get_current_comm(window->image, IMAGE_BYTES);
	}
}

/* A thread that ends does not leave the call that it is in: exit, or one that a signal has ended. */
static __always_inline void note_exit(struct window *window, struct task_struct *task)
{
	window->client = 0;
	if (window->inside)
		finish(window, task, 0);
	count_unheard(window);
	window->stage = STAGE_NONE;
	add(&tally.living, -1);
}

static __always_inline void note_other_exit(struct window *window, struct task_struct *task)
{
	if (window)
		window->client = 0;
}

static __always_inline bool may_join(struct task_struct *task)
{
	return true;
}

/* Of a client's thread, not of a process that is to be followed; 0: the latter. */
const volatile struct join_request {
	__u32 client, slot;
	__u64 ticket;
} join_layout;
struct join_request join_request;

static __always_inline void note_join(struct window *window, struct task_struct *task)
{
	if (!join_request.client) {
		window->stage = STAGE_MEMBER;
		count_member();
		return;
	}
	forget_counting(&window->counting);
	window->slot = join_request.slot % MAX_SLOTS;
	window->ticket = join_request.ticket;
	window->bounded = 0;
	window->request = 0;
	window->unheard = 0;
	window->client = join_request.client;
}

#endif
