/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Timers, whose time is charged to who started them. A timer leaves the table when it is cancelled,
 * runs, or is started again. Some kernels tell of a cancellation also when one is about to run: so
 * what was cancelled last on a CPU is remembered.
 */
#ifndef WEIGH_CALLS_TIMERS_H
#define WEIGH_CALLS_TIMERS_H

#include "causes.h"

/* Those of the two kinds may run on top of each other. */
enum timer_kind {
	COARSE,
	PRECISE,
	TIMER_KINDS,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64); /* a timer's address */
	__type(value, struct cause);
} timers SEC(".maps");

/* The timer of a CPU that left the queue last, and since when it runs; 0: it does not. */
struct expiring {
	__u64 timer;
	__u64 began;
	struct cause cause;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TIMER_KINDS);
	__type(key, __u32);
	__type(value, struct expiring);
} expirings SEC(".maps");

__u64 live_timers;

static __always_inline struct expiring *expiring_of(enum timer_kind kind)
{
	__u32 key = kind;

	return bpf_map_lookup_elem(&expirings, &key);
}

/* Who started the timer that runs on this CPU, if one does. */
static __always_inline struct cause *starter_now(void)
{
	struct expiring *expiring = expiring_of(COARSE);

	if (expiring && expiring->began)
		return &expiring->cause;
	expiring = expiring_of(PRECISE);
	return expiring && expiring->began ? &expiring->cause : 0;
}

static __always_inline bool take_timer(struct cause *cause, __u64 key)
{
	struct cause *known;

	if (!live_timers)
		return false;
	known = bpf_map_lookup_elem(&timers, &key);
	if (!known)
		return false;
	*cause = *known;
	if (bpf_map_delete_elem(&timers, &key))
		return false;
	add(&live_timers, -1);
	pends(cause, -1);
	return true;
}

static __always_inline int timer_started(__u64 key)
{
	struct cause cause;
	struct open open;

	take_timer(&cause, key);
	if (!mine(&open, WEIGH_TIMER))
		return 0;
	add(&open.account->timer.started, 1);
	name_cause(&cause, &open);
	if (bpf_map_update_elem(&timers, &key, &cause, BPF_ANY)) {
		not_kept(&cause);
		return 0;
	}
	add(&live_timers, 1);
	pends(&cause, 1);
	return 0;
}

/* A timer that its own function has set again, as the tick does, is nobody's start: the interrupt of
 * timers is none that `mine` knows of. */
static __always_inline int precise_started(struct hrtimer *timer)
{
	if (BPF_CORE_READ(timer, base, running) == timer)
		return 0;
	return timer_started((__u64)timer);
}

static __always_inline int timer_left(__u64 key, enum timer_kind kind)
{
	struct expiring *expiring = expiring_of(kind);
	struct cause cause;

	/* One that runs may cancel others. */
	if (take_timer(&cause, key) && expiring && !expiring->began) {
		expiring->timer = key;
		expiring->cause = cause;
	}
	return 0;
}

static __always_inline int timer_begins(__u64 key, enum timer_kind kind)
{
	struct expiring *expiring = expiring_of(kind);
	struct cause cause;

	if (!expiring)
		return 0;
	if (take_timer(&cause, key)) {
		expiring->timer = key;
		expiring->cause = cause;
	}
	expiring->began = expiring->timer == key ? bpf_ktime_get_ns() : 0;
	return 0;
}

static __always_inline int timer_ends(__u64 key, enum timer_kind kind)
{
	struct expiring *expiring = expiring_of(kind);
	struct weigh_later *later;
	__u64 ran;

	if (!expiring || expiring->timer != key || !expiring->began)
		return 0;
	ran = bpf_ktime_get_ns() - expiring->began;
	each_later(later, &expiring->cause) {
		add(&later->timers, 1);
		add(&later->timer_ns, ran);
	}
	tell_later(&expiring->cause, timers, 1, ran);
	expiring->timer = 0;
	expiring->began = 0;
	return 0;
}

#define TIMER_EVENT(name, tracepoint, action)                                                      \
	SEC("?tp_btf/" tracepoint)                                                                 \
	int BPF_PROG(timer__##name, void *timer)                                                   \
	{                                                                                          \
		__u64 key = (__u64)timer;                                                          \
		return action;                                                                     \
	}

TIMER_EVENT(start, "timer_start", timer_started(key))
TIMER_EVENT(cancel, "timer_cancel", timer_left(key, COARSE))
TIMER_EVENT(begin, "timer_expire_entry", timer_begins(key, COARSE))
TIMER_EVENT(end, "timer_expire_exit", timer_ends(key, COARSE))
TIMER_EVENT(start_precise, "hrtimer_start", precise_started(timer))
TIMER_EVENT(cancel_precise, "hrtimer_cancel", timer_left(key, PRECISE))
TIMER_EVENT(begin_precise, "hrtimer_expire_entry", timer_begins(key, PRECISE))
TIMER_EVENT(end_precise, "hrtimer_expire_exit", timer_ends(key, PRECISE))

#endif
