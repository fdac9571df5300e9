/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which sockets of TCP have bytes of somebody: for each whose which are. They are found by the socket's
 * cookie, that no other ever has, in a table that is there beforehand; what finds no room in it is kept with
 * the socket itself, which takes two allocations of the kernel's, the most of what a connection of a few
 * packets costs. It leaves the table with its socket.
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

struct sent {
	__u32 oldest, next; /* running numbers of ranges */
	__u32 acknowledged; /* all ranges before this one are, and pend no more */
	__u32 high; /* behind what was handed to the network */
	struct sent_range ranges[MAX_RANGES];
};

/* 4 MB. */
#define MAX_SENDERS 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SENDERS);
	__type(key, __u64); /* cookie */
	__type(value, struct sent);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sent);
} more_senders SEC(".maps");

const volatile __u8 new_sender[sizeof(struct sent)];
/* Sockets in the table, by the end of their cookies: most packets are of others. */
#define COOKIE_ENDS 8192
__u32 known_cookies[COOKIE_ENDS];
bool has_more_senders;

static __always_inline __u32 *known_by(__u64 cookie)
{
	return &known_cookies[cookie % COOKIE_ENDS];
}

/* 0: it has none yet. */
static __always_inline __u64 cookie_of(struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

/* What a socket has sent, if anybody's. */
static __always_inline struct sent *sent_by(struct sock *sk)
{
	__u64 cookie = cookie_of(sk);
	struct sent *sent;

	if (*known_by(cookie)) {
		sent = bpf_map_lookup_elem(&senders, &cookie);
		if (sent)
			return sent;
	}
	return has_more_senders ? bpf_sk_storage_get(&more_senders, sk, 0, 0) : 0;
}

/* The same of one that sends; null only where the kernel has no memory. Not every pointer can be given a cookie. */
static __always_inline struct sent *sent_by_now(struct sock *sk, __u64 cookie)
{
	struct sent *sent = sent_by(sk);

	if (sent)
		return sent;
	if (cookie && !bpf_map_update_elem(&senders, &cookie, (void *)new_sender, BPF_NOEXIST)) {
		add(known_by(cookie), 1);
		return bpf_map_lookup_elem(&senders, &cookie);
	}
	has_more_senders = true;
	return bpf_sk_storage_get(&more_senders, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline void sends_no_more(struct sock *sk)
{
	__u64 cookie = cookie_of(sk);

	if (*known_by(cookie) && !bpf_map_delete_elem(&senders, &cookie))
		add(known_by(cookie), -1);
}

#endif
