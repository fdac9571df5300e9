/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What would be a branch, as numbers: the verifier follows each way behind a branch. The compiler makes one of a mask again
 * unless it knows neither what the mask is made of nor what it is. Each takes stack where many are alive.
 */
#ifndef WEIGH_MASKS_H
#define WEIGH_MASKS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* 1 or 0. */
static __always_inline __u64 is_any(__u64 number)
{
	number |= -number;
	barrier_var(number);
	number >>= 63;
	barrier_var(number);
	return number;
}

/* All ones or 0. Both are below 2^63. */
static __always_inline __u64 is_below(__u64 one, __u64 other)
{
	__s64 mask = one - other;

	barrier_var(mask);
	mask >>= 63;
	barrier_var(mask);
	return mask;
}

#endif
