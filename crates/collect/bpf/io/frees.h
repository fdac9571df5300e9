/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls that may free space of a file system. Where a job makes none the space of its files only grows, and the last
 * look at it is the greatest.
 *
 * A call counts unless it cannot have freed any: an open that made its file, a length beyond the file's end, space
 * that is only reserved, a request to a terminal. Files mapped shared can lose pages by madvise(2), which is not
 * looked at: such a map counts, if the file is open for writing.
 */
#ifndef WEIGH_IO_FREES_H
#define WEIGH_IO_FREES_H

#include "append.h"

#define FALLOC_KEEPS_SIZE 1
#define FMODE_WRITES 2
#define FMODE_CREATED 0x100000
#define MAP_SHARED 1

enum io_frees {
	FREES_NOTHING,
	FREES_PERHAPS,
	FREES_IF_WRITABLE, /* a map, of a file that is open for writing */
};

/* Only those that a file system or what is above all of them knows: FICLONE, XFS_IOC_UNRESVSP, ext4's own. */
static __always_inline bool is_request_to_files(__u32 request)
{
	__u32 type = request >> 8 & 0xff;

	return type == 0x94 || type == 'X' || type == 'f';
}

/* Preallocated space beyond the end is given back where the length stays. */
static __always_inline bool shortens(struct io_window *window, struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode *inode = inode_of(file_at(task, window->descriptor));

	return window->shape || !inode || (__s64)ARGUMENT_2(regs) <= size_of(inode);
}

/* Whether the call that begins may free space, as far as its arguments say. */
static __noinline int may_free(struct io_window *window, struct pt_regs *regs)
{
	if (window->inside == CALL_TRUNCATE)
		return shortens(window, regs) ? FREES_PERHAPS : FREES_NOTHING;
	if (window->number == FALLOCATE_NUMBER)
		return ARGUMENT(2, window, regs) & ~FALLOC_KEEPS_SIZE ? FREES_PERHAPS : FREES_NOTHING;
	if (window->number == IOCTL_NUMBER)
		return is_request_to_files(ARGUMENT(2, window, regs)) ? FREES_PERHAPS :
									 FREES_NOTHING;
	return FREES_PERHAPS;
}

/* Whether an open has emptied a file that was there: a device has nothing to lose. */
static __always_inline bool has_emptied(struct file *file, __u32 mode)
{
	struct inode *inode = inode_of(file);

	if (!inode)
		return true;
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG && !(mode & FMODE_CREATED);
}

/* Counts the call that has ended, if it may have freed any. */
static __noinline int count_frees(struct io_window *window, struct io_doing *did)
{
	struct file *file = file_at(bpf_get_current_task_btf(), window->ends[0]);
	__u32 mode = file ? BPF_CORE_READ(file, f_mode) : FMODE_WRITES;

	if (window->frees == FREES_PERHAPS || (did->truncates && has_emptied(file, mode)) ||
	    (window->frees == FREES_IF_WRITABLE && mode & FMODE_WRITES))
		add(&tally.frees, 1);
	return 0;
}

#endif
