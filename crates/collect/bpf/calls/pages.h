/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose the dirty pages of the page cache are. A page belongs to all that wrote to it since it was
 * written to the device last, each with the bytes it wrote; how they share what the page costs is
 * said by the sharing.
 *
 * Where the file system tells the bytes of a write (ext4, f2fs, XFS), they are exact; else, and for
 * stores to mapped memory, who makes a folio dirty has all its pages, and who writes to it while
 * it is dirty already is not seen.
 *
 * Sixteen pages in a row have one entry in the table, so that a write does one look-up as a rule. A
 * page's shares go when it has been written, or leaves the page cache: a mapping's address is
 * used again, and must find nothing.
 */
#ifndef WEIGH_CALLS_PAGES_H
#define WEIGH_CALLS_PAGES_H

#include "causes.h"
#include "folio.h"

#define CHUNK_SHIFT 16
#define CHUNK_BYTES (1ULL << CHUNK_SHIFT)
#define CHUNK_PAGES (1 << (CHUNK_SHIFT - PAGE_SHIFT))
#define MAX_OWNERS 8
#define MAX_CHUNKS 65536
#define MAX_SHARE 0xffff
/* A file of so many chunks is larger than any. */
#define ALL_CHUNKS (1 << 23)
#define PATIENCE 256

/* Stands for a call in the table: stores to mapped memory. */
#define STORES (1 << 17)

enum sharing {
	BY_BYTES,
	EQUALLY,
	TO_LAST,
};

const volatile enum sharing sharing = BY_BYTES;

struct owner {
	struct cause cause;
	__u64 held; /* pages that it has a share in */
};

struct chunk_key {
	__u64 mapping;
	__u64 number;
};

/* A part of a chunk, in bytes from its start. */
struct extent {
	__u32 from, to;
};

/* Bytes that each owner wrote to a page. */
union shares {
	__u16 of[MAX_OWNERS];
	__u64 words[MAX_OWNERS / 4];
};

struct chunk {
	struct bpf_spin_lock lock;
	__u32 dead; /* it leaves the table in a moment */
	__u64 held; /* by all owners */
	__u8 last[CHUNK_PAGES], flying_last[CHUNK_PAGES];
	/* Kept here to be hidden from the verifier, which would follow each value they can have. */
	struct extent extent, just;
	__u64 found; /* an owner's number */
	union shares dirty[CHUNK_PAGES], flying[CHUNK_PAGES]; /* as it is, and on its way */
	struct owner owners[MAX_OWNERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_CHUNKS);
	__type(key, struct chunk_key);
	__type(value, struct chunk);
} chunks SEC(".maps");

const volatile __u8 new_chunk[sizeof(struct chunk)];
/* In the table: with none, nothing has to be looked for. */
__u64 live_chunks;

/* Bytes of a page that lie in an extent. */
static __always_inline __u32 overlap(__u32 page, struct extent *extent)
{
	__u32 from = *(volatile __u32 *)&extent->from, to = *(volatile __u32 *)&extent->to;
	__u32 start = page << PAGE_SHIFT, end = start + PAGE_BYTES;

	if (start < from)
		start = from;
	if (end > to)
		end = to;
	return start < end ? end - start : 0;
}

/* Which of the chunk's owners; false if it is none. The lock is held. */
static __always_inline bool find_owner(struct chunk *chunk, struct cause *cause, bool or_new)
{
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (chunk->owners[i].held && same_account(&chunk->owners[i].cause, cause)) {
			chunk->found = i;
			return true;
		}
	if (!or_new)
		return false;
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (!chunk->owners[i].held) {
			chunk->owners[i].cause = *cause;
			chunk->found = i;
			return true;
		}
	return false;
}

static __always_inline __u32 found(struct chunk *chunk)
{
	return *(volatile __u64 *)&chunk->found % MAX_OWNERS;
}

