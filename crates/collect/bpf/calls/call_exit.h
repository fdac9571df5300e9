/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The end of a call: its account goes to its cell, and, if it is to be told, to user space. Both in
 * one walk over its numbers, of which most are 0.
 */
#ifndef WEIGH_CALLS_TELLING_H
#define WEIGH_CALLS_TELLING_H

#include "causes.h"
#include "queue.h"

/* A call is sent as an event if it took at least so long; user space raises it as it learns. */
__u64 told_from_ns = -1;

#define NUMBERS (sizeof(struct weigh_account) / sizeof(__u64))
#define FIRST_PART (__builtin_offsetof(struct weigh_account, parts) / sizeof(__u64))
#define FIRST_SUM (__builtin_offsetof(struct weigh_account, calls) / sizeof(__u64))
#define SENT_MOST (GIVEN_WORDS + CALL_NUMBERS)

/*
 * Brings the state at this place of one account into another's, which is not looked at if there is none. The latest was
 * seen if the sum that says so is not 0. The place is a constant.
 */
#define MERGE_STATE(target, source, place)                                                         \
	({                                                                                         \
		if (WEIGH_IS_GREATEST(place) ?                                                     \
			    (source)[place] && (source)[place] > (target)[place] :                 \
			    (source)[WEIGH_LATEST_SEEN(place)] != 0)                               \
			(target)[place] = (source)[place];                                         \
	})

/* What a call is part of, by its program's own word. */
struct interval {
	__u64 number, token;
};

/*
 * Puts a number of struct call_record behind the others. How many there are is kept in memory: a verifier
 * that knew it would look at each number of them by itself. Global: it looks at it once, not for each number.
 */
__noinline int give(struct window *window, __u32 place, __u64 number)
{
	__u32 word = place / 64, length;

	if (!window || !number || word >= GIVEN_WORDS)
		return 0;
	length = *(volatile __u32 *)&window->length;
	if (length >= SENT_MOST)
		return 0;
	window->telling.given[word] |= 1ULL << (place % 64);
	((volatile __u64 *)&window->telling)[length] = number;
	*(volatile __u32 *)&window->length = length + 1;
	return 0;
}

static __always_inline void give_rivals(struct window *window, struct task_struct *task)
{
	take_rival_at_disk(window, task->pid);
#pragma unroll
	for (int kind = 0; kind < RIVAL_KINDS; kind++) {
		struct rival *rival = &window->rivals.longest[kind];
		__u64 *numbers = (__u64 *)rival;

		if (!rival->pid)
			continue;
#pragma unroll
		for (int i = 0; i < sizeof(*rival) / sizeof(__u64); i++)
			give(window, NUMBER_OF(rivals) + kind * (sizeof(*rival) / sizeof(__u64)) + i,
			     numbers[i]);
	}
}

/* All but the account. */
static __always_inline void begin_to_tell(struct window *window, struct task_struct *task,
					  long result, const struct interval *interval)
{
	__builtin_memset(window->telling.given, 0, sizeof(window->telling.given));
	window->length = GIVEN_WORDS;
	give(window, NUMBER_OF(pid), task->tgid | (__u64)task->pid << 32);
	give(window, NUMBER_OF(sequence), window->sequence);
	give(window, NUMBER_OF(number), window->number);
	give(window, NUMBER_OF(result), result);
	give(window, NUMBER_OF(began), window->began);
	give(window, NUMBER_OF(ended), window->last);
	give(window, NUMBER_OF(of[0]), window->of[0]);
	give(window, NUMBER_OF(of[1]), window->of[1]);
	give(window, NUMBER_OF(interval), interval->number);
	give(window, NUMBER_OF(token), interval->token);
	if (names_rivals)
		give_rivals(window, task);
}

/* Those that most calls have are looked at one by one, the others in groups, of which most are 0. */
#define HEAD 16
#define GROUP 8
#define IS_STATE(place) (WEIGH_IS_GREATEST(place) || WEIGH_LATEST_SEEN(place))

/* Whether any of a group is not 0. Its first number is a constant. */
static __always_inline bool any_of_group(const __u64 *numbers, __u32 first)
{
	__u64 any = 0;

	barrier_var(numbers); /* or the compiler keeps numbers of other groups, and addresses, on the stack */
#pragma clang loop unroll(full)
	for (int i = 0; i < GROUP; i++)
		if (first + i < NUMBERS)
			any |= numbers[first + i];
	return any;
}

