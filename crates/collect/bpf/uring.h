/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * io_uring: what its requests read and write. The kernel's own accounting does not see them, and
 * they may complete in any context, so each is charged to the process of the task that made it.
 * Requests of which no result will tell (IOSQE_CQE_SKIP_SUCCESS) are counted as hidden.
 */
#ifndef WEIGH_URING_H
#define WEIGH_URING_H

#include "job.h"
#include "uring_results.h"

static __always_inline struct process *process_of_request(struct io_kiocb *request)
{
	struct task_struct *task = task_of_request(request);
	__u64 key = task ? (__u64)BPF_CORE_READ(task, signal) : 0;

	return bpf_map_lookup_elem(&processes, &key);
}

#define MOVING                                                                                     \
	(1ULL << URING_READV | 1ULL << URING_WRITEV | 1ULL << URING_READ_FIXED |                   \
	 1ULL << URING_WRITE_FIXED | 1ULL << URING_SENDMSG | 1ULL << URING_RECVMSG |               \
	 1ULL << URING_READ | 1ULL << URING_WRITE | 1ULL << URING_SEND | 1ULL << URING_RECV |      \
	 1ULL << URING_SPLICE | 1ULL << URING_TEE | 1ULL << URING_SEND_ZC |                        \
	 1ULL << URING_SENDMSG_ZC | 1ULL << URING_READ_MULTISHOT | 1ULL << URING_READV_FIXED |     \
	 1ULL << URING_WRITEV_FIXED)

static __always_inline void submitted(struct io_kiocb *request)
{
	__u8 operation = BPF_CORE_READ(request, opcode);
	struct process *process;
	struct job *job;

	if (operation > 63 || !(MOVING >> operation & 1))
		return;
	process = process_of_request(request);
	if (!process || will_be_told(request, operation))
		return;
	job = job_of(process->job);
	if (job)
		atomic_add(&job->hidden_requests, 1);
}

/* Into a pipe is read, out of one is written. */
static __always_inline bool is_out_of_pipe(struct io_kiocb *request)
{
	return (BPF_CORE_READ(request, file, f_inode, i_mode) & S_IFMT) != S_IFIFO;
}

static __always_inline void completed(struct io_kiocb *request, __s32 result, __u32 flags)
{
	struct process *process;
	__u8 operation;
	struct job *job;
	bool wrote;

	if (!request || flags & CQE_F_NOTIF)
		return;
	process = process_of_request(request);
	if (!process)
		return;
	job = job_of(process->job);
	if (!job)
		return;
	operation = BPF_CORE_READ(request, opcode);
	switch (operation) {
	case URING_SPLICE:
		wrote = is_out_of_pipe(request);
		break;
	case URING_READV:
	case URING_READ_FIXED:
	case URING_RECVMSG:
	case URING_READ:
	case URING_RECV:
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

static __always_inline void completed_of(void *ring, struct io_kiocb *request, __u64 user_data,
					 __s32 result, __u32 flags)
{
	if (!request) {
		completed(repeated_request(ring, user_data, flags), result, flags);
		return;
	}
	completed(request, result, flags);
	forget_repeated(request, BPF_CORE_READ(request, opcode));
}

/* Since 6.4 (2ad57931db64); before that under the name of what is submitted. */
SEC("?tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *request)
{
	submitted(request);
	return 0;
}

SEC("?tp_btf/io_uring_submit_sqe")
int BPF_PROG(on_uring_submit_entry, struct io_kiocb *request)
{
	submitted(request);
	return 0;
}

/* Since 6.12 or so the completion is handed over whole; before, in pieces. */
SEC("?tp_btf/io_uring_complete")
int BPF_PROG(on_uring_complete, void *ring, void *request, struct io_uring_cqe *completion)
{
	completed_of(ring, request, BPF_CORE_READ(completion, user_data),
		     BPF_CORE_READ(completion, res), BPF_CORE_READ(completion, flags));
	return 0;
}

SEC("?tp_btf/io_uring_complete")
int BPF_PROG(on_uring_complete_pieces, void *ring, void *request, __u64 user_data, int result,
	     unsigned int flags)
{
	completed_of(ring, request, user_data, result, flags);
	return 0;
}

#endif
