/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Membership of a job: inherited at each fork, whatever the new thread's parent, session or namespaces are. A
 * command's thread is armed by user space, and is a member from its exec on. A thread that runs joins by an iterator.
 *
 * These programs are the only ones at fork, exec and exit. An object includes this header once, declares its
 * entries by MEMBERS(), and defines what is declared here.
 */
#ifndef WEIGH_MEMBERSHIP_H
#define WEIGH_MEMBERSHIP_H

#include "follow.h"
#include "members.h"
#include <bpf/bpf_tracing.h>

/* There is no memory for a thread's entry. */
static void note_lost_member(void);
/* A member makes a thread, which gets its entry by new_member(). */
static void note_fork(MEMBER *creator, struct task_struct *parent, struct task_struct *child);
/* A thread with an entry of any stage executes a program; it may begin the job by that. */
static void note_exec(MEMBER *entry, struct task_struct *task, bool begins);
/* A member ends. */
static void note_exit(MEMBER *member, struct task_struct *task);
/* Any other thread does; it may have an entry. */
static void note_other_exit(MEMBER *entry, struct task_struct *task);
/* Whether a thread that user space has chosen gets an entry. */
static bool may_join(struct task_struct *task);
/* It has one, which may be older; its stage is still to be set. */
static void note_join(MEMBER *entry, struct task_struct *task);

static __always_inline MEMBER *new_entry(struct task_struct *task)
{
	MEMBER *entry = bpf_task_storage_get(&members, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!entry)
		note_lost_member();
	return entry;
}

static __always_inline MEMBER *new_member(struct task_struct *task)
{
	MEMBER *entry = new_entry(task);

	if (entry)
		entry->stage = STAGE_MEMBER;
	return entry;
}

/* Most threads have no storage of any program's: to see that takes a load, and no call. */
static __always_inline MEMBER *likely_no_entry(struct task_struct *task)
{
	return followed(task)->bpf_storage ? entry_of(task) : 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(member__fork, struct task_struct *parent, struct task_struct *child)
{
	MEMBER *creator = likely_no_entry(parent);

	if (creator && creator->stage == STAGE_MEMBER)
		note_fork(creator, parent, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(member__exec, struct task_struct *task)
{
	MEMBER *entry = likely_no_entry(task);
	bool begins;

	if (!entry)
		return 0;
	begins = entry->stage == STAGE_ARMED;
	if (begins)
		entry->stage = STAGE_MEMBER;
	note_exec(entry, task, begins);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(member__exit, struct task_struct *task)
{
	MEMBER *entry = likely_no_entry(task);

	if (entry && entry->stage == STAGE_MEMBER)
		note_exit(entry, task);
	else
		note_other_exit(entry, task);
	return 0;
}

/* Run by user space for each thread of a process that runs, from now on a member. */
SEC("?iter/task")
int member__join(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	MEMBER *entry;

	if (!task || !may_join(task))
		return 0;
	entry = new_entry(task);
	if (entry)
		note_join(entry, task);
	return 0;
}

#endif
