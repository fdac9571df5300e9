/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * File systems that a program serves: what a call asks of the server, and how long the answer takes.
 * The answer comes in the server's context, where a thread that waits for it is woken.
 */
#ifndef WEIGH_CALLS_FUSE_H
#define WEIGH_CALLS_FUSE_H

#include "wakers.h"
#include "causes.h"

struct asked {
	struct cause cause;
	__u64 sent;
	__u64 number; /* of the call or request */
	__u32 thread;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64); /* a request's address */
	__type(value, struct asked);
} asked SEC(".maps");

__u64 live_asked;

/*
 * Whether the request is the thread's own: requests of others that had to wait are sent by the thread
 * that brings an answer. By either of its numbers, for servers may live in a PID namespace.
 */
static __always_inline bool is_own(struct fuse_req *request, struct task_struct *task)
{
	__u32 asker = BPF_CORE_READ(request, in.h.pid), level, own = 0;
	struct pid *numbers;

	if (!asker || asker == task->pid)
		return true;
	numbers = BPF_CORE_READ(task, thread_pid);
	level = BPF_CORE_READ(numbers, level);
	bpf_probe_read_kernel(&own, sizeof(own),
			      (void *)numbers + bpf_core_field_offset(struct pid, numbers) +
				      (__u64)level * bpf_core_type_size(struct upid));
	return asker == own;
}

SEC("?tp_btf/fuse_request_send")
int BPF_PROG(fuse__send, struct fuse_req *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)request;
	struct asked new = {};
	struct open open;

	if (!mine(&open, WEIGH_FUSE) || !is_own(request, task))
		return 0;
	add(&open.account->parts[WEIGH_FUSE].entries, 1);
	add(&open.account->fuse.requests, 1);
	if (!cause_of(&new.cause, &open))
		return 0;
	new.sent = bpf_ktime_get_ns();
	new.number = number_of(open.window);
	new.thread = task->pid;
	if (bpf_map_update_elem(&asked, &key, &new, BPF_ANY)) {
		not_kept(&new.cause);
		return 0;
	}
	add(&live_asked, 1);
	pends(&new.cause, 1);
	return 0;
}

static __always_inline void charge_answer(struct cause *cause, __u64 time)
{
	struct weigh_account *account;
	struct weigh_later *later;
	struct open_call *call;

	if (cause->client) {
		account = account_of(cause);
		if (account && still_open(cause)) {
			add(&account->fuse.server_ns, time);
			return;
		}
	} else {
		call = bpf_map_lookup_elem(&open_calls, &cause->tid);
		if (call && call->sequence == cause->sequence) {
			add(&call->transfer.server_ns, time);
			return;
		}
	}
	later = later_of(cause);
	if (!later)
		return;
	add(&later->fuse_requests, 1);
	add(&later->fuse_ns, time);
	tell_later(cause, fuse_requests, 1, time);
}

SEC("?tp_btf/fuse_request_end")
int BPF_PROG(fuse__end, struct fuse_req *request)
{
	__u64 key = (__u64)request;
	struct asked *found, ended;

	if (!live_asked)
		return 0;
	found = bpf_map_lookup_elem(&asked, &key);
	if (!found)
		return 0;
	ended = *found;
	if (bpf_map_delete_elem(&asked, &key))
		return 0;
	add(&live_asked, -1);
	was_awaited(ended.thread, WEIGH_FUSE, ended.number);
	charge_answer(&ended.cause, bpf_ktime_get_ns() - ended.sent);
	pends(&ended.cause, -1);
	return 0;
}

#endif
