/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Interrupts and softirqs on top of a thread with an open account: what other programs see while one
 * of them runs is not the thread's doing. So they are attached for all parts but those that no
 * interrupt takes part in. The programs at softirqs are in softirq_net.h.
 */
#ifndef WEIGH_CALLS_IRQ_H
#define WEIGH_CALLS_IRQ_H

#include "account.h"

static __always_inline void took_from(struct open *open, __u64 time)
{
	add(&open->account->parts[WEIGH_IRQ].time_ns, time);
	if (open->window->interrupted == IN_SOFTIRQ)
		add(&open->account->irq.soft_ns, time);
	else
		add(&open->account->irq.hard_ns, time);
}

static __always_inline void stolen(struct open *open, struct task_struct *task, __u64 now)
{
	struct window *window = open->window;
	__u64 passed = now - window->interrupted_at;

	if (window->interrupted == NOT_INTERRUPTED) {
		split(open, task, now);
	} else {
		count_border(open);
		if ((__s64)passed > 0)
			took_from(open, passed);
	}
	window->interrupted_at = now;
	window->last = now;
}

static __always_inline void interrupt(bool begins, bool soft, __u64 *now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	enum interrupted state;
	struct open open;

	if (!opened(&open, task, WEIGH_IRQ))
		return;
	state = open.window->interrupted;
	/* The window was opened in the middle of it. */
	if (!begins && state == NOT_INTERRUPTED)
		return;
	stolen(&open, task, read_once(now));
	if (begins) {
		add(&open.account->parts[WEIGH_IRQ].entries, 1);
		state = soft ? IN_SOFTIRQ : state == IN_SOFTIRQ ? IN_INTERRUPT_OF_SOFTIRQ : IN_INTERRUPT;
	} else {
		state = state == IN_INTERRUPT_OF_SOFTIRQ ? IN_SOFTIRQ : NOT_INTERRUPTED;
	}
	open.window->interrupted = state;
}

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(irq__entry)
{
	__u64 now = 0;

	interrupt(true, false, &now);
	return 0;
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(irq__exit)
{
	__u64 now = 0;

	interrupt(false, false, &now);
	return 0;
}

#endif
