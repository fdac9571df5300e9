/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Requests of io_uring, and who does them: the thread that made one, or a thread of its process that the
 * kernel has made for that, of which sched_process_fork does not tell. What such a worker does is charged to
 * the call that handed in the request that it works on. That of the thread that polls for requests, which no call
 * hands in, and of a worker made before its thread was followed, is the job's all the same.
 */
#ifndef WEIGH_CALLS_URING_H
#define WEIGH_CALLS_URING_H

#include "stores.h"
#include "../uring_requests.h"

struct handed_to_uring {
	struct cause cause;
	__u64 is_told; /* its completion */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64); /* a request's address */
	__type(value, struct handed_to_uring);
} uring_requests SEC(".maps");

/* In the table: with none, nothing has to be looked for. */
__u64 live_uring_requests;

static __always_inline bool take_uring_request(struct handed_to_uring *handed, __u64 key)
{
	struct handed_to_uring *known;

	if (!live_uring_requests)
		return false;
	known = bpf_map_lookup_elem(&uring_requests, &key);
	if (!known)
		return false;
	*handed = *known;
	if (bpf_map_delete_elem(&uring_requests, &key))
		return false;
	add(&live_uring_requests, -1);
	if (handed->is_told)
		pends(&handed->cause, -1);
	return true;
}

static __always_inline void hand_to_uring(struct io_kiocb *request)
{
	__u64 key = (__u64)request, flags = 0;
	struct handed_to_uring handed;
	struct open open;

	/* Its memory was another's, which completed without a word. */
	take_uring_request(&handed, key);
	if (!in_context(&open))
		return;
	if (asks(&open, WEIGH_URING))
		add(&open.account->uring.submitted, 1);
	name_cause(&handed.cause, &open);
	bpf_core_read(&flags, bpf_core_field_size(request->flags), &request->flags);
	handed.is_told = !(flags & REQ_F_CQE_SKIP);
	if (bpf_map_update_elem(&uring_requests, &key, &handed, BPF_ANY)) {
		not_kept(&handed.cause);
		return;
	}
	add(&live_uring_requests, 1);
	if (handed.is_told)
		pends(&handed.cause, 1);
}

/* Since 6.4 (2ad57931db64); before that under the name of what is submitted. */
SEC("?tp_btf/io_uring_submit_req")
int BPF_PROG(uring_and_pagecache_and_block__submit, struct io_kiocb *request)
{
	hand_to_uring(request);
	return 0;
}

SEC("?tp_btf/io_uring_submit_sqe")
int BPF_PROG(uring_and_pagecache_and_block__submit_before_6_4, struct io_kiocb *request)
{
	hand_to_uring(request);
	return 0;
}

SEC("?tp_btf/io_uring_complete")
int BPF_PROG(uring_and_pagecache_and_block__complete, void *ring, void *request)
{
	struct handed_to_uring handed;
	bool known = take_uring_request(&handed, (__u64)request);
	struct weigh_later *later;
	struct open open;

	if (in_context(&open)) {
		if (asks(&open, WEIGH_URING))
			add(&open.account->uring.completed, 1);
		return 0;
	}
	if (!known)
		return 0;
	each_later(later, &handed.cause)
		add(&later->uring_requests, 1);
	tell_later(&handed.cause, uring_requests, 1);
	return 0;
}

/* Whose the doings of the thread are, if it is one of the kernel's for io_uring. Global, for the stack's sake. */
__noinline int worker_cause(struct cause *cause)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader;
	struct handed_to_uring *handed = 0;
	struct io_worker *worker;
	struct window *window;
	__u64 request;

	if (!cause || !(task->flags & PF_IO_WORKER))
		return false;
	/* Once, and before the ways part: see followed(). */
	leader = task->group_leader;
	worker = task->worker_private;
	request = worker ? (__u64)BPF_CORE_READ(worker, cur_work) : 0;
	if (request) {
		request -= bpf_core_field_offset(struct io_kiocb, work);
		handed = bpf_map_lookup_elem(&uring_requests, &request);
	}
	if (handed) {
		*cause = handed->cause;
		return true;
	}
	window = window_of(leader);
	return window && window->stage == STAGE_MEMBER && name_no_call(cause, URING, leader);
}

#endif
