/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The journal: changes that a call makes, and its waiting for the journal's thread, which knows
 * whom it wakes: those that wait for the commit that is done, or for a transaction that was closed.
 */
#ifndef WEIGH_CALLS_JOURNAL_H
#define WEIGH_CALLS_JOURNAL_H

#include "wakers.h"

/* So many threads that wait for one commit are told of it. */
#define MAX_WAITERS 1024

SEC("?tp_btf/jbd2_handle_start")
int BPF_PROG(journal__handle)
{
	struct open open;

	if (!mine(&open, WEIGH_JOURNAL))
		return 0;
	add(&open.account->parts[WEIGH_JOURNAL].entries, 1);
	add(&open.account->journal.handles, 1);
	return 0;
}

SEC("?tp_btf/jbd2_handle_restart")
int BPF_PROG(journal__restart)
{
	struct open open;

	if (mine(&open, WEIGH_JOURNAL))
		add(&open.account->journal.restarts, 1);
	return 0;
}

SEC("?tp_btf/jbd2_handle_stats")
int BPF_PROG(journal__handle_end, unsigned int device, unsigned long transaction, unsigned int type,
	     unsigned int line, int interval, int sync, int requested, int dirtied)
{
	struct open open;

	if (dirtied > 0 && mine(&open, WEIGH_JOURNAL))
		add(&open.account->journal.dirtied_blocks, dirtied);
	return 0;
}

struct waiters {
	struct list_head *head, *next;
};

static long tell_waiter(__u32 number, struct waiters *waiters)
{
	struct wait_queue_entry *entry = (void *)waiters->next -
					 bpf_core_field_offset(struct wait_queue_entry, entry);
	struct task_struct *task;
	__u32 thread;

	if (!waiters->next || waiters->next == waiters->head)
		return 1;
	task = BPF_CORE_READ(entry, private);
	thread = BPF_CORE_READ(task, pid);
	if (thread)
		was_awaited(thread, WEIGH_JOURNAL, 0);
	waiters->next = BPF_CORE_READ(entry, entry.next);
	return 0;
}

static __always_inline void tell_waiters(struct wait_queue_head *queue)
{
	struct waiters waiters = { .head = &queue->head };

	waiters.next = BPF_CORE_READ(queue, head.next);
	bpf_loop(MAX_WAITERS, tell_waiter, &waiters, 0);
}

/* Just before those are woken that could not begin a change. */
SEC("?tp_btf/jbd2_commit_flushing")
int BPF_PROG(journal__closed, struct journal_s *journal)
{
	tell_waiters(&journal->j_wait_transaction_locked);
	return 0;
}

/* Just before those are woken that wait for it. */
SEC("?tp_btf/jbd2_end_commit")
int BPF_PROG(journal__committed, struct journal_s *journal)
{
	tell_waiters(&journal->j_wait_done_commit);
	return 0;
}

#endif
