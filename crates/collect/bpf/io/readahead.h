/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pages that came into the page cache under calls that read, and wait to be used: sixty-four in a row have one
 * entry in the table, with a bit for each page of each of up to four who had them read.
 *
 * A call of the job that reads or writes a page uses it. What still has its bit when it leaves the cache, or when
 * the job has ended, was never used. Where a file is mapped, or read at a place that nobody knows, pages may be
 * used and nobody sees it: then who had them read is told that there is a doubt.
 */
#ifndef WEIGH_IO_AHEAD_H
#define WEIGH_IO_AHEAD_H

#include "overlay.h"
#include "../folio.h"
#include "../page_entries.h"

#define AHEAD_PAGES 64
#define AHEAD_READERS 4
#define MAX_AHEAD 131072
#define MOST_AHEAD (1 << 20) /* entries for one access */
#define AHEAD_ATTEMPTS 16
#define AHEAD_FILES 4096

struct ahead_of {
	__u64 who; /* process and thread */
	__u64 pages;
};

struct ahead {
	struct bpf_spin_lock lock;
	struct pages_key key;
	__u64 inode; /* a mapping's address may be another file's by now, if nobody saw the pages go */
	struct ahead_of of[AHEAD_READERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_AHEAD);
	__type(key, struct pages_key);
	__type(value, struct ahead);
} aheads SEC(".maps");

const volatile __u8 new_ahead[sizeof(struct ahead)];
/* By file, of a few files together; and of all: with none, no file's pages have to be looked for. */
__u32 live_ahead[AHEAD_FILES];
__u64 live_aheads;

enum reaching {
	COMES, /* into the page cache */
	USED,
	LEAVES, /* the page cache */
	DOUBTED,
};

/* Pages of a file in a row, and what becomes of them. */
struct reach {
	__u64 mapping, from, to; /* pages */
	__u64 who;
	__u32 what;
	__u32 is_doubtful; /* those that come */
	struct io_key key; /* of the file */
};

static __always_inline __u32 ahead_place(__u64 mapping)
{
	__u32 low;

	/* The verifier lets nobody compute with a pointer, but takes a half of it for a number. */
	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)mapping));
	return (low >> 6 ^ low >> 18) & (AHEAD_FILES - 1);
}

static __always_inline bool any_ahead(__u64 mapping)
{
	return live_ahead[ahead_place(mapping)];
}

/* Those of an entry's pages that are in reach. */
static __always_inline __u64 reached(struct reach *reach, __u64 number)
{
	__u64 start = number * AHEAD_PAGES, bits = ~0ULL;

	if (reach->to <= start || reach->from >= start + AHEAD_PAGES)
		return 0;
	if (reach->to < start + AHEAD_PAGES)
		bits = (1ULL << ((reach->to - start) & 63)) - 1;
	if (reach->from > start)
		bits &= ~0ULL << ((reach->from - start) & 63);
	return bits;
}

static __always_inline __u64 bytes_of(__u64 pages)
{
	return (__u64)__builtin_popcountll(pages) << PAGE_SHIFT;
}

/* Charges what has become of pages to the process that had them read. Global: verified once. */
__noinline int charge_ahead(struct reach *reach, __u64 who, __u64 bytes)
{
	struct io_device *device;
	struct io_key key;

	if (!reach)
		return 0;
	key = reach->key;
	key.pid = who >> 32;
	key.tid = who;
	if (reach->what != COMES) {
		device = bpf_map_lookup_elem(&devices, &key);
		if (device && reach->what == USED)
			add(&device->ahead, -bytes);
		else if (device)
			add(&device->doubts, 1);
		return 0;
	}
	device = device_for(&key);
	if (!device)
		return -1;
	add(&device->ahead, bytes);
	if (reach->is_doubtful)
		add(&device->doubts, 1);
	return 0;
}

/* What of the reach waits here is taken out, or only looked for; true if the entry is to leave the table now. */
static __always_inline bool take_ahead(struct ahead *ahead, struct pages_key *key, struct reach *reach,
				       struct ahead_of *taken)
{
	__u64 bits = reached(reach, key->number), left = 0, is_same;
	__u64 keep = reach->what == DOUBTED ? ~0ULL : ~bits;
	bool alive;

