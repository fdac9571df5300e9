/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pages that come into the page cache, or become dirty. Under a call that reads or writes this very
 * file they are what the cache did not have; else they are traffic of mapped memory.
 */
#ifndef WEIGH_IO_CACHE_H
#define WEIGH_IO_CACHE_H

#include "calls.h"
#include "../calls/folio.h"

/* The files that the open call moves bytes of, or opens; of AIO and io_uring it is not known. */
static __always_inline bool is_of_call(struct io_window *window, struct task_struct *task,
				       struct inode *inode)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__s32 other = -1;

	switch (window->inside) {
	case CALL_NONE:
	case CALL_MMAP:
		return false;
	case CALL_AIO_SUBMIT:
	case CALL_AIO_EVENTS:
	case CALL_URING:
	case CALL_OPEN:
	case CALL_OPENAT:
	case CALL_OPENAT2:
	case CALL_CREAT:
		return true;
	case CALL_SENDFILE:
	case CALL_TEE:
		other = ARGUMENT_2(regs);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		other = ARGUMENT_3(regs);
		break;
	}
	return inode_at(task, window->descriptor) == inode ||
	       (other >= 0 && inode_at(task, other) == inode);
}

static __always_inline void name_by_program(struct io_file *file, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct file *program;

	if (!mm)
		return;
	program = BPF_CORE_READ((struct mm_struct___io *)mm, exe_file);
	if (program && BPF_CORE_READ(program, f_inode) == file->inode)
		file->file = program;
}

static __always_inline void pages_of_file(struct folio *folio, struct address_space *mapping,
					  __u32 wrote)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_window *window = member(task);
	struct io_doing did = { .transfer = IO_MAPPED, .calls = 1, .number = -1 };
	struct io_file file = {};
	struct inode *inode;

	if (!window || !mapping)
		return;
	inode = BPF_CORE_READ(mapping, host);
	if (!inode)
		return;
	did.bytes = pages_of(folio) << PAGE_SHIFT;
	did.from = BPF_CORE_READ(folio, index) << PAGE_SHIFT;
	did.is_placed = 1;
	did.wrote = wrote;
	if (is_of_call(window, task, inode)) {
		if (wrote)
			return;
		did.deed = DID_FILL;
		window->fills++;
	}
	know_inode(&file, inode, task->tgid, task->pid);
	/* A block device's own pages are the file system's maps: nobody has mapped them. */
	if ((file.mode & S_IFMT) != S_IFREG)
		return;
	name_by_program(&file, task);
	did.at = bpf_ktime_get_ns();
	did_with(&file, &did);
}

SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(cache__add, struct folio *folio)
{
	pages_of_file(folio, BPF_CORE_READ(folio, mapping), 0);
	return 0;
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(cache__dirty, struct folio *folio, struct address_space *mapping)
{
	pages_of_file(folio, mapping, 1);
	return 0;
}

#endif