/* Older bytes of all count half, but not less than one: the proportions stay. */
static __always_inline void halve(union shares *shares)
{
	for (__u32 i = 0; i < MAX_OWNERS / 4; i++)
		shares->words[i] = (shares->words[i] >> 1 & 0x7fff7fff7fff7fff) +
				   (shares->words[i] & 0x0001000100010001);
}

static __always_inline void add_share(struct chunk *chunk, __u32 page, __u32 owner, __u32 bytes)
{
	__u32 share = chunk->dirty[page].of[owner] + bytes;

	if (share > MAX_SHARE) {
		halve(&chunk->dirty[page]);
		share = chunk->dirty[page].of[owner] + bytes;
	}
	chunk->dirty[page].of[owner] = share;
	chunk->last[page] = owner;
}

/* A range of bytes of a file, and who wrote it. */
struct range {
	__u64 mapping;
	__u64 from, to;
	__u64 just_from, just_to; /* of these bytes the cause wrote just now */
	struct cause cause;
	__u32 newly; /* pages that the cause had no share in */
	__u32 unless_owned; /* leaves alone pages that it has a share in */
};

struct part {
	struct chunk_key key;
	struct extent extent;
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

/* The part of a range that lies in the chunk of this number, from the range's first on. */
static __always_inline bool part_of(struct part *part, struct range *range, __u32 number)
{
	__u64 start;

	part->key.mapping = range->mapping;
	part->key.number = (range->from >> CHUNK_SHIFT) + number;
	start = part->key.number << CHUNK_SHIFT;
	if (start >= range->to)
		return false;
	part->extent = extent_of(range->from, range->to, start);
	return true;
}

enum outcome {
	DONE,
	NO_ROOM,
	LEAVING,
};

static __always_inline enum outcome share_part(struct chunk *chunk, struct range *range,
						struct part *part)
{
	enum outcome outcome = DONE;
	__u64 before, newly = 0;
	__u32 owner;

