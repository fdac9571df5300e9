/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many requests a device has: those that were issued to it, and have not completed. Each is kept by itself, so that one
 * that is issued again counts once, and one whose completion was not told does no longer than until its memory is
 * used again. What was issued before anybody looked is not counted.
 */
#ifndef WEIGH_CALLS_IN_FLIGHT_H
#define WEIGH_CALLS_IN_FLIGHT_H

#include "account.h"

/* Grows when the programs are attached: what was in flight when they were let go of is not any more. */
__u32 flight_epoch = 1;

struct issued {
	__u64 queue;
	__u64 epoch;
};

/* By the request's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct issued);
} issued SEC(".maps");

struct device_queue {
	__u64 requests;
	__u64 epoch;
};

/* By the queue's address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct device_queue);
} device_queues SEC(".maps");

static __always_inline struct device_queue *queue_now(__u64 queue)
{
	struct device_queue *found = bpf_map_lookup_elem(&device_queues, &queue);
	struct device_queue new = { .epoch = flight_epoch };

	if (found && found->epoch == flight_epoch)
		return found;
	bpf_map_update_elem(&device_queues, &queue, &new, BPF_ANY);
	return bpf_map_lookup_elem(&device_queues, &queue);
}

/* The device gets it: how many it has now, this one included; 0 if that is not known. */
static __always_inline __u64 is_issued(struct request *request)
{
	struct issued new = { .queue = (__u64)BPF_CORE_READ(request, q), .epoch = flight_epoch }, *before;
	struct device_queue *queue = queue_now(new.queue);
	__u64 key = (__u64)request;

	if (!queue)
		return 0;
	before = bpf_map_lookup_elem(&issued, &key);
	if (before && before->epoch == flight_epoch)
		return queue->requests;
	if (bpf_map_update_elem(&issued, &key, &new, BPF_ANY))
		return 0;
	return add(&queue->requests, 1) + 1;
}

/* The device has it no more. */
static __always_inline void is_over(struct request *request)
{
	__u64 key = (__u64)request, of;
	struct issued *found = bpf_map_lookup_elem(&issued, &key);
	struct device_queue *queue;

	if (!found)
		return;
	of = found->epoch == flight_epoch ? found->queue : 0;
	bpf_map_delete_elem(&issued, &key);
	queue = of ? bpf_map_lookup_elem(&device_queues, &of) : 0;
	if (queue && queue->epoch == flight_epoch && queue->requests)
		add(&queue->requests, -1);
}

#endif
