/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * When pages of the page cache become somebody's, and when they leave it unwritten.
 */
#ifndef WEIGH_CALLS_DIRTY_H
#define WEIGH_CALLS_DIRTY_H

#include "dirty_release.h"
#include "uring.h"

/* The cause and the range of what was written, remembered until the folio is said to be dirty. */
static __always_inline int wrote(struct inode *inode, __u64 from, __u64 bytes)
{
	struct range range = {};
	struct window *window;
	struct open open;

	if (!bytes)
		return 0;
	if (mine(&open, WEIGH_PAGECACHE)) {
		window = open.window;
		name_cause(&range.cause, &open);
	} else if (worker_cause(&range.cause)) {
		window = bpf_task_storage_get(&members, bpf_get_current_task_btf(), 0,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!window) {
			not_kept(&range.cause);
			return 0;
		}
	} else {
		window = untold_call(&range.cause);
		if (!window)
			return 0;
	}
	range.mapping = (__u64)(CAN_FOLLOW ? FOLLOW(inode, inode)->i_mapping : inode->i_mapping);
	range.from = from;
	range.to = from + bytes;
	own(&range);
	window->wrote_mapping = range.mapping;
	window->wrote_from = range.from;
	window->wrote_to = range.to;
	window->wrote_in = window->inside ? window->sequence : 0;
	return 0;
}

static __always_inline struct inode *host_of(struct address_space *mapping)
{
	return CAN_FOLLOW ? FOLLOW(address_space, mapping)->host : mapping->host;
}