	bpf_spin_lock(&chunk->lock);
	if (chunk->dead) {
		outcome = LEAVING;
		goto out;
	}
	if (!find_owner(chunk, &range->cause, true)) {
		outcome = NO_ROOM;
		goto out;
	}
	owner = found(chunk);
	chunk->owners[owner].cause.sequence = range->cause.sequence;
	chunk->owners[owner].cause.tid = range->cause.tid;
	before = chunk->held;
	chunk->extent = part->extent;
	for (__u32 page = 0; page < CHUNK_PAGES; page++) {
		__u32 bytes = overlap(page, &chunk->extent);

		if (!bytes || (range->unless_owned && chunk->dirty[page].of[owner]))
			continue;
		/* In the table, not here: the verifier would follow each of the numbers it can become. */
		if (!chunk->dirty[page].of[owner] && !chunk->flying[page].of[owner])
			chunk->held++;
		add_share(chunk, page, owner, bytes);
	}
	newly = chunk->held - before;
	chunk->owners[owner].held += newly;
out:
	bpf_spin_unlock(&chunk->lock);
	range->newly += newly;
	return outcome;
}

static __always_inline struct chunk *chunk_for(struct chunk_key *key)
{
	struct chunk *chunk = bpf_map_lookup_elem(&chunks, key);
	long error;

	if (chunk)
		return chunk;
	error = bpf_map_update_elem(&chunks, key, (void *)new_chunk, BPF_NOEXIST);
	if (!error)
		add(&live_chunks, 1);
	return bpf_map_lookup_elem(&chunks, key);
}

static __always_inline enum outcome try_part(struct range *range, __u32 number, bool *inside)
{
	struct chunk *chunk;
	struct part part;

	*inside = part_of(&part, range, number);
	if (!*inside)
		return DONE;
	chunk = chunk_for(&part.key);
	return chunk ? share_part(chunk, range, &part) : NO_ROOM;
}

/* Another CPU is about to remove the chunk: the next look-up makes a new one. */
static long try_again(__u32 number, struct range *range)
{
	bool inside;

	switch (try_part(range, 0, &inside)) {
	case DONE:
		return 1;
	case NO_ROOM:
		count_lost();
		return 1;
	case LEAVING:
		break;
	}
	if (number == PATIENCE - 1)
		count_lost();
	return 0;
}

static long own_part(__u32 number, struct range *range)
{
	__u64 start = ((range->from >> CHUNK_SHIFT) + number) << CHUNK_SHIFT;
	enum outcome outcome;
	struct range one;
	bool inside;

	outcome = try_part(range, number, &inside);
	if (outcome == NO_ROOM)
		count_lost();
	if (outcome == LEAVING) {
		one = *range;
		if (start > one.from)
			one.from = start;
		if (start + CHUNK_BYTES < one.to)
			one.to = start + CHUNK_BYTES;
		one.newly = 0;
		bpf_loop(PATIENCE, try_again, &one, 0);
		range->newly += one.newly;
	}
	return !inside;
}

static __always_inline void own(struct range *range)
{
	range->newly = 0;
	if (range->from >= range->to)
		return;
	bpf_loop(ALL_CHUNKS, own_part, range, 0);
	if (range->newly)
		pends(&range->cause, range->newly);
}

/*
 * The folio is on its way to the device while it becomes dirty again: what was written to it before
 * belongs to what is on its way, what the cause wrote just now to what follows.
 */
static __always_inline void fly(struct chunk *chunk, __u32 page, __u32 just)
{
	union shares *dirty = &chunk->dirty[page], *flying = &chunk->flying[page];
	__u32 owner = found(chunk), share = dirty->of[owner];

	if (just > share)
		just = share;
	chunk->flying_last[page] = chunk->last[page];
	if (just)
		dirty->of[owner] = share - just;
	/* What flies is zero, or else stays what it must be: more than that. */
	for (__u32 i = 0; i < MAX_OWNERS / 4; i++) {
		flying->words[i] |= dirty->words[i];
		dirty->words[i] = 0;
	}
	if (just)
		dirty->of[owner] = just;
}

static long fly_part(__u32 number, struct range *range)
{
	__u64 start = ((range->from >> CHUNK_SHIFT) + number) << CHUNK_SHIFT;
	struct chunk *chunk;
	struct part part;

	if (!part_of(&part, range, number))
		return 1;
	chunk = bpf_map_lookup_elem(&chunks, &part.key);
	if (!chunk)
		return 0;
	bpf_spin_lock(&chunk->lock);
	chunk->extent = part.extent;
	chunk->just = extent_of(range->just_from, range->just_to, start);
	if (chunk->just.to && !find_owner(chunk, &range->cause, false))
		chunk->just.to = 0;
	for (__u32 page = 0; page < CHUNK_PAGES; page++) {
		if (overlap(page, &chunk->extent))
			fly(chunk, page, overlap(page, &chunk->just));
	}
	bpf_spin_unlock(&chunk->lock);
	return 0;
}

/* What is taken out of a chunk, by owner: one for those that complete, one for those that drop. */
struct taken {
	__u64 left;
	struct cause causes[MAX_OWNERS];
	__u64 bytes[MAX_OWNERS];
	__u64 ended[MAX_OWNERS]; /* shares */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct taken);
} takings SEC(".maps");

enum taker {
	COMPLETING,
	DROPPING,
};

static __always_inline struct taken *takings_of(enum taker taker)
{
	__u32 key = taker;

	return bpf_map_lookup_elem(&takings, &key);
}

/* The highest bit of each of four shares that is not zero. */
static __always_inline __u64 present(__u64 word)
{
	return (((word & 0x7fff7fff7fff7fff) + 0x7fff7fff7fff7fff) | word) & 0x8000800080008000;
}

/* Which of a page's shares count, and how much, four in a word. */
static __always_inline __u64 weights(union shares *shares, __u32 word, __u32 last)
{
	__u64 of = shares->words[word];

	if (sharing == EQUALLY)
		return present(of) >> 15;
	if (sharing == TO_LAST)
		return last / 4 == word ? of & 0xffffULL << last % 4 * 16 : 0;
	return of;
}

