/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The time between two moments of one thread: by the processor's counter where the kernel's own clock
 * goes by it, which weigh finds out, and by that clock elsewhere. The counter takes half the time.
 */
#ifndef WEIGH_CALLS_TICKS_H
#define WEIGH_CALLS_TICKS_H

#include "../src/internal.h"

/* The scale is that of weigh: nanoseconds for each 2^32 ticks; 0: ticks are nanoseconds. */
static inline uint64_t ticks_now(uint64_t scale)
{
#if defined(__x86_64__)
	if (__builtin_expect(scale != 0, 1))
		return __builtin_ia32_rdtsc();
#else
	(void)scale;
#endif
	return clock_now();
}

static inline uint64_t nanoseconds_since(uint64_t began, uint64_t scale)
{
	int64_t passed = (int64_t)(ticks_now(scale) - began);

	if (passed < 0)
		return 0;
	return scale ? (uint64_t)((unsigned __int128)passed * scale >> 32) : (uint64_t)passed;
}

#endif
