/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Files of a file system that lies on another one (overlayfs, FUSE with passthrough): programs name the file above,
 * and its pages, in memory and on the device, are those of a file below. What is done with pages of that one is
 * told as the file's above that the process used it by.
 */
#ifndef WEIGH_IO_STACKED_H
#define WEIGH_IO_STACKED_H

#include "account.h"
#include "deferred.h"

#define MAX_STACKED 16384
#define MAX_LAYERS 2 /* the kernel stacks no more */
#define MAX_FOREBEARS 8

struct stacked_key {
	__u64 below; /* address of the inode */
	__u32 pid, unused;
};

struct stacked {
	struct io_key below, above; /* without the process */
};

/*
 * All room is made at once: entries are wanted where pages become dirty, with interrupts off. One that was pushed out
 * comes back with the next page; what devices do meanwhile is told of the file below.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_STACKED);
	__type(key, struct stacked_key);
	__type(value, struct stacked);
} stacked_files SEC(".maps");

/* With none ever seen nothing has to be looked for. */
bool any_stacked;

/* Whether an inode's pages may be another one's. */
static __always_inline bool lies_above(struct inode *inode)
{
	return is_stacking(magic_of(inode));
}

static __always_inline void *private_data_of(struct file *file)
{
	return CAN_FOLLOW ? FOLLOW(file, file)->private_data : BPF_CORE_READ(file, private_data);
}

/*
 * What overlayfs keeps of an open file: the file below, or since 6.13 that and, if it was copied up since by somebody
 * else, the copy.
 */
static __always_inline struct file *file_below_overlay(struct file *file)
{
	void *kept = private_data_of(file);
	struct file___since_6_13 *newer = (void *)file;

	if (!bpf_core_field_exists(newer->f_ref))
		return kept;
	return pointer_at(kept + sizeof(file)) ?: pointer_at(kept);
}

static __always_inline struct file *file_below(struct file *file, struct inode *inode)
{
	struct fuse_file *served = 0;
	unsigned long magic;

	if ((mode_of(inode) & S_IFMT) != S_IFREG)
		return 0;
	magic = magic_of(inode);
	if (magic == OVERLAYFS_SUPER_MAGIC)
		return file_below_overlay(file);
	if (magic == FUSE_SUPER_MAGIC && bpf_core_field_exists(served->passthrough))
		return pointer_at(private_data_of(file) +
				  bpf_core_field_offset(struct fuse_file, passthrough));
	return 0;
}

/*
 * The inode that has an open file's pages: its own, or that of the file below. Global, as most here: the verifier looks at
 * it once, and not at each place where it is called.
 */
__noinline __u64 holder_of(struct io_file *of)
{
	struct file *file = of ? of->file : 0, *below;
	struct inode *inode = inode_of(file);

#pragma clang loop unroll(disable)
	for (int layer = 0; layer < MAX_LAYERS; layer++) {
		below = file_below(file, inode);
		inode = inode_of(below);
		if (!inode)
			break;
		file = below;
	}
	/* Copied by a helper: the verifier lets no such function return a pointer. */
	return (__u64)BPF_CORE_READ(file, f_inode);
}

/* The mapping that has a file's pages. */
static __always_inline struct address_space *mapping_of_file(struct io_file *file)
{
	struct inode *inode = file->inode;

	if (file->is_stacked && file->file)
		inode = (struct inode *)holder_of(file);
	return CAN_FOLLOW ? FOLLOW(inode, inode)->i_mapping : BPF_CORE_READ(inode, i_mapping);
}

static __always_inline bool is_same_file(const struct io_key *one, const struct io_key *other)
{
	return one->inode == other->inode && one->device == other->device &&
	       one->generation == other->generation;
}

static __always_inline void strip(struct io_key *key)
{
	key->pid = 0;
	key->tid = 0;
}

/* From now on the process uses the pages of the one below by the other one. True if it did not before. */
__noinline int put_above(__u64 below, struct io_key *above, __u32 pid)
{
	struct stacked_key key = { .below = below, .pid = pid };
	struct stacked stacked = {}, *known;
	struct io_file file = {};

	if (!above)
		return 0;
	know_inode(&file, (struct inode *)below, 0, 0);
	stacked.below = file.key;
	stacked.above = *above;
	strip(&stacked.above);
	known = bpf_map_lookup_elem(&stacked_files, &key);
	if (known && is_same_file(&known->below, &stacked.below) && is_same_file(&known->above, above))
		return 0;
	bpf_map_update_elem(&stacked_files, &key, &stacked, BPF_ANY);
	any_stacked = true;
	return 1;
}

/*
 * What was done before it was known which file lies above, by an exec or by an open that copied it up, has a row of the
 * file below: that has the name of the one above, too.
 */
__noinline int name_below(__u64 inode, struct io_file *above)
{
	struct io_file below = {};

	if (!above)
		return 0;
	below.file = above->file;
	know_inode(&below, (struct inode *)inode, above->key.pid, above->key.tid);
	if (bpf_map_lookup_elem(&uses, &below.key) || bpf_map_lookup_elem(&devices, &below.key))
		tell_name(&below);
	return 0;
}

/* The process has opened or mapped a file, or used its pages by it. */
__noinline int uses_pages_by(struct io_file *file)
{
	struct stacked_key key = {};
	__u64 holder;

	if (!file)
		return 0;
	key.below = (__u64)file->inode;
	key.pid = file->key.pid;
	if (!file->is_stacked) {
		if (any_stacked)
			bpf_map_delete_elem(&stacked_files, &key);
		return 0;
	}
	holder = holder_of(file);
	if (holder != (__u64)file->inode && put_above(holder, &file->key, file->key.pid))
		name_below(holder, file);
	return 0;
}

/*
 * What is known by the inode that has the pages is told as the file above by which a process uses them. False if it
 * uses them by none that is known.
 */
__noinline int look_above(struct io_file *file, __u32 pid)
{
	struct stacked_key key = { .pid = pid };
	struct stacked *known;

	if (!file)
		return false;
	key.below = (__u64)file->inode;
	known = bpf_map_lookup_elem(&stacked_files, &key);
	if (!known || !is_same_file(&known->below, &file->key))
		return false;
	/* Where the one below is wanted, and not the other one, it stays. */
	if (is_wanted(known->above.device)) {
		file->key.inode = known->above.inode;
		file->key.device = known->above.device;
		file->key.generation = known->above.generation;
	}
	return true;
}

/* As above, of the file's own process. */
static __always_inline void see_above(struct io_file *file)
{
	if (any_stacked)
		look_above(file, file->key.pid);
}

/* What its forebears have mapped a child has, too. */
__noinline int inherit_above(struct io_file *file)
{
	struct io_process *process;
	__u32 pid;

	if (!file)
		return 0;
	pid = file->key.pid;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_FOREBEARS; i++) {
		if (look_above(file, pid)) {
			if (i)
				put_above((__u64)file->inode, &file->key, file->key.pid);
			return 0;
		}
		process = process_of(pid);
		if (!process || !process->parent)
			return 0;
		pid = process->parent;
	}
	return 0;
}

#endif
