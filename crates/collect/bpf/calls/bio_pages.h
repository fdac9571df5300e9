/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the requests that a device has completed carried of the page cache: the vectors of their bios
 * lead to folios, and those to owners. Each is charged for its bytes; the call that handed the bio
 * in, such as an fsync, is told how many of them were others', and how many were nobody's who is
 * followed. Those are of files: what a file system keeps for itself, such as its maps of blocks, has no
 * writer.
 */
#ifndef WEIGH_CALLS_CARRY_H
#define WEIGH_CALLS_CARRY_H

#include "dirty_release.h"
#include "../bio.h"

struct walk {
	struct bio_walk at;
	struct transfer request; /* the whole one */
	struct cause submitter;
	__u64 others; /* bytes that were not the submitter's own */
	__u64 others_queue_ns, others_device_ns; /* and the times that their owners are charged with */
	__u64 own; /* bytes that were */
	__u64 foreign; /* bytes of files that nobody followed made dirty; if they are looked for */
	__u64 mapping; /* of the last part: a number to the verifier, which has no arithmetic on pointers */
	__u64 of_file; /* a mapping that is known to be a file's */
	bool finds_foreign;
};

/* What one owner is charged, gathered over parts that follow each other. */
struct gathered {
	struct cause cause;
	__u64 bytes, ended;
};

/* Not on the stack: there is too little of it. */
struct carrying {
	struct walk walk;
	struct gathered gathered;
	struct transfer transfer; /* of those gathered */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct carrying);
} carryings SEC(".maps");

static __always_inline struct carrying *carrying_now(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&carryings, &key);
}

/* Time of a request is shared by bytes. */
static __always_inline void take_times(struct transfer *transfer, struct transfer *request, __u64 bytes)
{
	if (!request->bytes)
		return;
	transfer->queue_ns = request->queue_ns * bytes / request->bytes;
	transfer->device_ns = request->device_ns * bytes / request->bytes;
}

static __always_inline void charge_gathered(struct carrying *carrying)
{
	struct gathered *gathered = &carrying->gathered;
	struct walk *walk = &carrying->walk;
	struct transfer *transfer = &carrying->transfer;

	if (same_call(&gathered->cause, &walk->submitter)) {
		walk->own += gathered->bytes;
	} else if (gathered->bytes) {
		__builtin_memset(transfer, 0, sizeof(*transfer));
		transfer->requests = 1;
		take_times(transfer, &walk->request, gathered->bytes);
		transfer->bytes = gathered->bytes;
		transfer->written = gathered->bytes;
		charge_transfer(&gathered->cause, transfer);
		walk->others += gathered->bytes;
		walk->others_queue_ns += transfer->queue_ns;
		walk->others_device_ns += transfer->device_ns;
	}
	if (gathered->ended)
		pends(&gathered->cause, -gathered->ended);
	gathered->bytes = 0;
	gathered->ended = 0;
}

static long gather(__u32 number, void *unused)
{
	struct taken *taken = takings_of(COMPLETING);
	struct carrying *carrying = carrying_now();
	struct gathered *gathered;
	struct cause *cause;
	__u64 ended;

	if (!taken || !carrying || number >= MAX_OWNERS)
		return 1;
	ended = lane(taken->ended, number);
	if (!(ended | taken->bytes[number]))
		return 0;
	gathered = &carrying->gathered;
	cause = &taken->causes[number];
	if (!same_account(&gathered->cause, cause) || gathered->cause.request != cause->request ||
	    gathered->cause.sequence != cause->sequence) {
		charge_gathered(carrying);
		gathered->cause = *cause;
	}
	gathered->bytes += taken->bytes[number];
	gathered->ended += ended;
	return 0;
}

/* Whether the last part is of a file: of one, as most parts of a bio are, it is asked once. */
static __always_inline bool is_of_file(struct walk *walk)
{
	__u64 mapping = HIDDEN(walk->mapping);

	/* Low bits mark what is no mapping. */
	if (!mapping || mapping & 3)
		return false;
	if (walk->of_file == mapping)
		return true;
	if ((BPF_CORE_READ((struct address_space *)mapping, host, i_mode) & S_IFMT) != S_IFREG)
		return false;
	walk->of_file = mapping;
	return true;
}

