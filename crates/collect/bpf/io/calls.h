/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The calls of a job's threads that are about files, from their entry to their exit.
 */
#ifndef WEIGH_IO_CALLS_H
#define WEIGH_IO_CALLS_H

#include "append.h"
#include "describe.h"
#include "readahead.h"

/* When the call has ended nothing is known of the descriptor any more. */
static __always_inline void closes(struct io_window *window, struct task_struct *task)
{
	struct io_doing *did = &window->did[0];
	struct io_file *file = &window->file;

	window->inside = 0;
	if (!know_file(file, file_at(task, window->descriptor), task->tgid,
		       task->pid))
		return;
	__builtin_memset(did, 0, sizeof(*did));
	did->deed = DID_CLOSE;
	did->number = window->number;
	did->at = window->began;
	did_with(file, did);
	if (is_last_reference(file->file))
		tell_use(file);
}

/* One of a 32-bit program, whose arguments could not be read. */
static __noinline int count_foreign(void)
{
	struct io_process *process = process_of((__u32)(bpf_get_current_pid_tgid() >> 32));

	if (process)
		add(&process->foreign_calls, 1);
	add(&tally.frees, 1);
	return 0;
}

/* What the call of a 32-bit program does that begins. */
static __always_inline __u32 begins_short(struct io_window *window, struct pt_regs *regs, __u32 number)
{
	__u32 call = widen(window, regs, number);

	/* No file is found by it before the arguments are there. */
	window->descriptor = are_in_memory(window) ? -1 : window->arguments[0];
	return call;
}

/* The call as it is while it is open; the number that is not of a call on files gives nothing. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call__enter, struct pt_regs *regs, long number)
{
	struct task_struct *task;
	struct io_window *window;
	bool is_short, frees;
	__u32 call;

	if ((__u64)number >= MAX_CALL_NUMBER)
		return 0;
	call = calls[number];
	if (!call)
		return 0;
	task = bpf_get_current_task_btf();
	is_short = is_compatible(task);
	if (call == CALL_SHORT && !is_short)
		return 0;
	window = member(task);
	if (!window)
		return 0;
	if (is_short) {
		call = call & CALL_SHORT ? begins_short(window, regs, number) : CALL_NONE;
		if (!call)
			return 0;
	} else {
		call &= ~CALL_SHORT;
		window->shape = SHAPE_OWN;
		window->number = number;
		window->descriptor = ARGUMENT_1(regs);
	}
	frees = call & CALL_FREES;
	call &= ~CALL_FREES;
	window->inside = call;
	window->frees = frees ? may_free(window, regs) : FREES_NOTHING;
	window->fills = 0;
	window->copied_up = 0;
	window->began = bpf_ktime_get_ns();
	if (call == CALL_CLOSE)
		closes(window, task);
	else if (call == CALL_PWRITE || call == CALL_PWRITEV)
		note_end(window, regs);
	else if (call == CALL_AIO_SUBMIT)
		aio_submits(window, task->tgid, ARGUMENT(2, window, regs),
			    ARGUMENT(3, window, regs));
	return 0;
}

static __always_inline bool is_cached_read(struct io_doing *did, __u32 mode)
{
	return did->is_cached && did->deed == DID_MOVE && !did->wrote && did->calls &&
	       !did->is_direct && has_offsets(mode);
}

/* One end of a transfer, or what else was done. */
static __always_inline int one_end(struct task_struct *task, struct io_file *file, struct io_doing *did,
				   __s32 descriptor, __u64 copied_up)
{
	bool is_past;

	if (!know_file(file, file_at(task, descriptor), task->tgid, task->pid)) {
		if (!did->failed) {
			count_in_rest(did);
			tell_fileless(did, task->tgid);
		}
		return 0;
	}
	if (!has_offsets(file->mode))
		did->is_placed = 0;
	else if (did->is_placed == 2)
		did->from = file->position - did->bytes;
	else if (did->is_placed == 3)
		place_at_end(file, did);
	did->is_direct = did->deed == DID_MOVE && file->flags & O_DIRECT_FLAG;
	/* Past the page cache, unless the file system has made of it what goes through it. */
	is_past = did->is_direct && did->is_cached;
	did->is_cached = is_cached_read(did, file->mode);
	if (did->deed == DID_OPEN || did->deed == DID_MAP)
		uses_pages_by(file);
	if (copied_up && file->is_stacked)
		name_below(copied_up, file);
	if (!count_at_once(file, did))
		did_with(file, did);
	if (!is_past)
		settle_ahead(file, did);
	return 0;
}

/*
 * Counts a read or write at a file's own position by a process with one thread, without the lock and what other calls need.
 * False if it is none, or there is more to do: then it is described and counted as others are.
 */
static __always_inline bool move_alone(struct io_window *window, struct task_struct *task, __u32 call, long result)
{
	struct io_doing *did = &window->did[0];
	struct io_file *file = &window->file;
	struct io_use *use;

	if (!CAN_FOLLOW || tells_calls || has_owner || live_aheads || call > CALL_WRITE || result <= 0)
		return false;
	if (window->shape != SHAPE_OWN || window->frees || window->copied_up || !is_alone(task))
		return false;
	if (!know_file(file, file_at(task, window->descriptor), task->tgid, task->pid))
		return false;
	if ((file->mode & S_IFMT) != S_IFREG || file->flags & O_DIRECT_FLAG || !is_wanted(file->key.device))
		return false;
	use = bpf_map_lookup_elem(&uses, &file->key);
	if (!use || !use->is_named)
		return false;
	did->transfer = IO_PLAIN;
	did->wrote = call == CALL_WRITE;
	did->is_placed = 2;
	did->from = file->position - result;
	did->is_cached &= !did->wrote;
	count_alone(use, did);
	if (did->is_spread)
		spread_over_places(&file->key, did);
	return true;
}

/* The other end of a copy. */
static __noinline int other_end(struct io_window *window)
{
	return one_end(bpf_get_current_task_btf(), &window->file, &window->did[1], window->ends[1], 0);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call__exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_window *window = member(task);
	struct io_doing *did;
	__u32 call;

	if (!window || !window->inside)
		return 0;
	call = window->inside;
	window->inside = 0;
	if (is_uncounted(call) && result >= 0)
		add(&tally.uncounted_calls, 1);
	if (are_in_memory(window) && !fetch_arguments(window))
		return count_foreign();
	did = &window->did[0];
	__builtin_memset(did, 0, sizeof(*did));
	window->ends[0] = window->ends[1] = -1;
	did->number = window->number;
	did->at = bpf_ktime_get_ns();
	did->time_ns = did->at - window->began;
	did->failed = result < 0 && result >= -4095;
	did->error = did->failed ? result : 0;
	/* One that failed has moved nothing: it is counted with those. */
	did->calls = !did->failed;
	did->bytes = did->failed ? 0 : result;
	did->is_cached = !window->fills;
	if (move_alone(window, task, call, result))
		return 0;
	if (tells_calls)
		asks(window, regs, call);
	describe(window, regs, call, result, task->tgid);
	if (did->failed)
		did->is_placed = window->did[1].is_placed = 0;
	else if (window->frees || did->truncates)
		count_frees(window, did);
	if (window->ends[0] >= 0)
		one_end(task, &window->file, &window->did[0], window->ends[0], window->copied_up);
	if (window->ends[1] >= 0)
		other_end(window);
	return 0;
}

#endif
