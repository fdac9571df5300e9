/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a call leaves for later: work items, timers, requests of io_uring.
 */
#ifndef WEIGH_CALLS_DEFERRED_H
#define WEIGH_CALLS_DEFERRED_H

#include "account.h"

SEC("?tp_btf/workqueue_queue_work")
int BPF_PROG(workqueue__queue)
{
	struct open open;

	if (mine(&open, WEIGH_WORKQUEUE))
		add(&open.account->workqueue.queued, 1);
	return 0;
}

static __always_inline void timer_started(void)
{
	struct open open;

	if (mine(&open, WEIGH_TIMER))
		add(&open.account->timer.started, 1);
}

SEC("?tp_btf/timer_start")
int BPF_PROG(timer__start)
{
	timer_started();
	return 0;
}

SEC("?tp_btf/hrtimer_start")
int BPF_PROG(timer__start_precise)
{
	timer_started();
	return 0;
}

static __always_inline void handed_to_uring(void)
{
	struct open open;

	if (mine(&open, WEIGH_URING))
		add(&open.account->uring.submitted, 1);
}

/* Since 6.4 (2ad57931db64); before that under the name of what is submitted. */
SEC("?tp_btf/io_uring_submit_req")
int BPF_PROG(uring__submit)
{
	handed_to_uring();
	return 0;
}

SEC("?tp_btf/io_uring_submit_sqe")
int BPF_PROG(uring__submit_before_6_4)
{
	handed_to_uring();
	return 0;
}

SEC("?tp_btf/io_uring_complete")
int BPF_PROG(uring__complete)
{
	struct open open;

	if (mine(&open, WEIGH_URING))
		add(&open.account->uring.completed, 1);
	return 0;
}

#endif