/* The owners of so many bytes, the last part, have been found: what nobody owns is foreign. */
static __always_inline void find_foreign(struct walk *walk, __u64 bytes, struct taken *owned)
{
	if (!walk->finds_foreign)
		return;
	if (owned)
		bytes -= owned->divided;
	if (bytes && is_of_file(walk))
		walk->foreign += bytes;
}

/*
 * Whether the part had owners, who are to be gathered: not from here, for there is little room on the
 * stack. Global: the verifier is to look at it once.
 */
__noinline int complete_part(__u64 address, __u64 from, __u32 bytes)
{
	struct folio *folio = (struct folio *)address;
	struct taken *taken = takings_of(COMPLETING);
	struct carrying *carrying = carrying_now();
	struct pages_key key;
	struct extent extent;
	struct chunk *chunk;

	/* Else memory of a program, or of a file that is a direct transfer's source. */
	if (!taken || !carrying || !FOLIO_FLAG(folio, PG_writeback))
		return 0;
	from += index_of(folio) << PAGE_SHIFT;
	key.mapping = (__u64)mapping_of(folio);
	carrying->walk.mapping = key.mapping;
	key.number = from >> CHUNK_SHIFT;
	chunk = bpf_map_lookup_elem(&chunks, &key);
	if (!chunk) {
		find_foreign(&carrying->walk, bytes, 0);
		return 0;
	}
	extent.from = from & (CHUNK_BYTES - 1);
	extent.to = extent.from + bytes;
	if (take(chunk, &key, taken, extent, COMPLETING, FOLIO_FLAG(folio, PG_dirty)))
		remove_chunk(&key);
	find_foreign(&carrying->walk, bytes, taken);
	return (taken->divided | taken->any_ended) != 0;
}

/* The next part of a bio, within one chunk. */
static long walk_part(__u32 number, void *unused)
{
	struct carrying *carrying = carrying_now();
	struct bio_part part;
	__u64 most;

	if (!carrying || !next_part(&carrying->walk.at, &part))
		return 1;
	most = index_of(part.folio) << PAGE_SHIFT;
	most = CHUNK_BYTES - ((most + part.within) & (CHUNK_BYTES - 1));
	if (part.bytes > most)
		part.bytes = most;
	if (complete_part((__u64)part.folio, part.within, part.bytes))
		bpf_loop(MAX_OWNERS, gather, 0, 0);
	go_on(&carrying->walk.at, part.bytes);
	return 0;
}

/*
 * Charges the owners of the pages that a bio carried: so many of its bytes are done. Says how many
 * were the submitter's, how many were not, and, if that is to be found out, how many nobody's.
 */
static __always_inline void carry(struct bio *bio, struct transfer *transfer,
				  struct transfer *request, struct cause *submitter,
				  bool finds_foreign)
{
	struct carrying *carrying = carrying_now();
	struct walk *walk;

	if (!carrying)
		return;
	walk = &carrying->walk;
	walk->request = *request;
	walk->others = 0;
	walk->others_queue_ns = 0;
	walk->others_device_ns = 0;
	walk->own = 0;
	walk->foreign = 0;
	walk->of_file = 0;
	walk->finds_foreign = finds_foreign;
	__builtin_memset(&walk->submitter, 0, sizeof(walk->submitter));
	if (submitter)
		walk->submitter = *submitter;
	begin_walk(&walk->at, bio, transfer->bytes);
	bpf_loop(MAX_PARTS_OF_BIO, walk_part, 0, 0);
	charge_gathered(carrying);
	transfer->carried = walk->others;
	transfer->carried_queue_ns = walk->others_queue_ns;
	transfer->carried_device_ns = walk->others_device_ns;
	transfer->written = walk->own;
	transfer->foreign = walk->foreign;
	transfer->foreign_requests = walk->foreign != 0;
}

#endif
