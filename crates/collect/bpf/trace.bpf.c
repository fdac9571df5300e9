// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Whose events `weigh trace` wants: the threads of a command, or of a process that runs, and all that
 * descend from them. The programs that write events are made at run time, and look at `members`.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* As in trace/src/generate.rs; a thread that waits for its exec is none yet. */
#define ARMED 1
#define MEMBER 2

#define PF_EXITING 4

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} members SEC(".maps");

/* Threads that live, and those that there ever were or could not be taken in. */
__u64 living, total, lost;

static __always_inline __u32 *stage_of(struct task_struct *task)
{
	return bpf_task_storage_get(&members, task, 0, 0);
}

static __always_inline void take_in(struct task_struct *task)
{
	__u32 *stage = bpf_task_storage_get(&members, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!stage) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	if (*stage == MEMBER)
		return;
	*stage = MEMBER;
	__sync_fetch_and_add(&living, 1);
	__sync_fetch_and_add(&total, 1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 *stage = stage_of(parent);

	if (stage && *stage == MEMBER)
		take_in(child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	__u32 *stage = stage_of(task);

	if (stage && *stage == ARMED)
		take_in(task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 *stage = stage_of(task);

	if (stage && *stage == MEMBER)
		__sync_fetch_and_add(&living, -1);
	return 0;
}

/* Run by user space over the threads of a process that runs. */
SEC("iter/task")
int on_join(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	/* A task on its way out may have passed on_exit. */
	if (task && !(task->flags & PF_EXITING))
		take_in(task);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
