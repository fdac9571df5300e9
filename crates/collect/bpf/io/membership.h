/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The processes of a job, for I/O: what membership.h asks of this object. The end of a process is reported, after
 * what it did with the files that it still had open.
 */
#ifndef WEIGH_IO_MEMBERSHIP_H
#define WEIGH_IO_MEMBERSHIP_H

#include "account.h"
#include "readahead.h"
#include "../membership.h"

#define MAX_DESCRIPTORS (1 << 20)

/* What a program is made of is mapped without a call. */
static __always_inline void maps_program(struct task_struct *task)
{
	struct mm_struct___io *mm = (void *)followed(task)->mm;
	struct file *program = mm ? BPF_CORE_READ(mm, exe_file) : 0;
	struct io_file file = {};

	if (!know_file(&file, program, task->tgid, task->pid))
		return;
	uses_pages_by(&file);
	doubt_ahead(&file);
}

/* A process is called as its first thread is: others may have names of their own. */
static __always_inline void name_process(struct io_process *process, struct task_struct *task)
{
	BPF_CORE_READ_STR_INTO(&process->name, task, group_leader, comm);
}

/* A thread more of its process, which may be new. */
static __always_inline void enroll(struct task_struct *task, __u32 parent, bool is_apart)
{
	struct io_process fresh = { .pid = task->tgid, .parent = parent, .threads = 1 }, *known;

	add(&tally.threads, 1);
	add(&tally.living, 1);
	known = process_of(task->tgid);
	if (known) {
		add(&known->threads, 1);
		return;
	}
	fresh.is_apart = is_apart;
	fresh.started = bpf_ktime_get_ns();
	name_process(&fresh, task);
	if (bpf_map_update_elem(&processes, &fresh.pid, &fresh, BPF_NOEXIST)) {
		known = process_of(task->tgid);
		if (known)
			add(&known->threads, 1);
		else
			add(&tally.lost_processes, 1);
	}
}

static __always_inline void note_lost_member(void)
{
	add(&tally.lost_threads, 1);
}

static __always_inline void note_fork(struct io_window *creator, struct task_struct *parent,
				      struct task_struct *child)
{
	if (new_member(child))
		enroll(child, parent->tgid, is_apart(parent->tgid));
}

static __always_inline void note_exec(struct io_window *window, struct task_struct *task, bool begins)
{
	struct io_process *process;

	if (window->stage == STAGE_NONE)
		return;
	if (begins)
		enroll(task, 0, true);
	process = process_of(task->tgid);
	if (process) {
		process->is_apart = has_gained_rights(task);
		name_process(process, task);
	}
	maps_program(task);
}

/* Where everybody is followed: threads of the kernel do what others want done, and weigh would see itself. */
static __always_inline bool may_join(struct task_struct *task)
{
	return !only_device ||
	       !(task->flags & PF_KTHREAD || task->tgid == (__u32)(bpf_get_current_pid_tgid() >> 32));
}

static __always_inline void note_join(struct io_window *window, struct task_struct *task)
{
	if (window->stage == STAGE_MEMBER)
		return;
	window->stage = STAGE_MEMBER;
	enroll(task, 0, has_gained_rights(task));
}

struct closing {
	struct task_struct *task;
	__u32 pid, tid;
};

static long close_one(__u32 descriptor, struct closing *closing)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_file file = {};

	if (know_file(&file, file_at(task, descriptor), closing->pid, closing->tid))
		tell_use(&file);
	return 0;
}

static __always_inline void tell_process(struct io_process *process)
{
	struct io_told_process *record = bpf_ringbuf_reserve(&told, sizeof(*record), 0);
	__u32 pid = process->pid;

	/* Without room it stays where it is, and is found there. */
	if (!record)
		return;
	record->kind = TOLD_PROCESS;
	record->unused = 0;
	__builtin_memcpy(&record->process, process, sizeof(*process));
	bpf_ringbuf_submit(record, waking(&told, sizeof(*record) + 8));
	bpf_map_delete_elem(&processes, &pid);
}

static __always_inline void note_exit(struct io_window *window, struct task_struct *task)
{
	struct closing closing = { .pid = task->tgid, .tid = task->pid };
	struct io_process *process;
	__u32 descriptors = 0;
	bool is_last;

	window->inside = 0;
	process = process_of(task->tgid);
	is_last = process && __sync_fetch_and_add(&process->threads, -1) == 1;
	if (is_last || by_thread) {
		descriptors = BPF_CORE_READ(task, files, fdt, max_fds);
		if (descriptors > MAX_DESCRIPTORS)
			descriptors = MAX_DESCRIPTORS;
		bpf_loop(descriptors, close_one, &closing, 0);
	}
	if (is_last) {
		process->ended = bpf_ktime_get_ns();
		name_process(process, task);
		tell_process(process);
	}
	/* Its memory is given back later: what it has mapped may become dirty by that. */
	add(&tally.living, -1);
}

static __always_inline void note_other_exit(struct io_window *window, struct task_struct *task)
{
}

#endif
