/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Owners of the dirty pages of files: the last process that made them dirty, until they are written. Sixteen in
 * a row have one entry in the table.
 *
 * A folio becomes dirty as one, so its owner has all pages of it, whichever of them it wrote to; writes to a
 * folio that is dirty already are not seen. Pages that an unfollowed process makes dirty have no owner.
 */
#ifndef WEIGH_IO_OWNERS_H
#define WEIGH_IO_OWNERS_H

#include "file.h"
#include "access_rules.h"
#include "../folio.h"
#include "../page_entries.h"

#define OWNED_PAGES 16
#define MAX_OWNED 65536
#define MOST_OWNED (1 << 20) /* of one folio */
#define OWNING_ATTEMPTS 16

struct owned {
	struct bpf_spin_lock lock;
	struct pages_key key;
	__u64 held; /* pages that somebody owns */
	/* Kept here to be hidden from the verifier, which would follow each value they can have. */
	__u32 from, to;
	__u64 of[OWNED_PAGES]; /* process and thread; 0: nobody */
};

/*
 * Made beforehand: else each CPU begins with four entries, and gets no more while a folio becomes dirty, with
 * interrupts off. A large one takes up to 32. Where little can be dirty at once there are fewer of them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OWNED);
	__type(key, struct pages_key);
	__type(value, struct owned);
} owned_pages SEC(".maps");

const volatile __u8 new_owned[sizeof(struct owned)];
__u64 live_owned;

/* Pages of a file in a row, and whose they are from now on. */
struct owning {
	__u64 mapping;
	__u64 from, to; /* pages */
	__u64 owner;
};

/* An entry's pages from one to before another become the owner's. The lock is held. */
static __always_inline void own_pages(struct owned *owned, __u32 from, __u32 to, __u64 owner)
{
	__u64 owns = ~is_equal(owner, 0) & 1;

	owned->from = from;
	owned->to = to;
#pragma clang loop unroll(disable)
	for (__u32 page = 0; page < OWNED_PAGES; page++) {
		if (page < HIDDEN(owned->from))
			continue;
		if (page >= HIDDEN(owned->to))
			break;
		owned->held += owns - (~is_equal(owned->of[page], 0) & 1);
		owned->of[page] = owner;
	}
	if (!owned->held)
		owned->key.mapping = 0;
}

static __always_inline void drop_owned(struct pages_key *key)
{
	drop_entry_of_pages(&owned_pages, key, &live_owned);
}

/* What of an entry's pages lies in the range becomes the owner's. False if it is about to leave the table, or made. */
static __always_inline bool own_here(struct owned *owned, struct pages_key *key, bool is_new,
				     struct owning *owning)
{
	__u64 start = key->number * OWNED_PAGES;
	__u64 from = owning->from > start ? owning->from - start : 0;
	__u64 to = owning->to - start;
	bool alive, is_left = false;

	bpf_spin_lock(&owned->lock);
	if (is_new)
		owned->key = *key;
	alive = is_key(&owned->key, key);
	if (alive) {
		own_pages(owned, from, to < OWNED_PAGES ? to : OWNED_PAGES, owning->owner);
		is_left = !owned->held;
	}
	bpf_spin_unlock(&owned->lock);
	if (is_left)
		drop_owned(key);
	return alive;
}

/* Global: the verifier looks at it once, and by itself. False where it should be tried again. */
__noinline int own_entry(struct owning *owning, __u32 number)
{
	struct pages_key key;
	struct owned *owned;
	int error = -EEXIST;

	if (!owning)
		return 1;
	key.mapping = owning->mapping;
	key.number = owning->from / OWNED_PAGES + number;
	owned = bpf_map_lookup_elem(&owned_pages, &key);
	if (!owned) {
		if (!owning->owner)
			return 1;
		error = new_entry_of_pages(&owned_pages, &key, new_owned, &live_owned);
		owned = bpf_map_lookup_elem(&owned_pages, &key);
		if (!owned && error == -EEXIST)
			return 0;
		if (!owned) {
			add(&tally.lost_pages, OWNED_PAGES);
			return 1;
		}
	}
	return own_here(owned, &key, !error, owning);
}

static long own_one(__u32 number, struct owning *owning)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < OWNING_ATTEMPTS; i++)
		if (own_entry(owning, number))
			return 0;
	/* Each time somebody was about to take the entry out, or to make it, and had not come to it. What was to be
	 * nobody's is. */
	if (owning->owner)
		add(&tally.lost_pages, OWNED_PAGES);
	return 0;
}

static __always_inline void own(struct owning *owning)
{
	__u64 entries;

	if (owning->from >= owning->to)
		return;
	entries = (owning->to - 1) / OWNED_PAGES - owning->from / OWNED_PAGES + 1;
	bpf_loop(entries < MOST_OWNED ? entries : MOST_OWNED, own_one, owning, 0);
}

/* Pages in a row, within one entry, that a device is done with. */
struct disowned {
	__u64 mapping, page;
	__u64 owner; /* found: of the first ones */
	__u32 pages; /* so many there are; found: so many are the owner's */
	__u32 is_kept; /* they are dirty again, and stay whose they are */
};

/* Global, as above. */
__noinline int disown(struct disowned *run)
{
	__u32 first, end = 0;
	struct pages_key key;
	struct owned *owned;
	__u64 owner;
	bool is_left = false;

	if (!run)
		return 0;
	run->owner = 0;
	key.mapping = run->mapping;
	key.number = run->page / OWNED_PAGES;
	owned = bpf_map_lookup_elem(&owned_pages, &key);
	if (!owned)
		return 0;
	first = run->page % OWNED_PAGES;
	bpf_spin_lock(&owned->lock);
	if (!is_key(&owned->key, &key)) {
		bpf_spin_unlock(&owned->lock);
		return 0;
	}
	owner = owned->of[first];
	owned->from = first;
	owned->to = first + run->pages;
#pragma clang loop unroll(disable)
	for (__u32 page = 0; page < OWNED_PAGES; page++) {
		if (page < HIDDEN(owned->from))
			continue;
		if (page >= HIDDEN(owned->to) || HIDDEN(owned->of[page]) != owner)
			break;
		end = page + 1;
	}
	if (owner && !run->is_kept) {
		own_pages(owned, first, end, 0);
		is_left = !owned->held;
	}
	bpf_spin_unlock(&owned->lock);
	run->owner = owner;
	run->pages = end - first;
	if (is_left)
		drop_owned(&key);
	return 0;
}

/*
 * The followed process, and thread where they are told apart; 0 if this one is not, or is one whose files the
 * job's owner may not know of.
 */
static __always_inline __u64 doer(struct task_struct *task, struct io_window *window)
{
	__u32 tid = by_thread ? task->pid : 0;

	if (!window && !(task->flags & PF_IO_WORKER && process_of(task->tgid)))
		return 0;
	if (is_apart(task->tgid))
		return 0;
	return (__u64)task->tgid << 32 | tid;
}

/* Whether its pages come to a block device from here. */
static __always_inline bool has_device(struct inode *inode)
{
	struct super_block *super;

	if (CAN_FOLLOW) {
		inode = FOLLOW(inode, inode);
		super = inode->i_sb;
		return (inode->i_mode & S_IFMT) == S_IFREG &&
		       (super->s_bdev || super->s_magic == BTRFS_SUPER_MAGIC);
	}
	super = BPF_CORE_READ(inode, i_sb);
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG &&
	       (BPF_CORE_READ(super, s_bdev) ||
		BPF_CORE_READ(super, s_magic) == BTRFS_SUPER_MAGIC);
}

#endif