	bpf_spin_lock(&ahead->lock);
	alive = is_key(&ahead->key, key);
	if (alive) {
		is_same = ahead->inode == reach->key.inode ? ~0ULL : 0;
		ahead->inode = reach->key.inode;
#pragma unroll
		for (int i = 0; i < AHEAD_READERS; i++) {
			__u64 pages = ahead->of[i].pages & is_same;

			taken[i].who = ahead->of[i].who;
			taken[i].pages = pages & bits;
			ahead->of[i].pages = pages & keep;
			left |= pages & keep;
		}
		if (!left)
			ahead->key.mapping = 0;
	}
	bpf_spin_unlock(&ahead->lock);
	return alive && !left;
}

/* Nobody finds it any more. */
static __always_inline void drop_ahead(struct pages_key *key)
{
	__u32 place = ahead_place(key->mapping);

	if (bpf_map_delete_elem(&aheads, key))
		return;
	add(&live_ahead[place], -1);
	add(&live_aheads, -1);
}

/* Pages that were there, or are no longer. Global, as above. */
__noinline int pass_ahead(struct reach *reach, __u32 number)
{
	struct ahead_of taken[AHEAD_READERS] = {};
	struct pages_key key;
	struct ahead *ahead;

	if (!reach)
		return 1;
	key.mapping = reach->mapping;
	key.number = reach->from / AHEAD_PAGES + number;
	ahead = bpf_map_lookup_elem(&aheads, &key);
	if (!ahead)
		return 1;
	/* In one that somebody is about to take out, or to fill, there is nothing yet, or any more. */
	if (take_ahead(ahead, &key, reach, taken))
		drop_ahead(&key);
	if (reach->what == LEAVES)
		return 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < AHEAD_READERS; i++)
		if (taken[i].pages)
			charge_ahead(reach, taken[i].who, bytes_of(taken[i].pages));
	return 1;
}

enum outcome {
	DONE,
	NO_ROOM,
	LEAVING,
};

/* The lock is held. */
static __always_inline enum outcome set_ahead(struct ahead *ahead, struct pages_key *key, struct reach *reach)
{
	enum outcome outcome = NO_ROOM;
	bool is_same = ahead->inode == reach->key.inode;
	__u64 bits = reached(reach, key->number);

	if (!is_key(&ahead->key, key))
		return LEAVING;
	ahead->inode = reach->key.inode;
#pragma unroll
	for (int i = 0; i < AHEAD_READERS; i++) {
		__u64 pages = is_same ? ahead->of[i].pages & ~bits : 0;

		/* A reader that has some of them already comes first: none is in two places. */
		if (outcome != DONE && pages && ahead->of[i].who == reach->who) {
			pages |= bits;
			outcome = DONE;
		}
		ahead->of[i].pages = pages;
	}
#pragma unroll
	for (int i = 0; i < AHEAD_READERS; i++) {
		if (outcome != DONE && !ahead->of[i].pages) {
			ahead->of[i].who = reach->who;
			ahead->of[i].pages = bits;
			outcome = DONE;
		}
	}
	return outcome;
}

static __always_inline enum outcome put_ahead(struct pages_key *key, struct reach *reach)
{
	struct ahead *ahead = bpf_map_lookup_elem(&aheads, key);
	__u32 place = ahead_place(key->mapping);
	enum outcome outcome;
	int error = -EEXIST;

	if (!ahead) {
		error = new_entry_of_pages(&aheads, key, new_ahead, &live_ahead[place]);
		if (!error)
			add(&live_aheads, 1);
		ahead = bpf_map_lookup_elem(&aheads, key);
		if (!ahead)
			return error == -EEXIST ? LEAVING : NO_ROOM;
	}
	bpf_spin_lock(&ahead->lock);
	if (!error)
		ahead->key = *key;
	outcome = set_ahead(ahead, key, reach);
	bpf_spin_unlock(&ahead->lock);
	return outcome;
}

