/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a call leaves for threads of the kernel: work items, whose time is charged to who queued them. */
#ifndef WEIGH_CALLS_DEFERRED_H
#define WEIGH_CALLS_DEFERRED_H

#include "timers.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64); /* a work item's address */
	__type(value, struct cause);
} works SEC(".maps");

/* What a thread of the kernel is doing for whom. */
struct working {
	__u64 began;
	struct cause cause;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct working);
} at_work SEC(".maps");

__u64 live_works;

static __always_inline bool take_work(struct cause *cause, __u64 key)
{
	struct cause *known;

	if (!live_works)
		return false;
	known = bpf_map_lookup_elem(&works, &key);
	if (!known)
		return false;
	*cause = *known;
	if (bpf_map_delete_elem(&works, &key))
		return false;
	add(&live_works, -1);
	return true;
}

/* The thread that queues it, or else the one that started the timer that does. */
SEC("?tp_btf/workqueue_queue_work")
int BPF_PROG(workqueue__queue, int cpu, void *queue, void *work)
{
	__u64 key = (__u64)work;
	struct cause cause, *starter;
	struct open open;

	/* It was cancelled, or its memory is another's now: of that nothing is told. */
	if (take_work(&cause, key))
		pends(&cause, -1);
	if (mine(&open, WEIGH_WORKQUEUE)) {
		add(&open.account->workqueue.queued, 1);
		name_cause(&cause, &open);
	} else {
		starter = starter_now();
		if (!starter)
			return 0;
		cause = *starter;
	}
	if (bpf_map_update_elem(&works, &key, &cause, BPF_ANY)) {
		not_kept(&cause);
		return 0;
	}
	add(&live_works, 1);
	pends(&cause, 1);
	return 0;
}

SEC("?tp_btf/workqueue_execute_start")
int BPF_PROG(workqueue__begin, void *work)
{
	__u32 thread = bpf_get_current_task_btf()->pid;
	struct working working;

	if (!take_work(&working.cause, (__u64)work))
		return 0;
	working.began = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&at_work, &thread, &working, BPF_ANY)) {
		not_kept(&working.cause);
		pends(&working.cause, -1);
	}
	return 0;
}

/* Its own memory may be gone by now. */
SEC("?tp_btf/workqueue_execute_end")
int BPF_PROG(workqueue__end)
{
	__u32 thread = bpf_get_current_task_btf()->pid;
	struct working *working = bpf_map_lookup_elem(&at_work, &thread);
	struct weigh_later *later;
	__u64 took;

	if (!working)
		return 0;
	took = bpf_ktime_get_ns() - working->began;
	each_later(later, &working->cause) {
		add(&later->work_items, 1);
		add(&later->work_ns, took);
	}
	tell_later(&working->cause, work_items, 1, took);
	pends(&working->cause, -1);
	bpf_map_delete_elem(&at_work, &thread);
	return 0;
}

#endif
