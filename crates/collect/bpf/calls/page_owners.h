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

/* Owners of a chunk, as one look at all of them finds them: by their numbers + 1. */
struct places {
	__u64 same, of_account; /* the owner itself; one of the same account */
	__u64 empty; /* nobody's */
	__u64 empty_places; /* so many */
};

struct chunk {
	struct bpf_spin_lock lock;
	struct pages_key key;
	__u64 held; /* by all owners */
	__u8 last[CHUNK_PAGES], flying_last[CHUNK_PAGES];
	/* Kept here to be hidden from the verifier, which would follow each value they can have. */
	struct extent extent, just;
	__u64 found; /* an owner's number */
	/* One after the other, and not on the stack: there is little of it. */
	union {
		struct places places;
		struct {
			__u64 full; /* bit set of pages where a share would be more than it can be */
			__u64 newly; /* pages that an owner had no share in */
		};
	};
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

/*
 * A page that the chunk's extent touches: of those in a row the one with this number. False behind the last. Nothing is
 * known of it beforehand, so that the verifier follows no way for each.
 */
static __always_inline bool next_page(struct chunk *chunk, __u32 number, __u64 *page)
{
	__u64 next = (HIDDEN(chunk->extent.from) >> PAGE_SHIFT) + number;

	if (next << PAGE_SHIFT >= HIDDEN(chunk->extent.to))
		return false;
	barrier_var(next);
	*page = next & (CHUNK_PAGES - 1);
	return true;
}

#define FOR_PAGES(chunk, page)                                                                     \
	_Pragma("clang loop unroll(disable)") for (__u64 number_ = 0, page;                        \
						   number_ < CHUNK_PAGES &&                        \
						   next_page(chunk, number_, &page);               \
						   number_++)

/* Bytes of a page that lie in an extent. */
static __always_inline __u32 overlap(__u64 page, struct extent *extent)
{
	__s64 start = (__s64)page << PAGE_SHIFT, end = start + PAGE_BYTES;
	__s64 before = not_below_zero((__s64)HIDDEN(extent->from) - start);
	__s64 after = not_below_zero(end - (__s64)HIDDEN(extent->to));

	return not_below_zero((__s64)PAGE_BYTES - before - after);
}

/* So many places stay for others where each call of an account is an owner by itself. */
#define PLACES_FOR_OTHERS 2

/* What a remainder is at most the verifier does not see; and of a copy with fewer bits it forgets this. */
static __always_inline __u64 found(struct chunk *chunk)
{
	__u64 owner = HIDDEN(chunk->found);

	if (owner >= MAX_OWNERS)
		owner = 0;
	barrier_var(owner);
	return owner;
}

/* Zero if the causes are one owner: where each call is told, those of one account are not. */
static __always_inline __u64 differ_by(struct cause *one, struct cause *other)
{
	return tells_later ? one->sequence ^ other->sequence : 0;
}

/* Without branches: the verifier follows each combination. The first one comes last, and is found. */
static __always_inline void look_at_owner(struct places *places, struct owner *owner, struct cause *cause,
					  __u64 number)
{
	__u64 held = is_any(owner->held), differs = difference(&owner->cause, cause);
	__u64 same = held & ~is_any(differs | differ_by(&owner->cause, cause));

	places->same += same * number;
	if (tells_later)
		places->of_account += (held & ~is_any(differs)) * (number - places->of_account);
	places->empty += (1 - held) * (number - places->empty);
	places->empty_places += 1 - held;
}

/* Which of the chunk's owners; false if it is none, and leaves no more than so many places. The lock is held. */
static __always_inline bool find_owner(struct chunk *chunk, struct cause *cause, bool or_new, __u32 leaves)
{
	struct owner *owner = &chunk->owners[found(chunk)];
	struct places *places = &chunk->places;
	__u64 number;

	/* Nearly always it is who was found last. */
	if (owner->held && !(difference(&owner->cause, cause) | differ_by(&owner->cause, cause)))
		return true;
	__builtin_memset(places, 0, sizeof(*places));
#pragma clang loop unroll(disable)
	for (number = MAX_OWNERS; number; number--)
		look_at_owner(places, &chunk->owners[number - 1], cause, number);
	number = places->same;
	/* There is no room for each of many small writes: the account has what they cost all the same. */
	if (tells_later && !number && (!or_new || places->empty_places <= PLACES_FOR_OTHERS))
		number = places->of_account;
	if (!number) {
		if (!or_new || places->empty_places <= leaves)
			return false;
		number = places->empty;
	}
	chunk->found = number - 1;
	owner = &chunk->owners[found(chunk)];
	if (!owner->held)
		owner->cause = *cause;
	return true;
}

/* Older bytes of all count half, but not less than one: the proportions stay. */
static __always_inline void halve(union shares *shares)
{
	for (__u32 i = 0; i < SHARE_WORDS; i++)
		shares->words[i] = (shares->words[i] >> 1 & 0x7fff7fff7fff7fff) +
				   (shares->words[i] & 0x0001000100010001);
}

/* Where the sum is too large the share stays as it is, and the page is noted. `stays`: 1 if the last owner does. */
static __always_inline void add_share(struct chunk *chunk, __u64 page, __u64 owner, __u64 bytes, __u64 stays)
{
	__u64 share = chunk->dirty[page].of[owner], last = chunk->last[page], full = (MAX_SHARE - share - bytes) >> 63;

	barrier_var(full);
	chunk->dirty[page].of[owner] = share + bytes * (1 - full);
	chunk->full |= full << page;
	chunk->last[page] = owner + stays * (last - owner);
}

/* Those pages: one is written to again and again before the device has it. */
static __always_inline void add_to_full(struct chunk *chunk, __u64 owner)
{
	FOR_PAGES(chunk, page) {
		if (!(HIDDEN(chunk->full) >> page & 1))
			continue;
		halve(&chunk->dirty[page]);
		chunk->dirty[page].of[owner] += overlap(page, &chunk->extent);
	}
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
