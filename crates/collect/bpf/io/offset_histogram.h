/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where in a file bytes were read and written, in a fixed number of places of equal width. What lies
 * beyond the last place makes all of them wider. Under the lock of the file's use, so nothing is called
 * there; and nearly without branches, as in access_rules.h.
 */
#ifndef WEIGH_IO_OFFSET_HISTOGRAM_H
#define WEIGH_IO_OFFSET_HISTOGRAM_H

#include "maps.h"
#include "access_rules.h"
#include "../masks.h"
#include "../page_entries.h"

/* Bytes by where in the file they lie: each place is as wide as it must be for all to reach its end. */
struct io_places {
	__u64 shift;
	__u64 bytes[2][IO_PLACES];
};

/* How many bits a number has up to its highest one. */
static __always_inline __u64 bits_of(__u64 number)
{
	__u64 bits = 0, here;

#pragma unroll
	for (int step = 32; step; step /= 2) {
		here = is_any(number >> step) * step;
		number >>= here & 63;
		bits += here;
	}
	return bits + number;
}

static __always_inline void widen_places(struct io_places *places, __u64 by)
{
	__u64 bytes;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < IO_PLACES; i++) {
		__u64 to = i >> (by & 31);

		barrier_var(to); /* or the compiler knows its bound, and the verifier does not */
		to &= IO_PLACES - 1;
		bytes = places->bytes[0][i];
		places->bytes[0][i] = 0;
		places->bytes[0][to] += bytes;
		bytes = places->bytes[1][i];
		places->bytes[1][i] = 0;
		places->bytes[1][to] += bytes;
	}
}

/* An access that lies in one place, as nearly all do. False if it does not. */
static __always_inline bool add_place(struct io_places *places, struct io_doing *did)
{
	__u64 shift = places->shift & 63, first = did->from >> shift;

	if (!did->bytes)
		return true;
	if (!shift || first >= IO_PLACES || (did->from + did->bytes - 1) >> shift != first)
		return false;
	places->bytes[did->wrote & 1][first] += did->bytes;
	return true;
}

static __always_inline void spread(struct io_places *places, struct io_doing *did)
{
	__u64 from = did->from, to = from + did->bytes, shift = places->shift, needed;
	__u64 *direction = places->bytes[did->wrote & 1], by;

	needed = bits_of((to - 1) >> IO_PLACE_BITS);
	needed = choose(is_below(needed, IO_PLACE_SHIFT), IO_PLACE_SHIFT, needed);
	by = (needed - shift) & is_below(shift, needed);
	if (by)
		widen_places(places, choose(is_below(by, 31), by, 31));
	places->shift = shift + by;
	/* Read anew: else the verifier follows what comes now for each way to here. */
	shift = HIDDEN(places->shift) & 63;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < IO_PLACES; i++) {
		__u64 start = (__u64)i << shift, end = start + (1ULL << shift);
		__u64 low = choose(is_below(start, from), from, start);
		__u64 high = choose(is_below(to, end), to, end);

		direction[i] += (high - low) & is_below(low, high);
	}
}

#endif
