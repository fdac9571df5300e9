/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Writes at an offset that the kernel puts at the end of the file instead: the open file's O_APPEND decides, or
 * RWF_APPEND and RWF_NOAPPEND of the call.
 *
 * Such a call returns no place. It is the file's size before it, if the file has grown by what was written and no
 * more; else others have written meanwhile, and the place is not known.
 */
#ifndef WEIGH_IO_APPEND_H
#define WEIGH_IO_APPEND_H

#include "file.h"
#include "kinds.h"
#include "compat32.h"

#define O_APPEND_FLAG 02000
#define RWF_APPEND 0x10
#define RWF_NOAPPEND 0x20
#define NOT_APPENDED -1

static __always_inline bool appends(const struct io_file *file, __u32 how)
{
	if ((file->mode & S_IFMT) != S_IFREG)
		return false;
	return how & RWF_APPEND || (file->flags & O_APPEND_FLAG && !(how & RWF_NOAPPEND));
}

/* The RWF_ flags of a call: of those at an offset only pwritev2(2) has any. */
static __always_inline __u32 flags_of_call(struct io_window *window, struct pt_regs *regs)
{
	if (window->number != PWRITEV2_NUMBER)
		return 0;
	/* Of a 32-bit program the offset's halves are one argument: what follows is the fifth then. */
	return window->shape ? widened(window, 5) : ARGUMENT_6(regs);
}

static __always_inline __s64 size_of(struct inode *inode)
{
	if (!inode)
		return 0;
	return CAN_FOLLOW ? FOLLOW(inode, inode)->i_size : BPF_CORE_READ(inode, i_size);
}

/* Where a write at an offset begins: notes the file's end, if it goes there. */
static __noinline int note_end(struct io_window *window, struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_file *file = &window->file;

	window->end = NOT_APPENDED;
	if (!know_file(file, file_at(task, window->descriptor), task->tgid, task->pid))
		return 0;
	if (appends(file, flags_of_call(window, regs)))
		window->end = size_of(file->inode);
	return 0;
}

/* Where it has ended. */
static __always_inline void place_at_end(struct io_file *file, struct io_doing *did)
{
	did->is_placed = size_of(file->inode) - did->from == did->bytes;
}

#endif
