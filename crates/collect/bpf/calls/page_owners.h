/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sixteen pages of a file in a row, and what each of up to twenty owners wrote to each of them: so many that each
 * page can be another's, as in a log to which requests append. The last places are kept for those who
 * stand for all that come after: see places_left_by().
 *
 * What is done to a chunk under its lock is done page by page, and the verifier follows each page:
 * so there are as few branches as may be, and what a branch depends on is read from the table anew,
 * where its value cannot be known beforehand.
 */
#ifndef WEIGH_CALLS_PAGE_OWNERS_H
#define WEIGH_CALLS_PAGE_OWNERS_H

#include "causes.h"
#include "../folio.h"
#include "../page_entries.h"

#define CHUNK_SHIFT 16
#define CHUNK_BYTES (1ULL << CHUNK_SHIFT)
#define CHUNK_PAGES (1 << (CHUNK_SHIFT - PAGE_SHIFT))
#define MAX_OWNERS 20
#define MAX_CHUNKS 65536
#define MAX_SHARE 0xffff

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

/* A part of a chunk, in bytes from its start. */
struct extent {
	__u32 from, to;
};

/* Bytes that each owner wrote to a page. */
#define SHARE_WORDS (MAX_OWNERS / 4)

union shares {
	__u16 of[MAX_OWNERS];
	__u64 words[SHARE_WORDS];
};

struct chunk {
	struct bpf_spin_lock lock;
	struct pages_key key;
	__u64 held; /* by all owners */
	__u8 last[CHUNK_PAGES], flying_last[CHUNK_PAGES];
	/* Kept here to be hidden from the verifier, which would follow each value they can have. */
	struct extent extent, just;
	__u64 found; /* an owner's number */
	union shares dirty[CHUNK_PAGES], flying[CHUNK_PAGES]; /* as it is, and on its way */
	struct owner owners[MAX_OWNERS];
};

/*
 * Made beforehand: else each CPU begins with one entry, has seven to 23 later on, and gets no more while a folio
 * becomes dirty by a store, with interrupts off. A large one takes up to 32. Where little can be dirty at once
 * there are fewer of them, and one only where nobody follows the page cache.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CHUNKS);
	__type(key, struct pages_key);
	__type(value, struct chunk);
} chunks SEC(".maps");

const volatile __u8 new_chunk[sizeof(struct chunk)];
__u64 live_chunks;

/*
* A new one (no error) has no key yet: its maker sets one, under its lock. One that exists can be gone
 * by the time that it is looked up.
 */
static __always_inline struct chunk *chunk_for(struct pages_key *key, int *error)
{
	struct chunk *chunk = bpf_map_lookup_elem(&chunks, key);

	*error = -EEXIST;
	if (chunk)
		return chunk;
	*error = new_entry_of_pages(&chunks, key, new_chunk, &live_chunks);
	return bpf_map_lookup_elem(&chunks, key);
}

static __always_inline void remove_chunk(struct pages_key *key)
{
	drop_entry_of_pages(&chunks, key, &live_chunks);
}

/* Zero if it is less; without a branch, which the compiler would make of it. */
static __always_inline __s64 not_below_zero(__s64 number)
{
	__s64 sign = number >> 63;

	barrier_var(sign);
	return number & ~sign;
}

/* Whether an extent begins after a page, or ends before it. */
static __always_inline bool begins_after(struct extent *extent, __u32 page)
{
	return HIDDEN(extent->from) >= (page + 1) << PAGE_SHIFT;
}

static __always_inline bool ends_before(struct extent *extent, __u32 page)
{
	return HIDDEN(extent->to) <= page << PAGE_SHIFT;
}

/* Bytes of a page that lie in an extent. */
static __always_inline __u32 overlap(__u32 page, struct extent *extent)
{
	__s64 start = (__s64)page << PAGE_SHIFT, end = start + PAGE_BYTES;
	__s64 before = not_below_zero((__s64)HIDDEN(extent->from) - start);
	__s64 after = not_below_zero(end - (__s64)HIDDEN(extent->to));

	return not_below_zero((__s64)PAGE_BYTES - before - after);
}

/* So many places stay for others where each call of an account is an owner by itself. */
#define PLACES_FOR_OTHERS 2

/* Whether the causes are one owner: where each call is told, those of one account are not. */
static __always_inline bool same_owner(struct cause *one, struct cause *other)
{
	return same_account(one, other) && (!tells_later || one->sequence == other->sequence);
}

static __always_inline __u64 free_places(struct chunk *chunk)
{
	__u64 free = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		free += (chunk->owners[i].held - 1) >> 63; /* without a branch */
	return free;
}

/* Which of the chunk's owners; false if it is none, and leaves no more than so many places. The lock is held. */
static __always_inline bool find_owner(struct chunk *chunk, struct cause *cause, bool or_new, __u32 leaves)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (chunk->owners[i].held && same_owner(&chunk->owners[i].cause, cause)) {
			chunk->found = i;
			return true;
		}
	/* There is no room for each of many small writes: the account has what they cost all the same. */
	if (tells_later && (!or_new || free_places(chunk) <= PLACES_FOR_OTHERS))
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < MAX_OWNERS; i++)
			if (chunk->owners[i].held &&
			    same_account(&chunk->owners[i].cause, cause)) {
				chunk->found = i;
				return true;
			}
	if (!or_new || free_places(chunk) <= leaves)
		return false;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_OWNERS; i++)
		if (!chunk->owners[i].held) {
			chunk->owners[i].cause = *cause;
			chunk->found = i;
			return true;
		}
	return false;
}

/* What a remainder is at most the verifier does not see; and of a copy with fewer bits it forgets this. */
static __always_inline __u64 found(struct chunk *chunk)
{
	__u64 owner = HIDDEN(chunk->found);

	if (owner >= MAX_OWNERS)
		owner = 0;
	barrier_var(owner);
	return owner;
}

/* Older bytes of all count half, but not less than one: the proportions stay. */
static __always_inline void halve(union shares *shares)
{
	for (__u32 i = 0; i < SHARE_WORDS; i++)
		shares->words[i] = (shares->words[i] >> 1 & 0x7fff7fff7fff7fff) +
				   (shares->words[i] & 0x0001000100010001);
}

static __always_inline void add_share(struct chunk *chunk, __u32 page, __u64 owner, __u32 bytes)
{
	__u32 share = chunk->dirty[page].of[owner] + bytes;

	if (share > MAX_SHARE) {
		halve(&chunk->dirty[page]);
		share = chunk->dirty[page].of[owner] + bytes;
	}
	chunk->dirty[page].of[owner] = share;
	chunk->last[page] = owner;
}

/* The highest bit of each of four shares that is not zero. */
static __always_inline __u64 present(__u64 word)
{
	return (((word & 0x7fff7fff7fff7fff) + 0x7fff7fff7fff7fff) | word) & 0x8000800080008000;
}

/* 1 if anybody has a share, 0 if nobody has. */
static __always_inline __u64 any_share(union shares *shares)
{
	__u64 all = 0;

	for (__u32 i = 0; i < SHARE_WORDS; i++)
		all |= shares->words[i];
	all |= -all;
	barrier_var(all);
	return all >> 63;
}

#endif
