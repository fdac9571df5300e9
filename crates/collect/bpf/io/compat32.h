/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls of 32-bit programs, and by their numbers (`int $0x80`), as this machine's own programs would make them: so
 * they are described, and counted, by the same programs. What differs still is how long words are in memory.
 */
#ifndef WEIGH_IO_SHORT_H
#define WEIGH_IO_SHORT_H

#include "maps.h"
#include "kinds.h"

#define MAX_BEHIND 32 /* more numbers of calls than socketcall(2) has */

/* What differs in a call's arguments. */
enum io_shape {
	SHAPE_OWN, /* It is no such call. */
	SHAPE_SAME, /* Nothing that matters here. */
	SHAPE_HALVES, /* The fourth one is an offset's lower half, the fifth one its upper half. */
	SHAPE_SHORT_OFFSET, /* The variable that an offset is taken from has 4 bytes. */
	SHAPE_IN_MEMORY, /* All lie in memory, where the first one points to. */
	SHAPE_MULTIPLEXED, /* The first one says which call it is, the second one where its arguments lie. */
};

struct io_short_call {
	__u16 number; /* of this machine's own call */
	__u8 call;
	__u8 shape;
};

struct io_call_behind {
	__u16 number;
	__u8 call;
	__u8 arguments;
};

/* By their numbers, and by those of socketcall(2). From collect/src/io/calls/short.rs, as a tracer has them. */
const volatile struct io_short_call short_calls[MAX_CALL_NUMBER];
const volatile struct io_call_behind calls_behind[MAX_BEHIND];
const volatile enum io_shape shape_layout;

static __always_inline __u64 widened(struct io_window *window, __u32 number)
{
	__u64 argument = window->arguments[number - 1];

	/* Or the compiler reads from either place by one instruction, which the verifier does not take. */
	barrier_var(argument);
	return argument;
}

/* An argument of the call that the thread is in. */
#define ARGUMENT(number, window, regs) \
	((window)->shape ? widened(window, number) : ARGUMENT_##number(regs))

static __always_inline __u32 word_bytes(struct io_window *window)
{
	return window->shape ? sizeof(__u32) : sizeof(__u64);
}

static __always_inline long read_word(__u64 *word, __u64 address, __u32 bytes)
{
	*word = 0;
	return bpf_probe_read_user(word, bytes == sizeof(__u32) ? sizeof(__u32) : sizeof(*word),
				   (void *)address);
}

/* A program that is not one of 32 bits may have anything above. */
static __always_inline void take_arguments(struct io_window *window, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs___io *more = (void *)regs;

	window->arguments[0] = (__u32)BPF_CORE_READ(more, bx);
	window->arguments[1] = (__u32)regs->cx;
	window->arguments[2] = (__u32)regs->dx;
	window->arguments[3] = (__u32)regs->si;
	window->arguments[4] = (__u32)regs->di;
	window->arguments[5] = (__u32)BPF_CORE_READ(more, bp);
#endif
}

/* One of those that socketcall(2) stands for. */
static __always_inline __u32 widen_behind(struct io_window *window)
{
	__u32 number = window->arguments[0];

	if (number >= MAX_BEHIND)
		return CALL_NONE;
	window->arguments[0] = window->arguments[1];
	window->in_memory = calls_behind[number].arguments;
	window->number = calls_behind[number].number;
	return calls_behind[number].call;
}

/* What the call does that begins. Its arguments are in the window, or will be when it ends. */
static __noinline __u32 widen(struct io_window *window, struct pt_regs *regs, __u32 number)
{
	if (number >= MAX_CALL_NUMBER)
		return CALL_NONE;
	take_arguments(window, regs);
	window->shape = short_calls[number].shape;
	window->number = short_calls[number].number;
	if (window->shape == SHAPE_MULTIPLEXED)
		return widen_behind(window);
	if (window->shape == SHAPE_IN_MEMORY)
		window->in_memory = 6;
	if (window->shape == SHAPE_HALVES) {
		window->arguments[3] |= window->arguments[4] << 32;
		window->arguments[4] = window->arguments[5];
	}
	return short_calls[number].call;
}

static __always_inline bool are_in_memory(struct io_window *window)
{
	return window->shape >= SHAPE_IN_MEMORY;
}

/* Where the call ends, for the kernel has read them then: before, they may lie in a page that is not there. */
static __noinline int fetch_arguments(struct io_window *window)
{
	__u32 words[6] = {}, bytes = window->in_memory * sizeof(words[0]);

	barrier_var(bytes);
	if (bytes > sizeof(words) ||
	    bpf_probe_read_user(words, bytes, (void *)window->arguments[0]))
		return false;
#pragma unroll
	for (int i = 0; i < 6; i++)
		window->arguments[i] = words[i];
	window->descriptor = words[0];
	return true;
}

#endif
