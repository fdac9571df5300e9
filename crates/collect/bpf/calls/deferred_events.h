/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What comes later of a single call. Where every call is told, each bit of it is told as it comes, with the
 * call's number, and user space adds up: nothing has to be kept here for a call that has returned.
 */
#ifndef WEIGH_CALLS_DEFERRED_EVENTS_H
#define WEIGH_CALLS_DEFERRED_EVENTS_H

#include "cells.h"

const volatile bool tells_later;
const volatile __u64 told_mark = 1 << 20; /* wake the reader when this much is waiting */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20); /* unless user space wants more */
} told_calls SEC(".maps");

/* Wake the reader when the mark is crossed, and at some steps past it, not at each call. */
static __always_inline __u64 waking(__u64 length)
{
	__u64 before = bpf_ringbuf_query(&told_calls, BPF_RB_AVAIL_DATA), after = before + length;
	__u64 step = told_mark / 8;

	return after >= told_mark && before / step != after / step ? BPF_RB_FORCE_WAKEUP :
								     BPF_RB_NO_WAKEUP;
}

/*
 * So many numbers of a call's struct weigh_later, one after the other, have grown by these. A record of
 * struct call_record, as a call is, but one that has not ended. All but the numbers are constants.
 */
static __always_inline void tell_growth(__u64 sequence, __u32 first, const __u64 *numbers, __u32 count)
{
	__u64 bytes = (GIVEN_WORDS + 1 + count) * sizeof(__u64), flags, *record;

	flags = waking(bytes + 8);
	record = bpf_ringbuf_reserve(&told_calls, bytes, 0);
	if (!record) {
		add(&tally.untold_later, 1);
		return;
	}
#pragma unroll
	for (int word = 0; word < GIVEN_WORDS; word++)
		record[word] = word == NUMBER_OF(sequence) / 64 ? 1ULL << NUMBER_OF(sequence) % 64 : 0;
	record[GIVEN_WORDS] = sequence;
#pragma unroll
	for (int i = 0; i < count; i++) {
		record[(first + i) / 64] |= 1ULL << (first + i) % 64;
		record[GIVEN_WORDS + 1 + i] = numbers[i];
	}
	bpf_ringbuf_submit(record, flags);
}

/* From this number of struct weigh_later on, as many as are given. What stores do is of no call. */
#define tell_later(cause, field, ...)                                                              \
	({                                                                                         \
		const __u64 grown_[] = { __VA_ARGS__ };                                            \
		if (tells_later && (cause)->cell && (cause)->sequence)                             \
			tell_growth((cause)->sequence, NUMBER_OF(account.later.field), grown_,     \
				    sizeof(grown_) / sizeof(grown_[0]));                           \
	})

#endif
