/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a process goes through a file, in one direction: where each access lies beside the last one,
 * at which strides, and which bytes it had been at before. Under the lock of the file's use, so
 * nothing is called from here.
 */
#ifndef WEIGH_IO_PATTERN_H
#define WEIGH_IO_PATTERN_H

#include "maps.h"

/*
 * What follows has nearly no branches: the verifier follows each way through, and with them there would be
 * more than it has patience for. A mask is all ones where something holds, else 0; offsets in files
 * are below 2^63.
 */
static __always_inline __u64 is_less(__u64 one, __u64 other)
{
	__s64 difference = one - other;

	barrier_var(difference);
	return difference >> 63;
}

static __always_inline __u64 is_equal(__u64 one, __u64 other)
{
	__s64 difference = one ^ other, sign = difference | -difference;

	barrier_var(sign); /* or the compiler makes a branch of it */
	return ~(sign >> 63);
}

static __always_inline __u64 choose(__u64 mask, __u64 if_so, __u64 else_so)
{
	return else_so ^ ((if_so ^ else_so) & mask);
}

static __always_inline __u32 size_bucket(__u64 size)
{
	__u64 bits = 0, here, most = ~is_equal(size >> (IO_SIZES - 2), 0);

#pragma unroll
	for (int step = 16; step; step /= 2) {
		here = ~is_equal(size >> step, 0) & step;
		size >>= here & 31;
		bits += here;
	}
	bits += ~is_equal(size, 0) & 1;
	return choose(most, IO_SIZES - 1, bits);
}

/* The commonest strides: one that is new takes the place of one that was counted down to nothing. */
static __always_inline void count_stride(struct io_direction *direction, __u64 stride)
{
	struct io_stride *strides = direction->strides;
	__u64 done = 0, here;

#pragma unroll
	for (int i = 0; i < IO_STRIDES; i++) {
		here = ~done & is_equal(strides[i].bytes, stride) & ~is_equal(strides[i].times, 0);
		strides[i].times += here & 1;
		done |= here;
	}
#pragma unroll
	for (int i = 0; i < IO_STRIDES; i++) {
		here = ~done & is_equal(strides[i].times, 0);
		strides[i].bytes = choose(here, stride, strides[i].bytes);
		strides[i].times += here & 1;
		done |= here;
	}
#pragma unroll
	for (int i = 0; i < IO_STRIDES; i++)
		strides[i].times -= ~done & 1;
}

/* The bytes of a range that one stretch holds already; a stretch that it touches joins it. */
static __always_inline __u64 join_stretch(struct io_stretch *seen, struct io_stretch *range,
					  __u64 from, __u64 to)
{
	__u64 low = seen->from, high = seen->to, start, end;
	__u64 joins = is_less(low, high) & ~is_less(to, low) & ~is_less(high, from);

	start = choose(is_less(low, from), from, low);
	end = choose(is_less(high, to), high, to);
	range->from = choose(joins & is_less(low, range->from), low, range->from);
	range->to = choose(joins & is_less(range->to, high), high, range->to);
	seen->from &= ~joins;
	seen->to &= ~joins;
	return (end - start) & joins;
}

/*
 * Takes note of a range; how many of its bytes were known. The stretch that was touched last comes
 * first, and if there are too many, the one that was touched longest ago is forgotten.
 */
static __always_inline __u64 see(struct io_direction *direction, __u64 from, __u64 to,
				 __u64 *forgotten)
{
	struct io_stretch *seen = direction->seen, range = { from, to }, carried, other;
	__u64 again = 0, moves;

	/* Nearly always: on from where it was, with nothing else to meet. */
	if (seen[0].to == from && !seen[1].to) {
		seen[0].to = to;
		return 0;
	}
#pragma unroll
	for (int i = 0; i < IO_SEEN; i++) {
		again += join_stretch(&seen[i], &range, from, to);
		barrier(); /* one after the other, for there is little stack */
	}
	carried = seen[0];
	seen[0] = range;
#pragma unroll
	for (int i = 1; i < IO_SEEN; i++) {
		moves = ~is_equal(carried.to, 0);
		other = seen[i];
		seen[i].from = choose(moves, carried.from, other.from);
		seen[i].to = choose(moves, carried.to, other.to);
		carried.from = other.from & moves;
		carried.to = other.to & moves;
	}
	*forgotten += ~is_equal(carried.to, 0) & 1;
	return again;
}

/* From what is kept of reads to the same of writes. */
#define WORDS_BETWEEN(one, other)                                                                  \
	((__builtin_offsetof(struct io_numbers, other) -                                           \
	  __builtin_offsetof(struct io_numbers, one)) /                                            \
	 sizeof(__u64))
#define TO_WRITES WORDS_BETWEEN(consecutive_reads, consecutive_writes)
#define TO_REWRITTEN WORDS_BETWEEN(reread, rewritten)

/* 1 of a write, 0 of a read. Read anew at each use, for there is little stack; the compiler knows no bound of it. */
static __always_inline __u64 direction_of(struct io_doing *did)
{
	return *(volatile __u32 *)&did->wrote & 1;
}

/* An access at a known place. */
static __always_inline void place_access(struct io_use *use, struct io_doing *did)
{
	struct io_direction *direction = &use->directions[direction_of(did)];
	struct io_numbers *numbers = &use->numbers;
	__u64 from = did->from, to = from + did->bytes, stride = from - direction->last_from;
	__u64 later = ~is_equal(direction->accesses, 0), follows, strided, ahead, *patterns, again;

	numbers->lowest = choose(is_equal(numbers->placed, 0) | is_less(from, numbers->lowest), from,
				 numbers->lowest);
	numbers->highest = choose(is_less(numbers->highest, to), to, numbers->highest);
	numbers->placed++;
	follows = is_equal(from, direction->last_to);
	strided = ~follows & ~is_equal(stride, 0) & is_equal(stride, direction->last_stride);
	ahead = ~follows & ~strided & is_less(direction->last_to, from);
	patterns = &numbers->consecutive_reads + direction_of(did) * TO_WRITES;
	patterns[0] += later & follows & 1;
	patterns[1] += later & strided & 1;
	patterns[2] += later & ahead & 1;
	patterns[3] += later & ~follows & ~strided & ~ahead & 1;
	if (later & ~follows)
		count_stride(direction, stride);
	direction->last_stride = stride & later;
	direction->accesses++;
	direction->last_from = from;
	direction->last_to = to;
	if (!did->bytes)
		return;
	again = see(direction, from, to, &numbers->forgotten);
	(&numbers->reread)[direction_of(did) * TO_REWRITTEN] += again;
}

#endif
