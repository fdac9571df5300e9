/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The table of `weigh calls`: a cell for each kind of call (and file, connection or thread, if so
 * asked), with the sums of its calls' accounts and a histogram of their times.
 */
#ifndef WEIGH_CALLS_CELLS_H
#define WEIGH_CALLS_CELLS_H

#include "account.h"
#include "../masks.h"

#define MAX_CELLS 16384

struct cell_key {
	__u64 number; /* of the call */
	__u64 of[2]; /* which file, connection or thread; zero if the table is by call */
};

struct cell {
	struct cell_key key;
	__u64 errors; /* calls that failed */
	__u64 bytes; /* that calls moved, as they returned them */
	__u64 shortest_ns, longest_ns;
	__u64 waits_at_pipes_ns, waits_at_sockets_ns; /* that no part asked for: for the other end */
	struct weigh_account account;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CELLS);
	__type(key, __u32);
	__type(value, struct cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CELLS);
	__type(key, struct cell_key);
	__type(value, __u32); /* cell */
} cell_numbers SEC(".maps");

struct bucket_key {
	__u32 cell;
	__u32 bucket;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bucket_key);
	__type(value, __u64);
} buckets SEC(".maps");

/* Written by the programs. */
struct tally {
	__u64 cells; /* that are taken */
	__u64 calls; /* begun, in the job */
	__u64 lost; /* calls, or what they left behind, for which there was no room */
	__u64 untold; /* calls that were to be told one by one, but nobody read fast enough */
	__u64 untold_later; /* bits of what came later of calls, with nobody reading fast enough */
	__u64 merged_later; /* calls whose later costs are told of another of their kind: no room for more */
	__u64 threads, living; /* followed, and of them those that have not ended */
};

struct tally tally;

const volatile struct cell cell_layout;

static __always_inline void count_lost(void)
{
	add(&tally.lost, 1);
}

/* The number of a key's cell, + 1; 0 if there is no room. */
static __always_inline __u32 cell_number(struct cell_key *key)
{
	__u32 *known = bpf_map_lookup_elem(&cell_numbers, key), number;
	struct cell *cell;

	if (known)
		return *known + 1;
	number = add(&tally.cells, 1);
	cell = bpf_map_lookup_elem(&cells, &number);
	if (!cell)
		return 0;
	cell->key = *key;
	/* Another CPU may have been faster: its cell is the one, and this one stays empty. */
	bpf_map_update_elem(&cell_numbers, key, &number, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&cell_numbers, key);
	return known ? *known + 1 : 0;
}

/*
 * Buckets of times: exact below 16 ns, then sixteen (two to the power of BUCKET_BITS) for each doubling, so that no
 * time is more than a sixteenth away from its bucket's lower bound.
 */
static __always_inline __u32 bucket_of(__u64 time)
{
	__u64 rest = time, here, high = 0;

	if (time < (1 << BUCKET_BITS))
		return time;
	/* Without branches: the verifier follows each combination. */
#pragma unroll
	for (int step = 32; step; step /= 2) {
		here = is_any(rest >> step) * step;
		rest >>= here & 63;
		high += here;
	}
	return ((high - BUCKET_BITS + 1) << BUCKET_BITS) +
	       ((time >> (high - BUCKET_BITS)) & ((1 << BUCKET_BITS) - 1));
}

static __always_inline void count_time(__u32 cell, __u64 time)
{
	struct bucket_key key = { cell, bucket_of(time) };
	__u64 one = 1, *times = bpf_map_lookup_elem(&buckets, &key);

	if (times)
		add(times, 1);
	else if (bpf_map_update_elem(&buckets, &key, &one, BPF_NOEXIST)) {
		times = bpf_map_lookup_elem(&buckets, &key);
		if (times)
			add(times, 1);
		else
			count_lost();
	}
}

#endif
