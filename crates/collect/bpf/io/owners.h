/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose the dirty pages of files are: his who made them dirty last, until they have been written. Sixteen in
 * a row have one entry in the table.
 *
 * A folio becomes dirty as one, so he has all pages of it, whichever of them he wrote to; who writes to it
 * once it is dirty is not seen. What somebody makes dirty who is not followed is nobody's.
 */
#ifndef WEIGH_IO_OWNERS_H
#define WEIGH_IO_OWNERS_H

#include "file.h"
#include "pattern.h"
#include "../calls/folio.h"

#define OWNED_PAGES 16
#define MAX_OWNED 65536
#define MOST_OWNED (1 << 20) /* of one folio */
#define OWNING_ATTEMPTS 16

struct owned_key {
	__u64 mapping, number;
};

struct owned {
	struct bpf_spin_lock lock;
	__u32 dead; /* it leaves the table in a moment */
	__u64 of[OWNED_PAGES]; /* process and thread; 0: nobody */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_OWNED);
	__type(key, struct owned_key);
	__type(value, struct owned);
} owned_pages SEC(".maps");

const volatile __u8 new_owned[sizeof(struct owned)];
/* Entries in the table: with none, nothing has to be looked for. */
__u64 live_owned;

/* Pages of a file in a row, and whose they are from now on. */
struct owning {
	__u64 mapping;
	__u64 from, to; /* pages */
	__u64 owner;
};

/* What of an entry's pages lies in the range becomes the owner's. False if it is about to leave the table. */
static __always_inline bool own_here(struct owned *owned, struct owned_key *key,
				     struct owning *owning)
{
	__u64 page = key->number * OWNED_PAGES, any = 0, within;
	bool alive, is_left = false;

	bpf_spin_lock(&owned->lock);
	alive = !owned->dead;
	if (alive) {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < OWNED_PAGES; i++) {
			within = is_less(page + i, owning->to) & ~is_less(page + i, owning->from);
			owned->of[i] = choose(within, owning->owner, owned->of[i]);
			any |= owned->of[i];
		}
		is_left = !any;
		owned->dead = is_left;
	}
	bpf_spin_unlock(&owned->lock);
	if (is_left && !bpf_map_delete_elem(&owned_pages, key))
		add(&live_owned, -1);
	return alive;
}

/* Global: the verifier looks at it once, and by itself. False where it should be tried again. */
__noinline int own_entry(struct owning *owning, __u32 number)
{
	struct owned_key key;
	struct owned *owned;

	if (!owning)
		return 1;
	key.mapping = owning->mapping;
	key.number = owning->from / OWNED_PAGES + number;
	owned = bpf_map_lookup_elem(&owned_pages, &key);
	if (!owned) {
		if (!owning->owner)
			return 1;
		if (!bpf_map_update_elem(&owned_pages, &key, (void *)new_owned, BPF_NOEXIST))
			add(&live_owned, 1);
		owned = bpf_map_lookup_elem(&owned_pages, &key);
		if (!owned) {
			add(&tally.lost_pages, OWNED_PAGES);
			return 1;
		}
	}
	return own_here(owned, &key, owning);
}

static long own_one(__u32 number, struct owning *owning)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < OWNING_ATTEMPTS; i++)
		if (own_entry(owning, number))
			return 0;
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

/* Whose a page is. */
static __always_inline __u64 owner_of(__u64 mapping, __u64 page)
{
	struct owned_key key = { mapping, page / OWNED_PAGES };
	struct owned *owned = bpf_map_lookup_elem(&owned_pages, &key);

	return owned ? owned->of[page % OWNED_PAGES] : 0;
}

/*
 * Who is followed: process, and thread where they are told apart; 0 if this one is not, or is one whose files the
 * job's owner may not know of.
 */
static __always_inline __u64 doer(struct task_struct *task)
{
	__u32 tid = by_thread ? task->pid : 0;

	if (!member(task) && !(task->flags & PF_IO_WORKER && process_of(task->tgid)))
		return 0;
	if (is_apart(task->tgid))
		return 0;
	return (__u64)task->tgid << 32 | tid;
}

static __always_inline void range_of(struct owning *owning, struct folio *folio,
				     struct address_space *mapping)
{
	owning->mapping = (__u64)mapping;
	owning->from = BPF_CORE_READ(folio, index);
	owning->to = owning->from + pages_of(folio);
}

/* Whether its pages come to a block device from here. */
static __always_inline bool has_device(struct inode *inode)
{
	struct super_block *super = BPF_CORE_READ(inode, i_sb);

	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG &&
	       (BPF_CORE_READ(super, s_bdev) ||
		BPF_CORE_READ(super, s_magic) == BTRFS_SUPER_MAGIC);
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(device__dirty, struct folio *folio, struct address_space *mapping)
{
	struct owning owning = {};
	struct inode *inode;

	if (!mapping)
		return 0;
	owning.owner = doer(bpf_get_current_task_btf());
	if (!owning.owner && !live_owned)
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	if (!inode || !has_device(inode))
		return 0;
	range_of(&owning, folio, mapping);
	own(&owning);
	return 0;
}

/* Deleted, truncated, or just not needed any more. */
SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(device__forget, struct folio *folio)
{
	struct owning owning = {};

	if (!live_owned)
		return 0;
	range_of(&owning, folio, BPF_CORE_READ(folio, mapping));
	own(&owning);
	return 0;
}

#endif
