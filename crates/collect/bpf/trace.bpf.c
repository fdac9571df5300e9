// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Whose events `weigh trace` wants: the threads of a command, or of a process that runs, and all that
 * descend from them. The programs that write events are made at run time, and look at `members`.
 */
#include "kernel.h"
#include "members.h"

struct trace_member {
	enum stage stage;
};

MEMBERS(struct trace_member)

#include "membership.h"

/* Threads that live, and those that there ever were or could not be taken in. */
__u64 living, total, lost;

static __always_inline void note_lost_member(void)
{
	__sync_fetch_and_add(&lost, 1);
}

static __always_inline void count_member(void)
{
	__sync_fetch_and_add(&living, 1);
	__sync_fetch_and_add(&total, 1);
}

static __always_inline void note_fork(struct trace_member *creator, struct task_struct *parent,
				      struct task_struct *child)
{
	if (new_member(child))
		count_member();
}

static __always_inline void note_exec(struct trace_member *entry, struct task_struct *task, bool begins)
{
	if (begins)
		count_member();
}

static __always_inline void note_exit(struct trace_member *member, struct task_struct *task)
{
	__sync_fetch_and_add(&living, -1);
}

static __always_inline void note_other_exit(struct trace_member *entry, struct task_struct *task)
{
}

/* A task on its way out may have passed its exit's program. */
static __always_inline bool may_join(struct task_struct *task)
{
	return !(task->flags & PF_EXITING);
}

static __always_inline void note_join(struct trace_member *entry, struct task_struct *task)
{
	if (entry->stage == STAGE_MEMBER)
		return;
	entry->stage = STAGE_MEMBER;
	count_member();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
