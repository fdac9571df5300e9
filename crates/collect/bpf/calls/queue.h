/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sharers of a disk's queue: of each request in flight its submitter is known, and of each disk the
 * last two that had one issued. When a request of a call is issued, the other one of them, if it has
 * requests in flight, is in the call's way. What is written back from
 * the page cache was handed in by a kernel thread, and is named so.
 */
#ifndef WEIGH_CALLS_QUEUE_H
#define WEIGH_CALLS_QUEUE_H

#include "block.h"

/* Who handed in what became a request. */
struct submitter {
	struct rival who;
	__u32 tid; /* of the call; 0: no call of the job */
	__u64 sequence;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* bio */
	__type(value, struct submitter);
} submitters SEC(".maps");

struct share {
	__u64 queue;
	__u64 pid;
};

/* Requests that are in flight. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* request */
	__type(value, struct share);
} flying SEC(".maps");

/* How many of each queue and process. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct share);
	__type(value, __s64);
} shares SEC(".maps");

struct queue {
	struct rival last, other;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, __u64); /* queue */
	__type(value, struct queue);
} queues SEC(".maps");

struct met_at_disk {
	__u64 sequence; /* of the call */
	struct rival rival;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* thread */
	__type(value, struct met_at_disk);
} met_at_disks SEC(".maps");

SEC("?tp_btf/block_getrq")
int BPF_PROG(block__rival_request, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window = window_of(task);
	struct submitter submitter = {};
	__u64 key = (__u64)bio;

	name_rival(&submitter.who, task);
	if (window && window->inside) {
		submitter.tid = task->pid;
		submitter.sequence = window->sequence;
	}
	bpf_map_update_elem(&submitters, &key, &submitter, BPF_ANY);
	return 0;
}

static __always_inline void is_in_flight(struct share *share, __s64 change)
{
	__s64 *count = bpf_map_lookup_elem(&shares, share);

	if (count)
		add(count, change);
	else if (change > 0)
		bpf_map_update_elem(&shares, share, &change, BPF_ANY);
}

static __always_inline void look_into_queue(struct queue *queue, __u64 number,
					    struct submitter *submitter)
{
	struct rival *rival = queue->last.pid != submitter->who.pid ? &queue->last : &queue->other;
	struct share share = { number, rival->pid };
	struct met_at_disk met_at_disk = {};
	__s64 *count;

	if (!rival->pid)
		return;
	count = bpf_map_lookup_elem(&shares, &share);
	if (!count || *count <= 0)
		return;
	met_at_disk.sequence = submitter->sequence;
	__builtin_memcpy(&met_at_disk.rival, rival, sizeof(*rival));
	bpf_map_update_elem(&met_at_disks, &submitter->tid, &met_at_disk, BPF_ANY);
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(block__rival_issue, struct request *request)
{
	__u64 key = (__u64)BPF_CORE_READ(request, bio), of = (__u64)request;
	struct submitter *submitter = bpf_map_lookup_elem(&submitters, &key);
	struct queue new = {}, *queue;
	struct share share = {};

	/* One that is issued again is in flight already. */
	if (!submitter || bpf_map_lookup_elem(&flying, &of))
		return 0;
	share.queue = (__u64)BPF_CORE_READ(request, q);
	share.pid = submitter->who.pid;
	queue = bpf_map_lookup_elem(&queues, &share.queue);
	if (!queue) {
		bpf_map_update_elem(&queues, &share.queue, &new, BPF_NOEXIST);
		queue = bpf_map_lookup_elem(&queues, &share.queue);
		if (!queue)
			return 0;
	}
	if (submitter->tid)
		look_into_queue(queue, share.queue, submitter);
	if (queue->last.pid != submitter->who.pid) {
		__builtin_memcpy(&queue->other, &queue->last, sizeof(queue->other));
		__builtin_memcpy(&queue->last, &submitter->who, sizeof(queue->last));
	}
	bpf_map_update_elem(&flying, &of, &share, BPF_ANY);
	is_in_flight(&share, 1);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(block__rival_complete, struct request *request)
{
	__u64 of = (__u64)request;
	struct share *found = bpf_map_lookup_elem(&flying, &of), share;

	if (!found)
		return 0;
	share = *found;
	bpf_map_delete_elem(&flying, &of);
	is_in_flight(&share, -1);
	return 0;
}

/* The thread that the requests of a finished call met. */
static __always_inline void take_rival_at_disk(struct window *window, __u32 tid)
{
	struct met_at_disk *found = bpf_map_lookup_elem(&met_at_disks, &tid);

	if (found && found->sequence == window->sequence)
		__builtin_memcpy(&window->rivals.longest[RIVAL_DISK_RIVAL], &found->rival,
				 sizeof(found->rival));
}

#endif
