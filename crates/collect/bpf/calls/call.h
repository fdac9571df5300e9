/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The calls of a job's threads, from their entry to their exit.
 *
 * The tracepoints of system calls slow every call of the machine while they are attached: only
 * for as long as somebody asks for the calls of programs that no library was put into.
 */
#ifndef WEIGH_CALLS_CALL_H
#define WEIGH_CALLS_CALL_H

#include "../compatible.h"
#include "causes.h"
#include "descriptors.h"
#include "queue.h"
#include "call_exit.h"
#include "part_counts.h"

#define MAX_CALL_NUMBER 1024
#define COMPATIBLE (1 << 16) /* added to the numbers of 32-bit programs: they have others */

/* What is known of a call by its number. */
enum call_kind {
	TAKES_DESCRIPTOR = 1, /* as its first argument */
	MOVES_BYTES = 2, /* and returns how many */
	RESTORES = 4, /* what it returns is what the thread had before a signal, and tells nothing of it */
	OWN_PART = 8, /* times the part that its own code is of, where functions are probed */
};

const volatile __u16 kinds[MAX_CALL_NUMBER];
const volatile struct tally tally_layout;
const volatile enum call_kind kind_layout;

/* A thread of the job that may be in a call that has not returned. */
const volatile struct under_way {
	__u64 number; /* of the call; UNKNOWN_CALL where its entry was not seen */
	__u64 since; /* when it was entered, else when the thread was made */
	__u32 tgid, tid;
	__u32 compatible; /* what the kernel says of the call's number where the entry was not seen */
	__u32 unused;
	char command[IMAGE_BYTES]; /* its process */
} under_way_layout;

enum { UNKNOWN_CALL = -1 };

