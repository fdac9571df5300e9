/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules by which one access to a file is counted: its size, its pattern beside the last access in its direction, its
 * strides, and which bytes were accessed before. BPF programs and the preload library (level 4) include this. ptrace has
 * the same rules in Rust (schema/src/io/pattern.rs, counting.rs); tests/access_rules.rs holds both to each other.
 *
 * Under the lock of the file's use, so nothing is called from here. There are nearly no branches: the verifier follows
 * each way through, and with them there would be more than it has patience for. A mask is all ones where something
 * holds, else 0; offsets in files are below 2^63.
 */
#ifndef WEIGH_IO_ACCESS_RULES_H
#define WEIGH_IO_ACCESS_RULES_H

#include "io_numbers.h" /* derived from the schema by the build script */

#define RULE static inline __attribute__((always_inline))

#if defined(__bpf__) || defined(WITHOUT_BRANCHES)
#define SHORTCUT(condition, leave)
#else
/* What is left out by it would change nothing: where branches cost little. */
#define SHORTCUT(condition, leave)                                                                 \
	if (condition)                                                                             \
	leave
#define HAS_BRANCHES
#endif

#ifdef __bpf__
/* Or the compiler makes a branch of it, or knows a bound that the verifier does not. */
#define HIDE_FROM_COMPILER(number) barrier_var(number)
/* One after the other, for there is little stack. */
#define ONE_BY_ONE() barrier()
#define UNROLLED _Pragma("unroll")
#else
#define HIDE_FROM_COMPILER(number)
#define ONE_BY_ONE()
#define UNROLLED _Pragma("GCC unroll 4")
#endif

RULE __u64 is_less(__u64 one, __u64 other)
{
#ifdef HAS_BRANCHES
	return (__s64)(one - other) < 0 ? -1 : 0;
#else
	__s64 difference = one - other;

	HIDE_FROM_COMPILER(difference);
	return difference >> 63;
#endif
}

RULE __u64 is_equal(__u64 one, __u64 other)
{
#ifdef HAS_BRANCHES
	return one == other ? -1 : 0;
#else
	__s64 difference = one ^ other, sign = difference | -difference;

	HIDE_FROM_COMPILER(sign);
	return ~(sign >> 63);
#endif
}

RULE __u64 choose(__u64 mask, __u64 if_so, __u64 else_so)
{
#ifdef HAS_BRANCHES
	return mask ? if_so : else_so;
#else
	return else_so ^ ((if_so ^ else_so) & mask);
#endif
}

/* One for each doubling; the last one has all that is larger. */
RULE __u32 size_bucket(__u64 size)
{
#ifdef HAS_BRANCHES
	unsigned bits = size ? 64 - __builtin_clzll(size) : 0;

	return bits < IO_SIZES ? bits : IO_SIZES - 1;
#else
	__u64 bits = 0, here, most = ~is_equal(size >> (IO_SIZES - 2), 0);

	UNROLLED
	for (int step = 16; step; step /= 2) {
		here = ~is_equal(size >> step, 0) & step;
		size >>= here & 31;
		bits += here;
	}
	bits += ~is_equal(size, 0) & 1;
	return choose(most, IO_SIZES - 1, bits);
#endif
}

/* The commonest strides: one that is new takes the place of one that was counted down to nothing. */
RULE void count_stride(struct io_direction *direction, __u64 stride)
{
	struct io_stride *strides = direction->strides;
	__u64 done = 0, here;

	UNROLLED
	for (int i = 0; i < IO_STRIDES; i++) {
		here = ~done & is_equal(strides[i].bytes, stride) & ~is_equal(strides[i].times, 0);
		strides[i].times += here & 1;
		done |= here;
		SHORTCUT(done, return);
	}
	UNROLLED
	for (int i = 0; i < IO_STRIDES; i++) {
		here = ~done & is_equal(strides[i].times, 0);
		strides[i].bytes = choose(here, stride, strides[i].bytes);
		strides[i].times += here & 1;
		done |= here;
		SHORTCUT(done, return);
	}
	UNROLLED
	for (int i = 0; i < IO_STRIDES; i++)
		strides[i].times -= ~done & 1;
}

/* The bytes of a range that one stretch holds already; a stretch that it touches joins it. */
RULE __u64 join_stretch(struct io_stretch *seen, struct io_stretch *range, __u64 from, __u64 to)
{
	__u64 low = seen->from, high = seen->to, start, end;
	__u64 joins = is_less(low, high) & ~is_less(to, low) & ~is_less(high, from);

	SHORTCUT(!joins, return 0);
	start = choose(is_less(low, from), from, low);
	end = choose(is_less(high, to), high, to);
	range->from = choose(joins & is_less(low, range->from), low, range->from);
	range->to = choose(joins & is_less(range->to, high), high, range->to);
	seen->from &= ~joins;
	seen->to &= ~joins;
	return (end - start) & joins;
}

