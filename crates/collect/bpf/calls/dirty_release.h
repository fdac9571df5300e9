/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is taken out of the table of dirty pages: by what has been written, each owner's part of the
 * bytes, and by what has left the page cache, nothing.
 */
#ifndef WEIGH_CALLS_TAKEN_H
#define WEIGH_CALLS_TAKEN_H

#include "pages.h"

/*
 * What is taken out of a chunk, by owner: one for those that complete, one for those that drop. A
 * share that flies and is dirty again brings bytes, and does not end.
 */
struct taken {
	__u64 any; /* of the bytes, and shares that ended */
	struct cause causes[MAX_OWNERS]; /* of those who have either */
	__u64 bytes[MAX_OWNERS];
	__u64 ended[MAX_OWNERS];
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

/* A number for each owner, sixteen bits each: four in a word. */
static __always_inline __u64 lane(__u64 *words, __u32 owner)
{
	return words[owner / 4] >> owner % 4 * 16 & 0xffff;
}

/* Which of a page's shares count, and how much. */
static __always_inline __u64 weights(__u64 shares, __u32 word, __u32 last)
{
	if (sharing == EQUALLY)
		return present(shares) >> 15;
	if (sharing == TO_LAST)
		return last / 4 == word ? shares & 0xffffULL << last % 4 * 16 : 0;
	return shares;
}

/* So many binary places of a quotient that no product with less than the divisor is rounded wrongly:
 * the square of the greatest sum of shares is less. */
#define QUOTIENT_PLACES 44

/* Divides the bytes of one page among those who have a share in it: none is lost by rounding. */
static __always_inline void divide(struct taken *taken, __u64 *shares, __u32 last, __u32 bytes)
{
	__u64 total = 0, sum = 0, given = 0, until, quotient, words[SHARE_WORDS];

	for (__u32 i = 0; i < SHARE_WORDS; i++)
		words[i] = weights(shares[i], i, last);
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		total += lane(words, i);
	/* No branches from here on: the verifier would follow each combination. */
	total += !total;
	quotient = (((__u64)bytes << QUOTIENT_PLACES) + total - 1) / total;
	for (__u32 i = 0; i < MAX_OWNERS; i++) {
		sum += lane(words, i);
		until = sum * quotient >> QUOTIENT_PLACES;
		taken->bytes[i] += until - given;
		given = until;
	}
}

/* Takes out what one page carries; how many shares of each owner have ended goes to `ended`. */
static __always_inline void take_page(struct chunk *chunk, struct taken *taken, __u32 page,
				      enum taker taker, bool dirty_again, __u64 *ended)
{
	union shares *flying = &chunk->flying[page], *dirty = &chunk->dirty[page];
	__u64 which = any_share(flying), shares[SHARE_WORDS], before, after, is_written;
	__u32 last;

	is_written = which | !dirty_again;
	barrier_var(is_written);
	if (taker == COMPLETING && !is_written)
		return;
	which = -which; /* all ones if what flies is what has been written */
	last = (chunk->flying_last[page] & which) | (chunk->last[page] & ~which);
	for (__u32 i = 0; i < SHARE_WORDS; i++) {
		before = present(flying->words[i]) | present(dirty->words[i]);
		shares[i] = (flying->words[i] & which) | (dirty->words[i] & ~which);
		flying->words[i] = taker == DROPPING ? 0 : flying->words[i] & ~which;
		dirty->words[i] = taker == DROPPING ? 0 : dirty->words[i] & which;
		after = present(flying->words[i]) | present(dirty->words[i]);
		ended[i] += (before & ~after) >> 15;
	}
	if (taker == COMPLETING)
		divide(taken, shares, last, overlap(page, &chunk->extent));
}

/*
 * Takes out what the bytes between two places in a chunk carry, now that they are on the device, or
 * gone. A page that is dirty again has been written as it was before. True if the chunk is empty
 * and to be removed.
 */
static __always_inline bool take(struct chunk *chunk, struct pages_key *key, struct taken *taken,
				 struct extent extent, enum taker taker, bool dirty_again)
{
	__u64 ended[SHARE_WORDS] = {};
	bool is_empty = false;

	taken->any = 0;
	__builtin_memset(taken->bytes, 0, sizeof(taken->bytes));
	__builtin_memset(taken->ended, 0, sizeof(taken->ended));
	bpf_spin_lock(&chunk->lock);
	if (!is_key(&chunk->key, key))
		goto out;
	chunk->extent = extent;
#pragma clang loop unroll(disable)
	for (__u32 page = 0; page < CHUNK_PAGES; page++) {
		if (begins_after(&chunk->extent, page))
			continue;
		if (ends_before(&chunk->extent, page))
			break;
		take_page(chunk, taken, page, taker, dirty_again, ended);
	}
	for (__u32 i = 0; i < MAX_OWNERS; i++) {
		taken->ended[i] = lane(ended, i);
		chunk->owners[i].held -= taken->ended[i];
		chunk->held -= taken->ended[i];
		taken->any |= taken->ended[i] | taken->bytes[i];
		if (taken->ended[i] | taken->bytes[i])
			taken->causes[i] = chunk->owners[i].cause;
	}
	is_empty = !chunk->held;
	if (is_empty)
		chunk->key.mapping = 0;
out:
	bpf_spin_unlock(&chunk->lock);
	return is_empty;
}

__noinline int drop_chunk(struct range *range, __u32 number)
{
	struct taken *taken = takings_of(DROPPING);
	struct extent extent;
	struct pages_key key;
	struct chunk *chunk;

	if (!range || !taken)
		return 0;
	key = chunk_key(range, number);
	chunk = bpf_map_lookup_elem(&chunks, &key);
	if (!chunk)
		return 0;
	extent = extent_of(range->from, range->to, key.number << CHUNK_SHIFT);
	if (take(chunk, &key, taken, extent, DROPPING, false))
		remove_chunk(&key);
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (taken->ended[i])
			pends(&taken->causes[i], -taken->ended[i]);
	return 0;
}

static long drop_one(__u32 number, struct range *range)
{
	drop_chunk(range, number);
	return 0;
}

#endif
