/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose the dirty pages of the page cache are. A page belongs to all that wrote to it since it was
 * written to the device last, each with the bytes it wrote; how they share what the page costs is
 * said by the sharing.
 *
 * Where the file system tells the bytes of a write (ext4, f2fs, XFS), they are exact; else, and for
 * stores to mapped memory, the thread that makes a folio dirty has all its pages, and writes to it while
 * it is dirty already are not seen.
 *
 * Sixteen pages in a row have one entry in the table, so that a write does one look-up as a rule. A
 * page's shares go when it has been written, or leaves the page cache: a mapping's address is
 * used again, and must find nothing.
 */
#ifndef WEIGH_CALLS_PAGES_H
#define WEIGH_CALLS_PAGES_H

#include "page_owners.h"
#include "descriptors.h"

/* No file has so many chunks, and no loop may be longer. */
#define MOST_CHUNKS (1 << 23)
#define PATIENCE 256

/* Stand for calls in the table. */
enum no_call {
	STORES = 1 << 17, /* to mapped memory */
	CROWD, /* writes to where too many write */
	URING, /* what threads of io_uring do of which no call is known */
};

const volatile enum no_call no_call_layout;

/* A range of bytes of a file, and who wrote it. */
struct range {
	__u64 mapping;
	__u64 from, to;
	__u64 just_from, just_to; /* of these bytes the cause wrote just now */
	struct cause cause;
	__u32 newly; /* pages that the cause had no share in */
	__u32 unless_owned; /* leaves alone pages that it has a share in */
	__u32 leaves; /* places of a chunk for others */
};

/* What of a range of a file lies in the chunk that starts here. */
static __always_inline struct extent extent_of(__u64 from, __u64 to, __u64 start)
{
	struct extent extent = {};

	if (from < start + CHUNK_BYTES && to > start) {
		extent.from = from > start ? from - start : 0;
		extent.to = to - start < CHUNK_BYTES ? to - start : CHUNK_BYTES;
	}
	return extent;
}

static __always_inline struct pages_key chunk_key(struct range *range, __u32 number)
{
	struct pages_key key = { range->mapping, (range->from >> CHUNK_SHIFT) + number };

	return key;
}

/*
 * Calls a function with the number of each chunk that a range lies in, from the range's first on.
 * What such a function does to a chunk is a global function: the verifier looks at it once, and by
 * itself, and not again for each way that leads to it.
 */
#define FOR_CHUNKS(range, function) bpf_loop(chunks_of(range), function, range, 0)

static __always_inline __u32 chunks_of(struct range *range)
{
	__u64 number;

	if (range->from >= range->to)
		return 0;
	number = ((range->to - 1) >> CHUNK_SHIFT) - (range->from >> CHUNK_SHIFT) + 1;
	return number < MOST_CHUNKS ? number : MOST_CHUNKS;
}

enum outcome {
	DONE,
	NO_ROOM,
	LEAVING,
};

static __always_inline enum outcome share_extent(struct chunk *chunk, struct pages_key *key,
						  bool is_new, struct range *range,
						  struct extent extent)
{
	__u64 owner;
	enum outcome outcome = DONE;
	struct cause of_other = {};
	__u64 newly = 0;

	bpf_spin_lock(&chunk->lock);
	if (is_new)
		chunk->key = *key;
	if (!is_key(&chunk->key, key)) {
		outcome = LEAVING;
		goto out;
	}
	if (!find_owner(chunk, &range->cause, true, range->leaves)) {
		outcome = NO_ROOM;
		goto out;
	}
	owner = found(chunk);
	if (!tells_later) {
		/* What comes of earlier ones of its account is this one's, should it be open still by then. */
		chunk->owners[owner].cause.slot = range->cause.slot;
		chunk->owners[owner].cause.request = range->cause.request;
		chunk->owners[owner].cause.sequence = range->cause.sequence;
		chunk->owners[owner].cause.tid = range->cause.tid;
	} else if (chunk->owners[owner].cause.sequence != range->cause.sequence) {
		of_other = chunk->owners[owner].cause;
	}
	chunk->extent = extent;
	chunk->full = chunk->newly = 0;
	FOR_PAGES(chunk, page) {
		__u64 share, flies, stays;

		share = chunk->dirty[page].of[owner];
		stays = is_any(share) & HIDDEN(range->unless_owned);
		flies = chunk->flying[page].of[owner];
		chunk->newly += ((share | flies) - 1) >> 63; /* both are zero */
		add_share(chunk, page, owner, overlap(page, &chunk->extent) * (1 - stays), stays);
	}
	if (chunk->full)
		add_to_full(chunk, owner);
	newly = chunk->newly;
	chunk->held += newly;
	chunk->owners[owner].held += newly;
out:
	bpf_spin_unlock(&chunk->lock);
	if (tells_later && of_other.cell) {
		add(&tally.merged_later, 1);
		if (newly)
			pends(&of_other, newly);
	} else {
		range->newly += newly;
	}
	return outcome;
}

__noinline int share_chunk(struct range *range, __u32 number)
{
	struct pages_key key;
	struct chunk *chunk;
	int error;

	if (!range)
		return DONE;
	key = chunk_key(range, number);
	chunk = chunk_for(&key, &error);
	if (!chunk)
		return error == -EEXIST ? LEAVING : NO_ROOM;
	return share_extent(chunk, &key, !error, range,
			    extent_of(range->from, range->to, key.number << CHUNK_SHIFT));
}

