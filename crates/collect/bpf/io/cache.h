/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pages that come into the page cache, become dirty, or leave it. Under a call that reads or writes this very
 * file they are what the cache did not have; else they are traffic of mapped memory.
 */
#ifndef WEIGH_IO_CACHE_H
#define WEIGH_IO_CACHE_H

#include "calls.h"
#include "owners.h"

/* A folio of a file. */
struct pages {
	struct address_space *mapping;
	struct inode *inode;
	__u64 from, to; /* pages of the file */
};

/* The descriptors that the open call moves bytes of, or maps. */
struct call_ends {
	__s32 in, out; /* the same of most; -1: none */
};

static __always_inline void know_ends(struct call_ends *ends, struct io_window *window,
				      struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	ends->in = ends->out = window->descriptor;
	switch (window->inside) {
	case CALL_NONE:
	case CALL_PATH:
	case CALL_OPEN:
	case CALL_OPENAT:
	case CALL_OPENAT2:
	case CALL_CREAT:
	case CALL_AIO_SUBMIT:
	case CALL_AIO_EVENTS:
	case CALL_URING:
		ends->in = ends->out = -1;
		break;
	case CALL_MMAP:
		ends->in = ends->out = ARGUMENT(5, window, regs);
		break;
	case CALL_SENDFILE:
		ends->in = ARGUMENT(2, window, regs);
		break;
	case CALL_TEE:
		ends->out = ARGUMENT(2, window, regs);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		ends->out = ARGUMENT(3, window, regs);
		break;
	}
}

/* Whether an open file has these pages; then it is how the process uses them. Global: the verifier looks at it once. */
__noinline int has_pages(struct pages *pages, struct io_file *by)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode *own;
	bool is_own;

	if (!pages || !by)
		return false;
	own = inode_of(by->file);
	is_own = (__u64)own == (__u64)pages->inode;
	if (is_own && !any_stacked)
		return true;
	if (!own || (!is_own && !(lies_above(own) && holder_of(by) == (__u64)pages->inode)))
		return false;
	know_file(by, by->file, task->tgid, task->pid);
	uses_pages_by(by);
	return true;
}

/*
 * Pages of a file that may lie below another one, and is not the one that was found when that was opened: it was copied
 * up since, by somebody else.
 */
__noinline int lies_below(struct pages *pages, struct io_file *by)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!pages || !by)
		return 0;
	if (know_file(by, by->file, task->tgid, task->pid) && by->is_stacked)
		put_above((__u64)pages->inode, &by->key, task->tgid);
	return 0;
}

/* The page that truncate(2) blanks the end of. It writes into no memory of its caller's, and reads a path there. */
static __always_inline bool is_truncated(struct io_window *window, struct task_struct *task,
					 struct pages *pages, __u32 wrote)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 end;

	if (window->inside != CALL_PATH || window->number != TRUNCATE_NUMBER)
		return false;
	end = (__u64)ARGUMENT(2, window, regs) >> PAGE_SHIFT;
	return wrote || (pages->from <= end && end < pages->to);
}

enum whose {
	OF_MAPPING,
	OF_CALL,
	OF_CALL_ELSEWHERE, /* of a file that the call does not name: where it ends nobody knows that it has used them */
};

/*
 * Whether it is the open call that has brought pages, or made them dirty; of AIO and io_uring it is not known. Else
 * memory that is mapped was touched, be it in a call: what that writes may lie in a file, too. What nobody has mapped
 * nobody touches so.
 */