/* Pages come. Global, as above. False where it should be tried again. */
__noinline int come_ahead(struct reach *reach, __u32 number)
{
	enum outcome outcome = NO_ROOM;
	struct pages_key key;
	__u64 bytes;

	if (!reach)
		return 1;
	key.mapping = reach->mapping;
	key.number = reach->from / AHEAD_PAGES + number;
	bytes = bytes_of(reached(reach, key.number));
	/* Before anybody can find them to be used. */
	if (!charge_ahead(reach, reach->who, bytes)) {
		outcome = put_ahead(&key, reach);
		if (outcome == DONE)
			return 1;
		reach->what = USED;
		charge_ahead(reach, reach->who, bytes);
		reach->what = COMES;
	}
	if (outcome == LEAVING)
		return 0;
	add(&tally.lost_ahead, bytes >> PAGE_SHIFT);
	return 1;
}

static long reach_one(__u32 number, struct reach *reach)
{
	if (reach->what != COMES) {
		pass_ahead(reach, number);
		return 0;
	}
#pragma clang loop unroll(disable)
	for (int i = 0; i < AHEAD_ATTEMPTS; i++)
		if (come_ahead(reach, number))
			return 0;
	/* Each time somebody was about to take the entry out, and had not come to it. */
	add(&tally.lost_ahead, __builtin_popcountll(reached(reach, reach->from / AHEAD_PAGES + number)));
	return 0;
}

static __always_inline void reach_all(struct reach *reach)
{
	__u64 entries;

	if (reach->from >= reach->to)
		return;
	entries = (reach->to - 1) / AHEAD_PAGES - reach->from / AHEAD_PAGES + 1;
	bpf_loop(entries < MOST_AHEAD ? entries : MOST_AHEAD, reach_one, reach, 0);
}

static __always_inline void reach_file(struct reach *reach, struct inode *inode)
{
	reach->from = 0;
	reach->to = (BPF_CORE_READ(inode, i_size) >> PAGE_SHIFT) + 1;
	reach->what = DOUBTED;
}

/* A file may be used at places that nobody will know. */
static __noinline int doubt_ahead(struct io_file *file)
{
	struct reach reach = {};

	if (!file->inode || (file->mode & S_IFMT) != S_IFREG)
		return 0;
	reach.mapping = (__u64)mapping_of_file(file);
	if (!any_ahead(reach.mapping))
		return 0;
	reach.key = file->key;
	reach_file(&reach, file->inode);
	reach_all(&reach);
	return 0;
}

/*
 * Pages that bytes were read from, or written to. Past the page cache as far as is known, and through it where the
 * file system makes that of it: then nobody knows whether they were used.
 */
static __noinline int use_range(__u64 mapping, struct io_key *key, __u64 from, __u64 bytes,
				bool is_direct)
{
	struct reach reach = { .mapping = mapping, .what = is_direct ? DOUBTED : USED };

	if (!bytes || !any_ahead(mapping))
		return 0;
	reach.key = *key;
	reach.from = from >> PAGE_SHIFT;
	reach.to = ((from + bytes - 1) >> PAGE_SHIFT) + 1;
	reach_all(&reach);
	return 0;
}

static __always_inline void use_ahead(struct io_file *file, struct io_doing *did)
{
	use_range((__u64)mapping_of_file(file), &file->key, did->from, did->bytes, false);
}

/* What was done with a file is done with what waits of it. */
static __always_inline void settle_ahead(struct io_file *file, struct io_doing *did)
{
	if (!live_aheads || (file->mode & S_IFMT) != S_IFREG || did->failed)
		return;
	if (did->deed == DID_MAP || (did->deed == DID_MOVE && !did->is_placed))
		doubt_ahead(file);
	else if (did->deed == DID_MOVE)
		use_ahead(file, did);
}

static __always_inline bool is_mapped(struct address_space *mapping)
{
	return BPF_CORE_READ((struct address_space___io *)mapping, i_mmap.rb_root.rb_node);
}

#endif
