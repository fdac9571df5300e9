/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The library in a job's programs, where it counts, too: which calls are its own to count, and which of its
 * files is which. libweigh/preload/io_marks.h is the other side.
 */
#ifndef WEIGH_IO_MARKS_H
#define WEIGH_IO_MARKS_H

#include "file.h"
#include "kinds.h"

#define OPENS (1ULL << CALL_OPEN | 1ULL << CALL_OPENAT | 1ULL << CALL_OPENAT2 | 1ULL << CALL_CREAT)

/* The library has its numbers from statx(2), and not those of the kernel. */
static __noinline int tell_same(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_told_same *record;
	struct io_file file = {};
	__u64 known = ARGUMENT_3(regs);

	if (!know_file(&file, file_at(task, ARGUMENT_2(regs)), task->tgid, 0))
		return 0;
	tell_name(&file);
	record = bpf_ringbuf_reserve(&told_names, sizeof(*record), 0);
	if (!record) {
		add(&tally.lost_names, 1);
		return 0;
	}
	record->kind = TOLD_SAME;
	record->marked_pid = ARGUMENT_5(regs);
	record->marked_inode = ARGUMENT_4(regs);
	record->marked_device = known >> 32;
	record->marked_born = known;
	record->key = file.key;
	bpf_ringbuf_submit(record, waking(&told_names, sizeof(*record)));
	return 0;
}

/* prctl(2), by which the library says something, and others do what does not matter here. */
static __always_inline void hear(struct io_window *window, struct pt_regs *regs)
{
	__u64 what = ARGUMENT_1(regs);

	if (what == MARK_THREAD)
		window->mark = ARGUMENT_2(regs);
	else if (what == MARK_FILE)
		tell_same(regs);
}

/* Whether the library counts the call that begins. */
static __always_inline bool is_marked(struct io_window *window, __u32 call)
{
	__u64 kinds = 0;

	if (!has_marks || !window->mark)
		return false;
	if (bpf_probe_read_user(&kinds, sizeof(kinds), (void *)window->mark)) {
		add(&tally.unread_marks, 1);
		return false;
	}
	if (window->is_guest && kinds != ~0ULL)
		kinds &= ~(OPENS | 1ULL << CALL_CLOSE);
	return kinds >> (call & 63) & 1;
}

/* A new thread says by itself where its mark is; a new process has it where its parent has. */
static __always_inline void inherit_mark(struct io_window *window, const struct io_window *parents,
					 struct task_struct *parent, struct task_struct *child)
{
	if (!has_marks || parent->tgid == child->tgid)
		return;
	window->mark = parents->mark;
	window->is_guest = parent->mm == child->mm;
}

/* A new program: the library may not be in it, and is not yet. */
static __always_inline void forget_mark(struct io_window *window)
{
	window->mark = 0;
	window->is_guest = 0;
}

#endif