/*
 * Where a chunk has no room for an account of a program with libweigh, what it wrote stays its call's, and where
 * it has none for that, all of theirs: the job has what it wrote. Of what is asked for by the program alone
 * there is no such call, but the pages have an owner, and are not taken for somebody else's.
 */
static __always_inline __u32 places_left_by(struct cause *cause)
{
	return cause->client && cause->cell ? 2 : 1;
}

/* Makes a cause of what no call bounds, of a thread or of many. */
static __always_inline struct cell *name_no_call(struct cause *cause, enum no_call number,
						 struct task_struct *task)
{
	struct cell_key key = { .number = number };
	struct cell *cell;
	__u32 index;

	if (task && grouping == BY_THREAD) {
		key.of[0] = task->tgid;
		key.of[1] = task->pid;
	}
	__builtin_memset(cause, 0, sizeof(*cause));
	cause->cell = cell_number(&key);
	index = cause->cell - 1;
	cell = bpf_map_lookup_elem(&cells, &index);
	if (!cell) {
		count_lost();
		return 0;
	}
	barrier_var(cell);
	__sync_fetch_and_or(&cell->account.touched, BIT(WEIGH_PAGECACHE));
	return cell;
}

/* Global, for the stack's sake. */
__noinline int name_crowd(struct cause *cause, bool is_told)
{
	struct cell *cell;
	bool has_cell;

	if (!cause)
		return 0;
	has_cell = cause->cell;
	__builtin_memset(cause, 0, sizeof(*cause));
	cell = has_cell ? name_no_call(cause, CROWD, 0) : 0;
	if (cell && is_told)
		add(&cell->account.calls, 1);
	return 0;
}

/* Shared in the place of one that found no room. What is told again was counted when it was told first. */
__noinline int share_with_rest(struct range *range, __u32 number)
{
	struct weigh_later *later;
	struct cause own;
	__u32 newly;

	if (!range)
		return 0;
	own = range->cause;
	newly = range->newly;
	range->newly = 0;
	if (own.cell && own.client) {
		range->cause.client = 0;
		range->cause.slot = 0;
		range->cause.request = 0;
		range->cause.generation = 0;
		range->leaves = places_left_by(&range->cause);
		if (share_chunk(range, number) == DONE) {
			later = range->unless_owned ? 0 : also_later_of(&own);
			if (later)
				add(&later->lost, 1);
			goto shared;
		}
	}
	if (!range->unless_owned)
		loses(&own);
	name_crowd(&range->cause, !range->unless_owned);
	range->leaves = 0;
	if (share_chunk(range, number) != DONE && !range->unless_owned)
		count_lost();
shared:
	if (range->newly)
		pends(&range->cause, range->newly);
	range->cause = own;
	range->newly = newly;
	range->leaves = places_left_by(&own);
	return 0;
}

struct attempt {
	struct range *range;
	__u32 number; /* of the chunk */
	enum outcome outcome;
};

/* Another CPU is about to remove the chunk, or has just made it: the next look-up finds one, or makes it. */
static long try_again(__u32 number, struct attempt *attempt)
{
	attempt->outcome = share_chunk(attempt->range, attempt->number);
	return attempt->outcome == LEAVING ? 0 : 1;
}

static long share_one(__u32 number, struct range *range)
{
	struct attempt attempt = { range, number, share_chunk(range, number) };

	if (attempt.outcome == LEAVING)
		bpf_loop(PATIENCE, try_again, &attempt, 0);
	if (attempt.outcome != DONE)
		share_with_rest(range, number);
	return 0;
}

static __always_inline void own(struct range *range)
{
	range->newly = 0;
	range->leaves = places_left_by(&range->cause);
	FOR_CHUNKS(range, share_one);
	if (range->newly)
		pends(&range->cause, range->newly);
}

/*
 * The folio is on its way to the device while it becomes dirty again: what was written to it before
 * belongs to what is on its way, what the cause wrote just now to what follows.
 */
static __always_inline void fly(struct chunk *chunk, __u64 page, __u64 just)
{
	union shares *dirty = &chunk->dirty[page], *flying = &chunk->flying[page];
	__u64 owner = found(chunk);
	__u64 share = dirty->of[owner];

	just = share - not_below_zero(share - just);
	chunk->flying_last[page] = chunk->last[page];
	dirty->of[owner] = share - just;
	/* What flies is zero, or else stays what it must be: more than that. */
	for (__u32 i = 0; i < SHARE_WORDS; i++) {
		flying->words[i] |= dirty->words[i];
		dirty->words[i] = 0;
	}
	dirty->of[owner] = just;
}

__noinline int fly_chunk(struct range *range, __u32 number)
{
	struct extent extent, just;
	struct pages_key key;
	struct chunk *chunk;
	__u64 start;

	if (!range)
		return 0;
	key = chunk_key(range, number);
	chunk = bpf_map_lookup_elem(&chunks, &key);
	if (!chunk)
		return 0;
	start = key.number << CHUNK_SHIFT;
	extent = extent_of(range->from, range->to, start);
	just = extent_of(range->just_from, range->just_to, start);
	bpf_spin_lock(&chunk->lock);
	if (!is_key(&chunk->key, &key))
		goto out;
	chunk->extent = extent;
	chunk->just = just;
	if (just.to && !find_owner(chunk, &range->cause, false, 0))
		chunk->just.to = 0;
	FOR_PAGES(chunk, page)
		fly(chunk, page, overlap(page, &chunk->just));
out:
	bpf_spin_unlock(&chunk->lock);
	return 0;
}

static long fly_one(__u32 number, struct range *range)
{
	fly_chunk(range, number);
	return 0;
}

#endif
