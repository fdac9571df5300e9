/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * UDP: what of the sockets' payload is its, and datagrams that found no room in a socket. Those are
 * charged to who read from it last: it did not read fast enough.
 */
#ifndef WEIGH_CALLS_UDP_H
#define WEIGH_CALLS_UDP_H

#include "causes.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cause);
} readers SEC(".maps");

static __always_inline void udp_sent(struct open *open, __s64 bytes)
{
	if (!asks(open, WEIGH_UDP))
		return;
	add(&open->account->parts[WEIGH_UDP].entries, 1);
	add(&open->account->udp.datagrams, 1);
	add(&open->account->udp.sent_bytes, bytes);
}

static __always_inline void udp_received(struct open *open, struct sock *sk, __s64 result, bool looked)
{
	struct cause *reader;

	if (!asks(open, WEIGH_UDP))
		return;
	reader = bpf_sk_storage_get(&readers, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (reader)
		name_cause(reader, open);
	else
		count_lost();
	if (result < 0 || looked)
		return;
	add(&open->account->parts[WEIGH_UDP].entries, 1);
	add(&open->account->udp.receipts, 1);
	add(&open->account->udp.received_bytes, result);
}

SEC("?tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(udp__no_room, int error, struct sock *sk)
{
	struct cause *reader = bpf_sk_storage_get(&readers, sk, 0, 0);
	struct weigh_later *later;

	if (!reader)
		return 0;
	later = later_of(reader);
	if (later)
		add(&later->udp_dropped, 1);
	tell_later(reader, udp_dropped, 1);
	return 0;
}

#endif
