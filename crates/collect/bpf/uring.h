/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * io_uring: what its requests read and write. The kernel's own accounting does not see them, and
 * they may complete in any context, so each is charged to the process of the task that made it.
 * Programs that ask for no completion of a request that succeeds (IOSQE_CQE_SKIP_SUCCESS) hide it.
 */
#ifndef WEIGH_URING_H
#define WEIGH_URING_H

#include "job.h"
#include "uring_requests.h"

static __always_inline void completed(struct io_kiocb *request, __s32 result, __u32 flags)
{
	struct task_struct *task;
	struct process *process;
	__u8 operation;
	struct job *job;
	__u64 key;
	bool wrote;

	if (!request || flags & CQE_F_NOTIF)
		return;
	task = task_of_request(request);
	if (!task)
		return;
	key = (__u64)BPF_CORE_READ(task, signal);
	process = bpf_map_lookup_elem(&processes, &key);
	if (!process)
		return;
	job = job_of(process->job);
	if (!job)
		return;
	operation = BPF_CORE_READ(request, opcode);
	switch (operation) {
	case URING_READV:
	case URING_READ_FIXED:
	case URING_RECVMSG:
	case URING_READ:
	case URING_RECV:
	case URING_SPLICE:
	case URING_TEE:
	case URING_READ_MULTISHOT:
	case URING_READV_FIXED:
		wrote = false;
		break;
	case URING_WRITEV:
	case URING_WRITE_FIXED:
	case URING_SENDMSG:
	case URING_WRITE:
	case URING_SEND:
	case URING_SEND_ZC:
	case URING_SENDMSG_ZC:
	case URING_WRITEV_FIXED:
		wrote = true;
		break;
	default:
		return;
	}
	if (result > 0)
		count(job, process, wrote ? COUNTER_URING_WRITE_CHARS : COUNTER_URING_READ_CHARS,
		      result);
	count(job, process, wrote ? COUNTER_URING_WRITE_CALLS : COUNTER_URING_READ_CALLS, 1);
}

/* Since 6.12 or so the completion is handed over whole; before, in pieces. */
SEC("?tp_btf/io_uring_complete")
int BPF_PROG(on_uring_complete, void *ring, void *request, struct io_uring_cqe *completion)
{
	completed(request, BPF_CORE_READ(completion, res), BPF_CORE_READ(completion, flags));
	return 0;
}

SEC("?tp_btf/io_uring_complete")
int BPF_PROG(on_uring_complete_pieces, void *ring, void *request, __u64 user_data, int result,
	     unsigned int flags)
{
	completed(request, result, flags);
	return 0;
}

#endif