#define TELLS_WRITES(tracepoint)                                                                   \
	SEC("?tp_btf/" #tracepoint)                                                                \
	int BPF_PROG(pagecache__##tracepoint, struct inode *inode, long long from,                 \
		     unsigned int asked, unsigned int bytes)                                       \
	{                                                                                          \
		return wrote(inode, from, bytes);                                                  \
	}

TELLS_WRITES(ext4_da_write_end)
TELLS_WRITES(ext4_write_end)
TELLS_WRITES(ext4_journalled_write_end)
TELLS_WRITES(f2fs_write_end)

/* Before the write: all of it, as if none could fail. */
SEC("?tp_btf/xfs_file_buffered_write")
int BPF_PROG(pagecache__xfs_file_buffered_write, struct kiocb *call, struct iov_iter *from)
{
	return wrote(call->ki_filp->f_inode, call->ki_pos, from->count);
}

/*
 * Whether pages of it come to a block device, and we can say when: those of network file systems do
 * not, and a device's own pages, such as a file system's maps of blocks, become dirty and clean
 * block by block.
 */
static __always_inline bool has_device(struct inode *inode)
{
	struct super_block *super = BPF_CORE_READ(inode, i_sb);

	return BPF_CORE_READ(super, s_bdev) || BPF_CORE_READ(super, s_magic) == BTRFS_SUPER_MAGIC;
}

/* Whether those are told of, whose tracepoints are a module's most often. */
const volatile bool f2fs_tells, xfs_tells;

/* Whether its file system says what is written to it, as above. */
static __always_inline bool tells_writes(struct inode *inode)
{
	unsigned long magic = BPF_CORE_READ(inode, i_sb, s_magic);

	return magic == EXT4_SUPER_MAGIC || (f2fs_tells && magic == F2FS_SUPER_MAGIC) ||
	       (xfs_tells && magic == XFS_SUPER_MAGIC);
}

/*
 * What of a folio is dirty that nobody said was written. For a store all of it, up to the file's
 * end. Under a call, where the file system tells of writes, it is the rest of the last page, which
 * is made zero when a file is to grow or has shrunk. Elsewhere it is not known.
 */
static __always_inline void narrow(struct range *range, struct inode *inode)
{
	__u64 size = inode->i_size, last = size & ~(PAGE_BYTES - 1);

	if (!range->cause.sequence && !range->cause.client) {
		/* Unless it may be a write that is not told, and is to make the file grow. */
		if (range->to > size && (follows_calls || tells_writes(inode)))
			range->to = size;
	} else if (size != last && range->from <= last && range->to > last && tells_writes(inode)) {
		range->from = last;
		range->to = last + PAGE_BYTES;
	}
}

/* A store to mapped memory by a thread of the job, outside of its calls. */
static __always_inline bool stored(struct cause *cause, struct window *window, __u64 pages)
{
	struct cell *cell = stores_of(cause, window);

	if (!cell)
		return false;
	add(&cell->account.calls, 1);
	add(&cell->account.pagecache.dirtied_pages, pages);
	return true;
}

/* Whose doing it is that a folio becomes dirty. False if it is nobody's who is followed. */
static __always_inline bool dirtied_by(struct range *range, bool *told, __u64 pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window = window_of(task);
	struct open open;

	*told = false;
	if (worker_cause(&range->cause)) {
		if (!window)
			return true;
	} else if (!window) {
		return false;
	} else if (mine(&open, WEIGH_PAGECACHE)) {
		add(&open.account->pagecache.dirtied_pages, pages);
		name_cause(&range->cause, &open);
	} else if (!stored(&range->cause, window, pages)) {
		return false;
	} else if (follows_calls) {
		return true;
	}
	if (window->wrote_mapping != range->mapping || window->wrote_from >= range->to ||
	    window->wrote_to <= range->from)
		return true;
	if (window->wrote_in != (window->inside ? window->sequence : 0))
		return true;
	*told = true;
	range->just_from = window->wrote_from;
	range->just_to = window->wrote_to;
	return true;
}

/*
 * Before 6.6 a large folio (of XFS) that is dirty is written as a whole, with the pages that nobody wrote to: on
 * behalf of the write that made it dirty. Later each block is dirty by itself, as it is where blocks have heads.
 */
static __always_inline bool is_written_whole(__u64 pages)
{
	return pages > 1 && !bpf_core_type_exists(struct iomap_folio_state);
}

/* What of a folio is to be written, on behalf of a write to a part of it. */
static __always_inline void narrow_to_write(struct range *range, struct inode *host, bool whole)
{
	__u64 end = range->just_to, size = (host->i_size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

	if (!whole) {
		if (range->just_from > range->from)
			range->from = range->just_from;
	} else if (end < size) {
		end = size;
	}
	if (range->to > end)
		range->to = end;
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(pagecache__dirty, struct folio *folio, struct address_space *mapping)
{
	bool flies = live_chunks && FOLIO_FLAG(folio, PG_writeback), told, known;
	__u64 pages = pages_of(folio);
	struct range range = {};
	struct inode *host;

	if (!mapping)
		return 0;
	range.mapping = (__u64)mapping;
	range.from = folio->index << PAGE_SHIFT;
	range.to = range.from + (pages << PAGE_SHIFT);
	known = dirtied_by(&range, &told, pages);
	if (flies)
		FOR_CHUNKS(&range, fly_one);
	if (!known)
		return 0;
	if (told) {
		/*
		 * They are known already, unless the device was done with the page in between; a
		 * client's may be of an earlier write.
		 */
		bool whole = is_written_whole(pages);

		if (!flies && !whole && (!range.cause.client || range.cause.cell))
			return 0;
		range.unless_owned = 1;
		narrow_to_write(&range, host_of(mapping), whole);
	} else {
		host = host_of(mapping);
		if (!has_device(host))
			return 0;
		narrow(&range, host);
	}
	own(&range);
	return 0;
}

/* Deleted, truncated, or just not needed any more. */
SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(pagecache__delete, struct folio *folio)
{
	struct range range = {};

	if (!live_chunks)
		return 0;
	range.mapping = (__u64)mapping_of(folio);
	range.from = folio->index << PAGE_SHIFT;
	range.to = range.from + (pages_of(folio) << PAGE_SHIFT);
	if (range.mapping)
		FOR_CHUNKS(&range, drop_one);
	return 0;
}

#endif