static __noinline int whose_pages(struct io_window *window, struct pages *pages, __u32 wrote)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_file *by = &window->by;
	struct call_ends ends;
	bool is_known;

	know_ends(&ends, window, task);
	by->file = file_at(task, ends.in);
	is_known = has_pages(pages, by);
	if (!is_known && ends.out != ends.in) {
		by->file = file_at(task, ends.out);
		is_known = has_pages(pages, by);
	}
	switch (window->inside) {
	case CALL_NONE:
	case CALL_MMAP:
		return OF_MAPPING;
	case CALL_AIO_SUBMIT:
	case CALL_AIO_EVENTS:
	case CALL_URING:
		return OF_CALL;
	case CALL_OPEN:
	case CALL_OPENAT:
	case CALL_OPENAT2:
	case CALL_CREAT:
		/* The copy is made of pages that are read first. */
		if (!window->copied_up && !is_mapped(pages->mapping))
			window->copied_up = (__u64)pages->inode;
		return OF_CALL_ELSEWHERE;
	}
	if (is_known)
		return OF_CALL;
	if (is_mapped(pages->mapping) && !is_truncated(window, task, pages, wrote))
		return OF_MAPPING;
	by->file = file_at(task, ends.in);
	lies_below(pages, by);
	return OF_CALL_ELSEWHERE;
}

static __always_inline void name_by_program(struct io_window *window, struct pages *pages, struct task_struct *task)
{
	struct mm_struct *mm = followed(task)->mm;
	struct file *program;

	if (!mm)
		return;
	program = BPF_CORE_READ((struct mm_struct___io *)mm, exe_file);
	window->by.file = program;
	if (has_pages(pages, &window->by))
		window->file.file = program;
}

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

	know_inode(&file, pages->inode, who >> 32, who);
	see_above(&file);
	if (!is_wanted(file.key.device))
		return 0;
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
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_file file = {};
	struct reach reach = {
		.mapping = (__u64)pages->mapping,
		.from = pages->from,
		.to = pages->to,
		.what = USED,
	};

	know_inode(&file, pages->inode, task->tgid, task->pid);
	see_above(&file);
	reach.key = file.key;
	reach_all(&reach);
	return 0;
}

/* Pages of a file with less storage than its size may be holes, which are read from nowhere. */
static __always_inline void note_sparse(struct pages *pages)
{
	struct inode *inode = pages->inode;
	__u64 blocks = BPF_CORE_READ(inode, i_blocks), size = BPF_CORE_READ(inode, i_size);

	if (blocks < size >> 9 && has_device(inode))
		add(&tally.sparse_fills, pages->to - pages->from);
}

/*
 * True if it came in for the call that is open, of a file that this names. What is done is described in the
 * window, which has room for it until the call ends, and the stack has not.
 */
static __noinline int count_pages(struct pages *pages, struct io_window *window, __u32 wrote)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_doing *did = &window->did[1];
	struct io_file *file = &window->file;
	enum whose whose;

	__builtin_memset(did, 0, sizeof(*did));
	__builtin_memset(file, 0, sizeof(*file));
	know_inode(file, pages->inode, task->tgid, task->pid);
	/* A block device's own pages are the file system's maps: nobody has mapped them. */
	if ((file->mode & S_IFMT) != S_IFREG)
		return false;
	whose = whose_pages(window, pages, wrote);
	if (whose != OF_MAPPING && wrote)
		return false;
	window->fills += whose != OF_MAPPING;
	name_by_program(window, pages, task);
	if (any_stacked)
		inherit_above(file);
	if (whose == OF_MAPPING && !wrote && is_wanted(file->key.device))
		note_sparse(pages);
	did->deed = whose == OF_MAPPING ? DID_MOVE : DID_FILL;
	did->transfer = IO_MAPPED;
	did->calls = 1;
	did->number = -1;
	did->wrote = wrote;
	did->is_placed = 1;
	did->bytes = (pages->to - pages->from) << PAGE_SHIFT;
	did->from = pages->from << PAGE_SHIFT;
	did->at = bpf_ktime_get_ns();
	did_with(file, did);
	return whose == OF_CALL;
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
	if (!count_pages(&pages, window, 0) || is_write(window->inside) ||
	    window->inside == CALL_TRUNCATE)
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