/*
 * Moves a number; states have been added. Whether it is told is kept in memory, as above: by the length, which is 0 if not.
 * They are told in their order.
 */
static __always_inline void move_number(struct window *window, __u64 *target, __u32 place)
{
	__u64 *source = (__u64 *)&window->account, number = source[place];

	if (!number)
		return;
	source[place] = 0;
	if (target) {
		target += place;
		barrier_var(target); /* before: old verifiers forget the place's bound where it is compared */
		if (place >= FIRST_SUM && !IS_STATE(place))
			add(target, number);
	}
	if (*(volatile __u32 *)&window->length)
		give(window, TOLD_HEAD + place, number);
}

/* Global, as above. */
__noinline int move_group(struct window *window, struct weigh_account *to, __u32 first)
{
	__u32 place;

	if (!window)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < GROUP; i++) {
		place = first + i;
		barrier_var(place); /* or the verifier sees the bound of another number */
		if (place >= NUMBERS)
			return 0;
		move_number(window, (__u64 *)to, place);
	}
	return 0;
}

/* Adds a group of sums to another account, and leaves them. */
__noinline int add_group(struct window *window, struct weigh_account *to, __u32 first)
{
	__u64 *sum, number;
	__u32 place;

	if (!window || !to)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < GROUP; i++) {
		place = first + i;
		barrier_var(place); /* or the verifier sees the bound of another number */
		if (place >= NUMBERS)
			return 0;
		number = ((__u64 *)&window->account)[place];
		sum = (__u64 *)to + place;
		barrier_var(sum); /* see move_number() */
		if (number && !IS_STATE(place))
			add(sum, number);
	}
	return 0;
}

/* All numbers of a call. */
__noinline int move_numbers(struct window *window, struct weigh_account *to)
{
	if (!window)
		return 0;
#pragma clang loop unroll(full)
	for (int place = 0; place < HEAD; place++)
		move_number(window, (__u64 *)to, place);
#pragma clang loop unroll(full)
	for (int first = HEAD; first < NUMBERS; first += GROUP)
		if (any_of_group((__u64 *)&window->account, first))
			move_group(window, to, first);
	return 0;
}

__noinline int add_sums(struct window *window, struct weigh_account *to)
{
	if (!window)
		return 0;
#pragma clang loop unroll(full)
	for (int first = FIRST_PART; first < NUMBERS; first += GROUP)
		if (any_of_group((__u64 *)&window->account, first))
			add_group(window, to, first);
	return 0;
}

/* Adds a call's account to its cell's, and leaves zeros: states first, for a sum says whether they were seen. */
static __always_inline void move_account(struct weigh_account *to, struct window *window)
{
	__u64 *source = (__u64 *)&window->account, *target = (__u64 *)to;
	__u64 touched = window->account.touched;

	if (to && touched & ~to->touched)
		__sync_fetch_and_or(&to->touched, touched);
	if (to && window->account.unmeasured & ~to->unmeasured)
		__sync_fetch_and_or(&to->unmeasured, window->account.unmeasured);
#pragma clang loop unroll(full)
	for (int i = 0; target && i < NUMBERS; i++)
		if (IS_STATE(i))
			MERGE_STATE(target, source, i);
	move_numbers(window, to);
}

static __always_inline void tell(struct window *window)
{
	__u64 length = *(volatile __u32 *)&window->length, bytes, past_head;

	if (length > SENT_MOST)
		return;
	bytes = length * sizeof(__u64);
	/* Each has a header of 8 bytes. */
	if (bpf_ringbuf_output(&told_calls, &window->telling, bytes, waking(bytes + 8)))
		add(&tally.untold, 1);
	past_head = bytes - sizeof(window->telling);
	barrier_var(past_head); /* or the verifier sees the bounds of another number */
	/* What lies in the account is to be zeros: they are made where there is nothing to read. */
	if (bytes > sizeof(window->telling) && past_head <= sizeof(window->account))
		bpf_probe_read_kernel(&window->account, past_head, 0);
}

#endif
