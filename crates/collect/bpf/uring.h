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

static __always_inline void submitted(struct io_kiocb *request)
{
	__u8 operation = BPF_CORE_READ(request, opcode);
	struct process *process;
	struct job *job;

	if (!moves_bytes(operation))
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
	if (!moves_bytes(operation))
		return;
	wrote = operation == URING_SPLICE ? is_out_of_pipe(request) :
					    URING_WRITES >> (operation & 63) & 1;
	if (result > 0)
		count(job, process, wrote ? COUNTER_URING_WRITE_CHARS : COUNTER_URING_READ_CHARS,
		      result);
	count(job, process, wrote ? COUNTER_URING_WRITE_CALLS : COUNTER_URING_READ_CALLS, 1);
}

#include "uring_programs.h"

#endif