/* Divides the bytes of one page among those who have a share in it: none is lost by rounding. */
static __always_inline void divide(struct chunk *chunk, struct taken *taken, __u32 page, __u32 bytes,
				   bool flying)
{
	union shares *shares = flying ? &chunk->flying[page] : &chunk->dirty[page];
	__u32 last = flying ? chunk->flying_last[page] : chunk->last[page];
	__u64 total = 0, sum = 0, given = 0, until;
	__u64 words[MAX_OWNERS / 4];

	for (__u32 i = 0; i < MAX_OWNERS / 4; i++)
		words[i] = weights(shares, i, last);
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		total += words[i / 4] >> i % 4 * 16 & 0xffff;
	/* No branches from here on: the verifier would follow each combination. */
	total += !total;
	for (__u32 i = 0; i < MAX_OWNERS; i++) {
		sum += words[i / 4] >> i % 4 * 16 & 0xffff;
		until = bytes * sum / total;
		taken->bytes[i] += until - given;
		given = until;
	}
}

static __always_inline void clear(struct chunk *chunk, struct taken *taken, __u32 page, bool flying,
				  bool dirty)
{
	for (__u32 i = 0; i < MAX_OWNERS / 4; i++) {
		__u64 *flies = &chunk->flying[page].words[i], *stays = &chunk->dirty[page].words[i];
		__u64 ended = present(*flies) | present(*stays);

		if (flying)
			*flies = 0;
		if (dirty)
			*stays = 0;
		ended &= ~(present(*flies) | present(*stays));
		for (__u32 of = 0; of < 4; of++)
			taken->ended[i * 4 + of] += ended >> (of * 16 + 15) & 1;
	}
}

/*
 * Takes out what the bytes between two places in a chunk carry, now that they are on the device, or
 * gone. A page that is dirty again has been written as it was before. True if the chunk is empty
 * and to be removed.
 */
static __always_inline bool take(struct chunk *chunk, struct taken *taken, struct extent extent,
				 enum taker taker, bool dirty_again)
{
	bool dead;

	__builtin_memset(taken, 0, sizeof(*taken));
	bpf_spin_lock(&chunk->lock);
	chunk->extent = extent;
	for (__u32 page = 0; page < CHUNK_PAGES; page++) {
		__u32 bytes = overlap(page, &chunk->extent);
		bool flying;

		if (!bytes)
			continue;
		if (taker == DROPPING) {
			clear(chunk, taken, page, true, true);
			continue;
		}
		flying = chunk->flying[page].words[0] | chunk->flying[page].words[1];
		if (!flying && dirty_again)
			continue;
		divide(chunk, taken, page, bytes, flying);
		clear(chunk, taken, page, flying, !flying);
	}
	for (__u32 i = 0; i < MAX_OWNERS; i++) {
		taken->causes[i] = chunk->owners[i].cause;
		chunk->owners[i].held -= taken->ended[i];
		chunk->held -= taken->ended[i];
		taken->left += taken->ended[i];
	}
	dead = !chunk->held && !chunk->dead;
	if (dead)
		chunk->dead = 1;
	bpf_spin_unlock(&chunk->lock);
	return dead;
}

static __always_inline void remove_chunk(struct chunk_key *key)
{
	if (!bpf_map_delete_elem(&chunks, key))
		add(&live_chunks, -1);
}

static long drop_part(__u32 number, struct range *range)
{
	struct taken *taken = takings_of(DROPPING);
	struct chunk *chunk;
	struct part part;

	if (!taken || !part_of(&part, range, number))
		return 1;
	chunk = bpf_map_lookup_elem(&chunks, &part.key);
	if (!chunk)
		return 0;
	if (take(chunk, taken, part.extent, DROPPING, false))
		remove_chunk(&part.key);
	if (!taken->left)
		return 0;
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (taken->ended[i])
			pends(&taken->causes[i], -taken->ended[i]);
	return 0;
}

#endif
