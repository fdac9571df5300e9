/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pages that come into the page cache, become dirty, or leave it. Under a call that reads or writes this very
 * file they are what the cache did not have; else they are traffic of mapped memory.
 */
#ifndef WEIGH_IO_CACHE_H
#define WEIGH_IO_CACHE_H

#include "calls.h"
#include "owners.h"

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
		other = ARGUMENT(2, window, regs);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		other = ARGUMENT(3, window, regs);
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

/* A folio of a file. */
struct pages {
	struct address_space *mapping;
	struct inode *inode;
	__u64 from, to; /* pages of the file */
};

static __always_inline bool know_pages(struct pages *pages, struct folio *folio,
				       struct address_space *mapping)
{
	if (!mapping)
		return false;
	pages->mapping = mapping;
	pages->inode = CAN_FOLLOW ? FOLLOW(address_space, mapping)->host : BPF_CORE_READ(mapping, host);
	pages->from = index_of(folio);
	pages->to = pages->from + pages_of(folio);
	return pages->inode;
}

/* It becomes the owner's, or nobody's. */
static __noinline int own_folio(struct pages *pages, __u64 owner)
{
	struct owning owning = {
		.mapping = (__u64)pages->mapping,
		.from = pages->from,
		.to = pages->to,
		.owner = owner,
	};

	own(&owning);
	return 0;
}

/* What comes under a call that reads waits to be used: the call itself may use it. */
static __noinline int comes(struct pages *pages, struct io_window *window, __u64 who)
{
	struct io_file file = {};
	struct reach reach = {
		.mapping = (__u64)pages->mapping,
		.from = pages->from,
		.to = pages->to,
		.who = who,
		.what = COMES,
	};

	know_inode(&file, pages->inode, 0, 0);
	reach.key = file.key;
	/* Whose file is mapped uses it unseen. */
	reach.is_doubtful = is_mapped(pages->mapping);
	reach_all(&reach);
	return 0;
}

/*
 * Who writes uses: calls that write tell so where they end, but under io_submit and io_uring_enter it is not known
 * whether a page comes to be read or to be written.
 */
static __noinline int comes_to_be_written(struct pages *pages)
{
	struct io_file file = {};
	struct reach reach = {
		.mapping = (__u64)pages->mapping,
		.from = pages->from,
		.to = pages->to,
		.what = USED,
	};

	know_inode(&file, pages->inode, 0, 0);
	reach.key = file.key;
	reach_all(&reach);
	return 0;
}

/*
 * True if it came in for the call that is open. What is done is described in the window, which has room for it
 * until the call ends, and the stack has not.
 */
static __noinline int count_pages(struct pages *pages, struct io_window *window, __u32 wrote)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_doing *did = &window->did[1];
	struct io_file *file = &window->file;
	bool is_own = is_of_call(window, task, pages->inode);

	if (is_own && wrote)
		return false;
	window->fills += is_own;
	__builtin_memset(did, 0, sizeof(*did));
	__builtin_memset(file, 0, sizeof(*file));
	know_inode(file, pages->inode, task->tgid, task->pid);
	/* A block device's own pages are the file system's maps: nobody has mapped them. */
	if ((file->mode & S_IFMT) != S_IFREG)
		return false;
	name_by_program(file, task);
	did->deed = is_own ? DID_FILL : DID_MOVE;
	did->transfer = IO_MAPPED;
	did->calls = 1;
	did->number = -1;
	did->wrote = wrote;
	did->is_placed = 1;
	did->bytes = (pages->to - pages->from) << PAGE_SHIFT;
	did->from = pages->from << PAGE_SHIFT;
	did->at = bpf_ktime_get_ns();
	did_with(file, did);
	return is_own;
}

SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(cache__add, struct folio *folio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_window *window = member(task);
	struct pages pages;
	__u64 who;

	if (!window || !know_pages(&pages, folio, mapping_of(folio)))
		return 0;
	if (!count_pages(&pages, window, 0) || is_write(window->inside))
		return 0;
	who = doer(task, window);
	if (who)
		comes(&pages, window, who);
	return 0;
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(cache__dirty, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_window *window = member(task);
	__u64 owner = doer(task, window);
	bool concerns_nobody = !window;
	struct pages pages;

	/* Or the compiler makes a number of a pointer, to look at all three at once. */
	barrier_var(concerns_nobody);
	if (concerns_nobody && !owner && !live_owned)
		return 0;
	if (!know_pages(&pages, folio, mapping))
		return 0;
	if ((owner || live_owned) && has_device(pages.inode))
		own_folio(&pages, owner);
	if (!window)
		return 0;
	if ((window->inside == CALL_AIO_SUBMIT || window->inside == CALL_URING) &&
	    any_ahead((__u64)pages.mapping))
		comes_to_be_written(&pages);
	count_pages(&pages, window, 1);
	return 0;
}

/* They are nobody's any more, and were used until now or never. */
SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(cache__delete, struct folio *folio)
{
	struct address_space *mapping = mapping_of(folio);
	struct reach reach = { .what = LEAVES };
	struct pages pages;

	if (!live_owned && !any_ahead((__u64)mapping))
		return 0;
	if (!know_pages(&pages, folio, mapping))
		return 0;
	if (live_owned)
		own_folio(&pages, 0);
	if (any_ahead((__u64)mapping)) {
		reach.mapping = (__u64)mapping;
		reach.from = pages.from;
		reach.to = pages.to;
		reach_all(&reach);
	}
	return 0;
}

#endif
