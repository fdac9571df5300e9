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
 * share that flies and is dirty again brings bytes, and does not end. Here and not on the stack, where the verifier
 * would follow each number that there can be.
 */
struct taken {
	__u64 any_ended;
	__u64 divided; /* so many bytes, all owners together */
	__u64 is_clean; /* all ones; 0 if the pages are dirty again */
	__u64 ended[SHARE_WORDS]; /* shares of each owner: see lane() */
	__u64 had[SHARE_WORDS]; /* not zero for each owner that has had a share in what completes */
	struct cause causes[MAX_OWNERS]; /* of those who have either */
	__u64 bytes[MAX_OWNERS];
	/* Copied under the chunk's lock, where nothing may be called; divided after it. */
	struct taken_page {
		__u64 shares[SHARE_WORDS];
		__u32 last, bytes;
	} pages[CHUNK_PAGES];
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

/* The sum of four numbers of sixteen bits each, as two halves: so many of these can be added up. */
static __always_inline __u64 halves(__u64 word)
{
	return (word & 0x0000ffff0000ffff) + (word >> 16 & 0x0000ffff0000ffff);
}

/* Divides the bytes of one page among those who have a share in it: none is lost by rounding. */
static __always_inline void divide(struct taken *taken, struct taken_page *page)
{
	__u64 total = 0, sum = 0, given = 0, until, quotient, words[SHARE_WORDS];

	for (__u32 i = 0; i < SHARE_WORDS; i++) {
		words[i] = weights(page->shares[i], i, page->last);
		total += halves(words[i]);
	}
	total = (__u32)total + (total >> 32);
	if (!total)
		return;
	taken->divided += page->bytes;
	quotient = (((__u64)page->bytes << QUOTIENT_PLACES) + total - 1) / total;
	for (__u32 i = 0; i < MAX_OWNERS; i++) {
		sum += lane(words, i);
		until = sum * quotient >> QUOTIENT_PLACES;
		taken->bytes[i] += until - given;
		given = until;
	}
}

/* Pages in a row, from this one on. */
struct dividing {
	struct taken *taken;
	__u32 first;
};

static long divide_page(__u32 number, struct dividing *dividing)
{
	__u32 page = dividing->first + number;

	if (page >= CHUNK_PAGES)
		return 1;
	divide(dividing->taken, &dividing->taken->pages[page]);
	return 0;
}

/* What was taken of the pages that the extent touches. */
static __always_inline void divide_pages(struct taken *taken, struct extent extent)
{
	struct dividing dividing = { taken, extent.from >> PAGE_SHIFT };
	__u32 end = (extent.to + PAGE_BYTES - 1) >> PAGE_SHIFT;

	if (end > dividing.first)
		bpf_loop(end - dividing.first, divide_page, &dividing, 0);
}

/* Takes out what one page carries: what flies, if anything does, for that is what has been written. */
static __always_inline void take_page(struct chunk *chunk, struct taken *taken, __u64 page,
				      enum taker taker)
{
	union shares *flying = &chunk->flying[page], *dirty = &chunk->dirty[page];
	struct taken_page *taken_page = &taken->pages[page];
	__u64 which = -any_share(flying), keep = 0, flies, is_dirty, left;

	if (taker == COMPLETING)
		keep = which | ~HIDDEN(taken->is_clean);
	/* Nearly no branches here and below: the verifier follows each combination. */
	for (__u32 i = 0; i < SHARE_WORDS; i++) {
		flies = flying->words[i];
		is_dirty = dirty->words[i];
		left = is_dirty & keep;
		flying->words[i] = 0;
		dirty->words[i] = left;
		taken->ended[i] += (present(flies | is_dirty) & ~present(left)) >> 15;
		if (taker == DROPPING)
			continue;
		taken_page->shares[i] = flies | (is_dirty & ~keep);
		taken->had[i] |= taken_page->shares[i];
	}
	if (taker == DROPPING)
		return;
	taken_page->last = (chunk->flying_last[page] & which) | (chunk->last[page] & ~which);
	taken_page->bytes = overlap(page, &chunk->extent);
}

static __always_inline void take_owner(struct chunk *chunk, struct taken *taken, __u32 number)
{
	__u64 ended = lane(taken->ended, number);
	struct owner *owner = &chunk->owners[number];

	owner->held -= ended;
	chunk->held -= ended;
	if (ended | lane(taken->had, number))
		taken->causes[number] = owner->cause;
}

/*
 * Takes out what the bytes between two places in a chunk carry, now that they are on the device, or
 * gone. A page that is dirty again has been written as it was before. True if the chunk is empty
 * and to be removed.
 */
static __always_inline bool take(struct chunk *chunk, struct pages_key *key, struct taken *taken,
				 struct extent extent, enum taker taker, bool dirty_again)
{
	bool is_empty = false;

	__builtin_memset(taken, 0, __builtin_offsetof(struct taken, causes));
	__builtin_memset(taken->bytes, 0, sizeof(taken->bytes));
	taken->is_clean = dirty_again ? 0 : -1;
	bpf_spin_lock(&chunk->lock);
	if (!is_key(&chunk->key, key)) {
		bpf_spin_unlock(&chunk->lock);
		return false;
	}
	chunk->extent = extent;
	FOR_PAGES(chunk, page)
		take_page(chunk, taken, page, taker);
	for (__u32 i = 0; i < SHARE_WORDS; i++)
		taken->any_ended |= taken->ended[i];
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		take_owner(chunk, taken, i);
	is_empty = !chunk->held;
	if (is_empty)
		chunk->key.mapping = 0;
	bpf_spin_unlock(&chunk->lock);
	if (taker == COMPLETING)
		divide_pages(taken, extent);
	return is_empty;
}

static long drop_share(__u32 number, struct taken **of)
{
	struct taken *taken = *of;
	__u64 ended;

	if (number >= MAX_OWNERS)
		return 1;
	ended = lane(taken->ended, number);
	if (ended)
		pends(&taken->causes[number], -ended);
	return 0;
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
	if (taken->any_ended)
		bpf_loop(MAX_OWNERS, drop_share, &taken, 0);
	return 0;
}

static long drop_one(__u32 number, struct range *range)
{
	drop_chunk(range, number);
	return 0;
}

#endif
