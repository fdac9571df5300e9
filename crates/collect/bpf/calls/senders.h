/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which sockets of TCP have bytes of somebody: for each whose which are. A socket's place in a table that is
 * there beforehand follows from its cookie, that no other ever has; one whose place another holds, or that can
 * have no cookie, is kept with the socket itself, which takes two allocations of the kernel's, the most of what
 * a connection of a few packets costs. It leaves its place with its socket.
 */
#ifndef WEIGH_CALLS_SENDERS_H
#define WEIGH_CALLS_SENDERS_H

#include "causes.h"

#define MAX_RANGES 16

/* Bytes of one cause, up to where the next one's begin. */
struct sent_range {
	struct cause cause;
	__u32 from;
	__u32 pends; /* not acknowledged */
};

/* Sending and receiving are often on two CPUs, and most sockets have one range: that is in the same line of the cache. */
struct sent {
	__u32 oldest, next; /* running numbers of ranges */
	__u32 acknowledged; /* all ranges before this one are, and pend no more */
	__u32 high; /* behind what was handed to the network */
	struct sent_range ranges[MAX_RANGES];
} __attribute__((aligned(64)));

/*
 * A cookie has a place in each layer, and sockets go into the first layer where theirs is free: as long as they
 * are few the same memory is used again and again. 3 MB.
 */
#define LAYER 256
#define MAX_LAYERS 16
#define MAX_SENDERS (LAYER * MAX_LAYERS)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins with a page */
	__uint(max_entries, MAX_SENDERS);
	__type(key, __u32);
	__type(value, struct sent);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sent);
} more_senders SEC(".maps");

/* Whose each place is; apart from the places, for most packets are of others. User space clears them, see attaching.rs. */
__u64 sender_cookies[MAX_SENDERS];
__u32 sender_layers; /* that were ever used */
bool has_more_senders;

/* 0: it has none yet. */
static __always_inline __u64 cookie_of(struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

/* Old verifiers do not see that the sum is within bounds, and the compiler does. */
static __always_inline __u32 place_in(__u32 layer, __u64 cookie)
{
	__u32 place = layer * LAYER + cookie % LAYER;

	barrier_var(place);
	return place % MAX_SENDERS;
}

/* The place of a cookie, if it has one, as the place's number + 1. */
static __always_inline __u32 place_of(__u64 cookie)
{
	__u32 place;

	if (!cookie)
		return 0;
	for (__u32 layer = 0; layer < MAX_LAYERS && layer < sender_layers; layer++) {
		place = place_in(layer, cookie);
		if (sender_cookies[place] == cookie)
			return place + 1;
	}
	return 0;
}

static __always_inline struct sent *sender_at(__u32 place)
{
	place--;
	return bpf_map_lookup_elem(&senders, &place);
}

/* What a socket has sent, if anybody's. */
static __always_inline struct sent *sent_by(struct sock *sk)
{
	__u32 place = place_of(cookie_of(sk));

	if (place)
		return sender_at(place);
	return has_more_senders ? bpf_sk_storage_get(&more_senders, sk, 0, 0) : 0;
}

/*
 * A free place for a cookie, as place_of() has it. The sender has the socket's lock: no other thread looks for it
 * meanwhile. Global: see pends().
 */
__noinline __u32 take_place(__u64 cookie)
{
	struct sent *sent;
	__u32 place;

#pragma clang loop unroll(disable)
	for (__u32 layer = 0; layer < MAX_LAYERS; layer++) {
		place = place_in(layer, cookie);
		if (layer >= sender_layers)
			sender_layers = layer + 1;
		if (__sync_val_compare_and_swap(&sender_cookies[place], 0, cookie))
			continue;
		sent = sender_at(place + 1);
		if (sent)
			sent->oldest = sent->next = sent->acknowledged = sent->high = 0;
		return place + 1;
	}
	return 0;
}

/* The same of one that sends; null only where the kernel has no memory. Not every pointer can be given a cookie. */
static __always_inline struct sent *sent_by_now(struct sock *sk, __u64 cookie)
{
	struct sent *sent = sent_by(sk);
	__u32 place;

	if (sent)
		return sent;
	place = cookie ? take_place(cookie) : 0;
	sent = place ? sender_at(place) : 0;
	if (sent)
		return sent;
	has_more_senders = true;
	return bpf_sk_storage_get(&more_senders, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Its ranges are over. */
static __always_inline void sends_no_more(struct sock *sk)
{
	__u32 place = place_of(cookie_of(sk));

	if (!place)
		return;
	place--;
	barrier_var(place);
	__sync_lock_test_and_set(&sender_cookies[place % MAX_SENDERS], 0);
}

#endif