/* Whether no more than one stretch is remembered. Places between stretches may be empty. */
RULE int has_one_stretch(const struct io_direction *direction)
{
	__u64 others = 0;

	UNROLLED
	for (int i = 1; i < IO_SEEN; i++)
		others |= direction->seen[i].to;
	return !others;
}

/*
 * Takes note of a range; how many of its bytes were known. The stretch that was touched last comes
 * first, and if there are too many, the one that was touched longest ago is forgotten.
 */
RULE __u64 note_range(struct io_direction *direction, __u64 from, __u64 to, __u64 *forgotten)
{
	struct io_stretch *seen = direction->seen, range = { from, to }, carried, other;
	__u64 again = 0, moves;

	/* Nearly always: on from where it was, with nothing else to meet. */
	if (seen[0].to == from && has_one_stretch(direction)) {
		seen[0].to = to;
		return 0;
	}
	UNROLLED
	for (int i = 0; i < IO_SEEN; i++) {
		again += join_stretch(&seen[i], &range, from, to);
		ONE_BY_ONE();
	}
	carried = seen[0];
	seen[0] = range;
	UNROLLED
	for (int i = 1; i < IO_SEEN; i++) {
		moves = ~is_equal(carried.to, 0);
		other = seen[i];
		seen[i].from = choose(moves, carried.from, other.from);
		seen[i].to = choose(moves, carried.to, other.to);
		carried.from = other.from & moves;
		carried.to = other.to & moves;
		SHORTCUT(!carried.to, break);
	}
	*forgotten += ~is_equal(carried.to, 0) & 1;
	return again;
}

/* From what is counted of reads to the same of writes. */
#define WORDS_BETWEEN(one, other)                                                                  \
	((__builtin_offsetof(struct io_numbers, other) -                                           \
	  __builtin_offsetof(struct io_numbers, one)) /                                            \
	 sizeof(__u64))
#define TO_WRITES WORDS_BETWEEN(consecutive_reads, consecutive_writes)
#define TO_REWRITTEN WORDS_BETWEEN(reread, rewritten)

/* 1 of a write, 0 of a read. Read anew at each use, for there is little stack; the compiler knows no bound of it. */
RULE __u64 direction_of(const __u32 *wrote)
{
	return *(const volatile __u32 *)wrote & 1;
}

/* An access at a known offset. */
RULE void place_access(struct io_numbers *numbers, struct io_direction *directions, const __u32 *wrote,
		       const __u64 *at, const __u64 *bytes)
{
	struct io_direction *direction = &directions[direction_of(wrote)];
	__u64 from = *at, to = from + *bytes, stride = from - direction->last_from;
	__u64 later = ~is_equal(direction->accesses, 0), follows, strided, ahead, *patterns, again;

	numbers->lowest = choose(is_equal(numbers->placed, 0) | is_less(from, numbers->lowest), from,
				 numbers->lowest);
	numbers->highest = choose(is_less(numbers->highest, to), to, numbers->highest);
	numbers->placed++;
	follows = is_equal(from, direction->last_to);
	strided = ~follows & ~is_equal(stride, 0) & is_equal(stride, direction->last_stride);
	ahead = ~follows & ~strided & is_less(direction->last_to, from);
	patterns = &numbers->consecutive_reads + direction_of(wrote) * TO_WRITES;
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
	if (!*bytes)
		return;
	again = note_range(direction, from, to, &numbers->forgotten);
	(&numbers->reread)[direction_of(wrote) * TO_REWRITTEN] += again;
}

/* A read or write; `called` is a mask: it was a call, no page that came by mapped memory. */
RULE void count_moved(struct io_numbers *numbers, __u32 transfer, __u64 called, const __u32 *wrote,
		      __u64 calls, const __u64 *bytes)
{
	__u64 write = direction_of(wrote);
	__u32 bucket;

	HIDE_FROM_COMPILER(transfer);
	if (transfer >= IO_TRANSFERS)
		return;
	bucket = size_bucket(*bytes) % IO_SIZES;
	HIDE_FROM_COMPILER(bucket);
	if (bucket >= IO_SIZES)
		return;
	numbers->sizes[write][bucket] += calls & called;
	numbers->bytes[transfer][write] += *bytes;
	numbers->calls[transfer][write] += calls;
}

/* Past the page cache: offset, where it is known, and bytes have to be multiples of the block. */
RULE void count_direct(struct io_numbers *numbers, __u32 is_direct, __u32 is_placed, __u64 at, __u64 bytes)
{
	__u64 unaligned = ~is_equal((at | bytes) & (IO_DIRECT_BLOCK - 1), 0);

	numbers->direct_calls += is_direct & 1;
	unaligned &= ~is_equal(is_placed, 0) & is_direct;
	numbers->unaligned_direct_calls += unaligned & 1;
}

/* After so many bytes were written since the last one. */
RULE void count_sync(struct io_numbers *numbers, __u64 unsynced)
{
	numbers->syncs++;
	if (unsynced && unsynced < IO_SMALL_SYNC)
		numbers->small_syncs++;
}

#endif
