/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Time in softirqs on behalf of a connection: from where a packet is known to be its own up to the next packet,
 * or to the end.
 *
 * Most softirqs bring one packet. Whether others came behind it the kernel's own count of packets says, so
 * that no program has to look at each; once some did, one does. Until then time goes by packets.
 */
#ifndef WEIGH_CALLS_SERVING_H
#define WEIGH_CALLS_SERVING_H

#include "causes.h"
#include "irq.h"
#include "standby.h"
#include "../follow.h"

#define NET_TX_SOFTIRQ 2
#define NET_RX_SOFTIRQ 3

struct serving {
	__u64 since;
	__u32 inside; /* such a softirq; else the owner of the socket looks at a packet, in its own time */
	__u32 known; /* the time since then is the cause's */
	__u32 packets; /* the kernel's count then */
	__u32 tried; /* see serve__backlog */
	__u64 counter; /* the CPU's softnet_data, which has the count; 0: not found */
	__u64 candidate;
	struct cause cause;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct serving);
} servings SEC(".maps");

static __always_inline struct serving *serving_here(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&servings, &key);
}

static __always_inline __u32 packets_of(__u64 counter)
{
	struct softnet_data *data = (void *)counter;

	return CAN_FOLLOW ? FOLLOW(softnet_data, data)->processed : BPF_CORE_READ(data, processed);
}

/*
 * Where each CPU counts packets: what is polled without a device is the queue in the same structure. Attached
 * for two packets only, which user space sends on each CPU; between them the count must have grown.
 */
SEC("?tp_btf/napi_poll")
int BPF_PROG(serve__backlog, struct napi_struct *napi)
{
	struct serving *serving = serving_here();
	__u64 found = (__u64)napi - bpf_core_field_offset(struct softnet_data, backlog);
	__u32 packets;

	if (!serving || BPF_CORE_READ(napi, dev))
		return 0;
	packets = packets_of(found);
	if (serving->candidate == found && packets != serving->tried)
		serving->counter = found;
	serving->candidate = found;
	serving->tried = packets;
	return 0;
}

/* How much of this time is one packet's: all, if no other came behind it. */
static __always_inline __u64 of_one_packet(struct serving *serving, __u64 time, bool next_came)
{
	__u32 packets;

	if (standby.arrivals_seen)
		return time;
	packets = next_came;
	if (serving->counter)
		packets = packets_of(serving->counter) - serving->packets;
	if (packets || !serving->counter)
		came_together();
	/* The one that has just come has taken nothing yet. */
	packets += !next_came;
	return packets > 1 ? time / packets : time;
}

/* From now on a softirq does the work of this cause, or nobody's; because of the next packet, or at its end. */
static __always_inline void serve(struct serving *serving, struct cause *cause, bool next_came, __u64 *now)
{
	struct weigh_later *later;
	__u64 time;

	if (!serving->known && !cause)
		return;
	read_once(now);
	if (serving->known && *now > serving->since) {
		time = of_one_packet(serving, *now - serving->since, next_came);
		each_later(later, &serving->cause)
			add(&later->softirq_ns, time);
		tell_later(&serving->cause, softirq_ns, time);
	}
	serving->since = *now;
	serving->known = cause != 0;
	if (!cause)
		return;
	serving->cause = *cause;
	if (serving->counter && !standby.arrivals_seen)
		serving->packets = packets_of(serving->counter);
}

SEC("?tp_btf/netif_receive_skb")
int BPF_PROG(tcp__arrival_next_packet)
{
	struct serving *serving = serving_here();
	__u64 now = 0;

	if (serving)
		serve(serving, 0, false, &now);
	return 0;
}

static __always_inline bool serves_packets(unsigned int softirq)
{
	return ASKED_FOR(WEIGH_TCP) && (softirq == NET_RX_SOFTIRQ || softirq == NET_TX_SOFTIRQ);
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(irq_and_tcp__softirq_entry, unsigned int number)
{
	struct serving *serving;
	__u64 now = 0;

	if (serves_packets(number) && (serving = serving_here())) {
		serving->inside = true;
		serving->known = false;
	}
	interrupt(true, true, &now);
	return 0;
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(irq_and_tcp__softirq_exit, unsigned int number)
{
	struct serving *serving;
	__u64 now = 0;

	if (serves_packets(number) && (serving = serving_here())) {
		serve(serving, 0, false, &now);
		serving->inside = false;
	}
	interrupt(false, true, &now);
	return 0;
}

#endif
