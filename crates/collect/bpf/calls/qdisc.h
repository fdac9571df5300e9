/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queues before devices: packets that a call puts into one, how long they are in it, and those that
 * it throws away. A packet is taken out by the thread that has the device at that moment.
 */
#ifndef WEIGH_CALLS_QDISC_H
#define WEIGH_CALLS_QDISC_H

#include "causes.h"

#define MAX_TAKEN_AT_ONCE 64

struct queued {
	struct cause cause;
	__u64 since;
};

/*
 * Packets that are cut into others leave the queue untold, and their memory is used again: what is
 * oldest makes room.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64); /* a packet's address */
	__type(value, struct queued);
} queued SEC(".maps");

bool has_queued;

#define TCQ_F_CPUSTATS 0x20
#define BANDS 3

/* Of a ring that may be full. */
static __always_inline __u64 ring_length(struct ptr_ring *ring)
{
	__s32 producer = BPF_CORE_READ(ring, producer), consumer = BPF_CORE_READ(ring, consumer_head);
	__s32 length = producer - consumer, size = BPF_CORE_READ(ring, size);
	void **slots = BPF_CORE_READ(ring, queue), *next = 0;

	if (length)
		return length < 0 ? length + size : length;
	bpf_probe_read_kernel(&next, sizeof(next), slots + consumer);
	return next ? size : 0;
}

/* Packets in a queue. One that counts them on each CPU keeps them in rings: the kernel's default is the only one. */
static __always_inline __u64 queue_length(struct Qdisc *queue)
{
	__u64 rings = (__u64)queue + bpf_core_field_offset(struct Qdisc, privdata), length = 0;
	const char known[] = "pfifo_fast";
	char name[16] = {};

	if (!(BPF_CORE_READ(queue, flags) & TCQ_F_CPUSTATS))
		return BPF_CORE_READ(queue, q.qlen);
	if (!bpf_core_type_exists(struct pfifo_fast_priv))
		return 0;
	BPF_CORE_READ_INTO(&name, queue, ops, id);
#pragma unroll
	for (int i = 0; i < sizeof(known); i++)
		if (name[i] != known[i])
			return 0;
#pragma unroll
	for (int i = 0; i < BANDS; i++)
		length += ring_length((void *)rings + i * bpf_core_type_size(struct skb_array));
	return length;
}

SEC("?tp_btf/qdisc_enqueue")
int BPF_PROG(qdisc__enqueue, struct Qdisc *queue, void *of_device, struct sk_buff *packet)
{
	__u64 key = (__u64)packet, length;
	struct queued new = {};
	struct open open;

	if (!mine(&open, WEIGH_QDISC)) {
		/* The owner of an earlier packet at this address must not be charged for this one. */
		if (has_queued)
			bpf_map_delete_elem(&queued, &key);
		return 0;
	}
	add(&open.account->parts[WEIGH_QDISC].entries, 1);
	add(&open.account->qdisc.packets, 1);
	length = queue_length(queue);
	add(&open.account->qdisc.in_queue, length);
	raise_to(&open.account->qdisc.in_queue_most, length);
	name_cause(&new.cause, &open);
	new.since = bpf_ktime_get_ns();
	bpf_map_update_elem(&queued, &key, &new, BPF_ANY);
	has_queued = true;
	return 0;
}

struct taking {
	struct sk_buff *packet;
	__u64 now;
	struct cause own; /* whose context it is, if anybody's */
	struct weigh_account *account;
};

static __always_inline void whose_context(struct taking *taking)
{
	struct open open;

	if (!mine(&open, WEIGH_QDISC))
		return;
	name_cause(&taking->own, &open);
	taking->account = open.account;
}

static long take_packet(__u32 number, struct taking *taking)
{
	struct sk_buff *packet = taking->packet;
	struct weigh_later *later;
	__u64 key = (__u64)packet;
	struct queued *found;
	__u64 time;

	if (!packet)
		return 1;
	taking->packet = BPF_CORE_READ(packet, next);
	found = bpf_map_lookup_elem(&queued, &key);
	if (!found)
		return 0;
	time = taking->now - found->since;
	if (taking->account && same_call(&found->cause, &taking->own)) {
		add(&taking->account->qdisc.queue_ns, time);
	} else {
		later = later_of(&found->cause);
		if (later) {
			add(&later->qdisc_packets, 1);
			add(&later->qdisc_ns, time);
		}
		tell_later(&found->cause, qdisc_packets, 1, time);
	}
	bpf_map_delete_elem(&queued, &key);
	return 0;
}

/* One packet or, where the device takes several at once, a chain of them. */
SEC("?tp_btf/qdisc_dequeue")
int BPF_PROG(qdisc__dequeue, void *queue, void *of_device, int packets, struct sk_buff *packet)
{
	struct taking taking = {};

	if (!has_queued || !packet)
		return 0;
	taking.packet = packet;
	taking.now = bpf_ktime_get_ns();
	whose_context(&taking);
	bpf_loop(MAX_TAKEN_AT_ONCE, take_packet, &taking, 0);
	return 0;
}

#define IS_REASON(reason, name)                                                                    \
	(bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_##name) &&               \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_##name))

/* Queues say more precisely why since 6.14. */
static __always_inline bool is_of_queue(int reason)
{
	return IS_REASON(reason, QDISC_DROP) || IS_REASON(reason, QDISC_OVERLIMIT) ||
	       IS_REASON(reason, QDISC_CONGESTED) || IS_REASON(reason, CAKE_FLOOD) ||
	       IS_REASON(reason, FQ_BAND_LIMIT) || IS_REASON(reason, FQ_HORIZON_LIMIT) ||
	       IS_REASON(reason, FQ_FLOW_LIMIT);
}

/* A queue that has no room does not say that it has taken the packet before it throws it away. */
SEC("?tp_btf/kfree_skb")
int BPF_PROG(qdisc__drop, struct sk_buff *packet, void *where, int reason)
{
	struct taking taking = {};
	__u64 key = (__u64)packet;
	struct weigh_later *later;
	struct queued *found;

	if (!is_of_queue(reason))
		return 0;
	whose_context(&taking);
	found = bpf_map_lookup_elem(&queued, &key);
	if (!found || (taking.account && same_call(&found->cause, &taking.own))) {
		if (taking.account)
			add(&taking.account->qdisc.dropped, 1);
	} else {
		later = later_of(&found->cause);
		if (later)
			add(&later->qdisc_dropped, 1);
		tell_later(&found->cause, qdisc_dropped, 1);
	}
	if (found)
		bpf_map_delete_elem(&queued, &key);
	return 0;
}

#endif