/* Run by user space when calls are not followed any more. */
SEC("iter/task")
int member__under_way(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct under_way row = {};
	struct window *window;

	if (!task)
		return 0;
	window = window_of(task);
	if (!window || window->stage != STAGE_MEMBER || (!window->inside && window->sequence))
		return 0;
	row.number = UNKNOWN_CALL;
	if (window->inside) {
		row.number = window->number;
		row.since = window->began;
	} else {
		/* By a helper: one load for both pointers is refused. */
		bpf_core_read(&row.since, sizeof(row.since), &task->start_time);
	}
	row.tgid = task->tgid;
	row.tid = task->pid;
	row.compatible = is_compatible(task);
	bpf_probe_read_kernel(row.command, IMAGE_BYTES, task->group_leader->comm);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

static __always_inline __u32 kind_of(__u64 number)
{
	return number < MAX_CALL_NUMBER ? kinds[number] : 0;
}

/* The return from a signal's handler; of 32-bit programs both have the same numbers on all processors. */
static __always_inline bool restores(__u64 number)
{
	return kind_of(number) & RESTORES || number == (COMPATIBLE | 119) || number == (COMPATIBLE | 173);
}

/* Whether a request is about calls: the counters of an interval libweigh reads itself. */
static __always_inline bool of_next_call(struct window *window)
{
	struct slot *slot = slot_of(window->client, window->slot);

	return slot && slot->calls;
}

/* What no probe bounds is of the part that the call's own code is of. */
static __always_inline void begin_in_its_part(struct window *window)
{
	__u32 part = kind_of(window->number) / OWN_PART;

	barrier_var(part); /* or the verifier sees the bound of another number */
	window->base = part;
	if (!part || part >= WEIGH_SUBSYSTEMS)
		return;
	__sync_fetch_and_or(&window->account.touched, BIT(part));
	add(&window->account.parts[part].entries, 1);
}

/* A call of a program with libweigh that a request may be about. */
static __always_inline void request_enters(struct window *window, struct task_struct *task)
{
	struct open open = { .window = window };
	__u64 wanted, now;

	window->bounded = 1;
	open.account = asked_for(window, task, &wanted);
	window->bounded = 0;
	if (!open.account)
		return;
	if (counts)
		start_counting(&window->counting, of_next_call(window) ? wanted : 0);
	now = bpf_ktime_get_ns();
	/* What came before, of an interval, is settled: all but the remainder, which is the program's. */
	split_time(&open, task, now);
	begin(window, task, now);
	window->bounded = 1;
	window->began = now;
}

static __always_inline void request_leaves(struct window *window, struct task_struct *task)
{
	struct open open = { .window = window };
	struct slot *slot;
	__u64 wanted, left;

	open.account = asked_for(window, task, &wanted);
	if (open.account) {
		open.wanted = wanted;
		split_time(&open, task, bpf_ktime_get_ns());
		stop_counting(&window->counting, open.account, by_part_on_cpu(&open));
	}
	forget_counting(&window->counting);
	window->bounded = 0;
	slot = slot_of(window->client, window->slot);
	if (!open.account || !slot)
		return;
	left = slot->calls;
	if (!left)
		return;
	add(&open.account->calls, 1);
	add(&open.account->time_ns, window->last - window->began);
	if (left == 1)
		slot->request = 0;
	slot->calls = left - 1;
}

/* A call of the job that its program asked for: what comes later of it is the program's, too. */
static __always_inline void note_request(struct window *window, struct task_struct *task)
{
	struct weigh_account *account;
	__u64 wanted;

	window->also = 0;
	if (!window->client)
		return;
	window->bounded = 1;
	account = asked_for(window, task, &wanted);
	window->bounded = 0;
	if (!account)
		return;
	window->also_generation = account->generation;
	window->also = window->request;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(call__enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window = window_of(task);
	struct cell_key key = {};
	__u64 now;

	if (!window)
		return 0;
	if (window->stage != STAGE_MEMBER) {
		if (window->client)
			request_enters(window, task);
		return 0;
	}
	window->number = is_compatible(task) ? number | COMPATIBLE : number;
	window->sequence = add(&tally.calls, 1) + 1;
	key.number = window->number;
	if (grouping == BY_THREAD) {
		key.of[0] = task->tgid;
		key.of[1] = task->pid;
	} else if (grouping != BY_CALL && kind_of(window->number) & TAKES_DESCRIPTOR) {
		of_descriptor(&key, task, FIRST_ARGUMENT(regs));
	}
	window->descriptor = kind_of(window->number) & TAKES_DESCRIPTOR ? FIRST_ARGUMENT(regs) : -1;
	window->of[0] = key.of[0];
	window->of[1] = key.of[1];
	window->cell = cell_number(&key);
	if (!window->cell)
		count_lost();
	note_request(window, task);
	if (tells_by_part)
		prepare_parts(task);
	start_counting(&window->counting, chosen);
	now = bpf_ktime_get_ns();
	begin(window, task, now);
	begin_in_its_part(window);
	window->began = now;
	window->inside = 1;
	return 0;
}

static __always_inline void take_transfers(struct window *window, __u32 tid)
{
	struct open_call *call = bpf_map_lookup_elem(&open_calls, &tid);
	struct weigh_account *account = &window->account;

	window->left_behind = 0;
	if (!call || call->sequence != window->sequence)
		return;
	account->block.requests = call->transfer.requests;
	account->block.written_bytes = call->transfer.written;
	account->block.transferred_bytes = call->transfer.bytes;
	account->block.carried_bytes = call->transfer.carried;
	account->block.queue_ns = call->transfer.queue_ns;
	account->block.device_ns = call->transfer.device_ns;
	account->block.carried_queue_ns = call->transfer.carried_queue_ns;
	account->block.carried_device_ns = call->transfer.carried_device_ns;
	account->block.foreign_requests = call->transfer.foreign_requests;
	account->block.foreign_bytes = call->transfer.foreign;
	account->block.issued = call->transfer.issued;
	account->block.in_flight = call->transfer.in_flight;
	account->block.in_flight_most = call->transfer.in_flight_most;
	account->fuse.server_ns = call->transfer.server_ns;
	bpf_map_delete_elem(&open_calls, &tid);
}

/* A call of the job that its program asked for is added to the account it asked for, too. */
static __always_inline void hand_on(struct window *window, struct task_struct *task,
				    struct interval *interval)
{
	__u64 *source = (__u64 *)&window->account, *target, wanted;
	struct weigh_account *account;
	struct slot *slot;
	__u64 left;

	window->bounded = 1;
	account = asked_for(window, task, &wanted);
	window->bounded = 0;
	slot = slot_of(window->client, window->slot);
	if (!account || !slot)
		return;
	interval->number = window->request;
	interval->token = account->token;
	left = slot->calls;
	target = (__u64 *)account;
	if (window->account.unmeasured)
		__sync_fetch_and_or(&account->unmeasured, window->account.unmeasured);
	__sync_fetch_and_or(&account->touched,
			    window->account.touched & (left ? -1 : ~WEIGH_COUNTERS));
	/* How many calls an interval is, its time and its counters the program itself knows. */
#pragma clang loop unroll(full)
	for (int i = FIRST_SUM; left && i < FIRST_PART; i++)
		if (source[i])
			add(&target[i], source[i]);
#pragma clang loop unroll(full)
	for (int i = FIRST_PART; i < NUMBERS; i++)
		if (IS_STATE(i))
			MERGE_STATE(target, source, i);
	add_sums(window, account);
	if (left == 1)
		slot->request = 0;
	if (left)
		slot->calls = left - 1;
}

static __always_inline void raise_times(struct cell *cell, __u64 time)
{
	/* Lost races leave a bound that is a call too small. */
	if (!cell->shortest_ns || time < cell->shortest_ns)
		cell->shortest_ns = time;
	if (time > cell->longest_ns)
		cell->longest_ns = time;
}

/* The call is over: its account goes to its cell. */
static __always_inline void finish(struct window *window, struct task_struct *task, long result)
{
	struct interval interval = {};
	struct cell *cell;
	struct open open;
	bool is_told;
	__u32 index;
	__u64 time;

	open.window = window;
	open.account = &window->account;
	open.wanted = chosen;
	split_time(&open, task, bpf_ktime_get_ns());
	stop_counting(&window->counting, open.account, by_part_on_cpu(&open));
	window->inside = 0;
	window->base = WEIGH_KERNEL;
	if (window->left_behind)
		take_transfers(window, task->pid);
	time = window->last - window->began;
	window->account.calls = 1;
	window->account.time_ns = time;
	if (window->client)
		hand_on(window, task, &interval);
	index = window->cell - 1;
	cell = bpf_map_lookup_elem(&cells, &index);
	if (window->descriptor >= 0 && window->account.parts[WEIGH_SCHED].waiting_ns)
		note_other_end(window, task, cell);
	if (tells_by_part && chosen & WEIGH_BY_PART)
		move_parts(window, task, index, interval.number);
	is_told = time >= told_from_ns;
	window->length = 0;
	if (is_told)
		begin_to_tell(window, task, restores(window->number) ? 0 : result, &interval);
	move_account(cell ? &cell->account : 0, window);
	if (is_told)
		tell(window);
	if (!cell)
		return;
	if (!restores(window->number) && result < 0 && result >= -4095)
		add(&cell->errors, 1);
	else if (kind_of(window->number) & MOVES_BYTES)
		add(&cell->bytes, result);
	raise_times(cell, time);
	count_time(index, time);
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(call__exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window = window_of(task);

	if (window && window->bounded)
		request_leaves(window, task);
	if (window && window->inside)
		finish(window, task, result);
	return 0;
}

#endif
