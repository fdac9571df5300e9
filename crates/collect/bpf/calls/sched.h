/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The scheduler: when a thread with an open account leaves the CPU, why, and for how long.
 */
#ifndef WEIGH_CALLS_SCHED_H
#define WEIGH_CALLS_SCHED_H

#include "wakers.h"

/*
 * What the thread waits for: what it was told before, a block device, if the kernel says so, or the
 * innermost part.
 */
static __always_inline __u32 cause_of_wait(struct window *window, struct task_struct *task)
{
	__u32 part = innermost(window);

	if (BPF_CORE_READ_BITFIELD(task, in_iowait)) {
		if (window->awaits != AWAITS_PAUSE || window->preempted)
			return WEIGH_BLOCK;
		window->awaits = AWAITS_NOTHING;
		return WEIGH_WRITEBACK;
	}
	if (part != WEIGH_KERNEL)
		return part;
	return window->awaits == AWAITS_WRITER ? WEIGH_WRITEBACK : WEIGH_SCHED;
}

static __always_inline void leaves(struct task_struct *task, bool preempt, __u64 *now)
{
	struct window *window;
	struct open open;

	if (!opened(&open, task, WEIGH_SCHED))
		return;
	window = open.window;
	split_time(&open, task, read_once(now));
	pause_counting(&window->counting, open.account, by_part_on_cpu(&open));
	/* Nobody is switched in an interrupt: if one seems to last, its end was missed. */
	window->interrupted = NOT_INTERRUPTED;
	window->off = *now;
	window->preempted = preempt || !task->__state;
	window->waits_for = cause_of_wait(window, task);
	if (window->preempted)
		add(&open.account->sched.preemptions, 1);
	else
		add(&open.account->sched.switches, 1);
}

static __always_inline void arrives(struct task_struct *task, __u64 *now)
{
	struct window *window;
	struct open open;
	__u64 passed;

	if (!opened(&open, task, WEIGH_SCHED))
		return;
	window = open.window;
	if (!window->off)
		return;
	passed = read_once(now) - window->off;
	window->waits_for = awaited_by(window, task);
	window->off = 0;
	window->last = *now;
	if (names_rivals)
		window->rivals.arrived = *now;
	was_off(window, open.account, passed);
	take_migrations(window, open.account, task);
	resume_counting(&window->counting);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(sched__switch, bool preempt, struct task_struct *before, struct task_struct *next)
{
	__u64 now = 0;

	leaves(before, preempt, &now);
	if (names_rivals)
		had_turn(before, read_once(&now));
	arrives(next, &now);
	return 0;
}

#endif
