/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Limits of I/O, checked at the end of each system call of the job: when one is crossed, each of its threads has made
 * one call more, at most. Attached only where such a limit ends or stops the job: it slows all calls on the machine.
 *
 * What io_uring's own threads and stores to mapped files move comes without a call; user space looks for that.
 */
#ifndef WEIGH_CALL_LIMITS_H
#define WEIGH_CALL_LIMITS_H

#include "lifecycle.h"
#include "sockets.h"

static __always_inline bool settle_one(struct thread *thread, struct process *process,
				       struct job *job, int slot, __u64 value)
{
	__u64 change;

	if (value == thread->seen.values[slot])
		return false;
	change = value - exchange(&thread->seen.values[slot], value);
	count(job, process, slot, change);
	return true;
}

/* From the thread's own counters, if the call has moved any. */
static __always_inline bool settle_io(struct task_struct *task, struct thread *thread,
				      struct process *process, struct job *job)
{
	bool moved = false;

	moved |= settle_one(thread, process, job, COUNTER_READ_CHARS, task->ioac.rchar);
	moved |= settle_one(thread, process, job, COUNTER_WRITE_CHARS, task->ioac.wchar);
	moved |= settle_one(thread, process, job, COUNTER_READ_CALLS, task->ioac.syscr);
	moved |= settle_one(thread, process, job, COUNTER_WRITE_CALLS, task->ioac.syscw);
	moved |= settle_one(thread, process, job, COUNTER_STORAGE_READ, task->ioac.read_bytes);
	moved |= settle_one(thread, process, job, COUNTER_STORAGE_WRITTEN, task->ioac.write_bytes);
	return moved;
}

static __always_inline __u64 sum_of(struct job *job, int own, int socket, int uring, int other)
{
	return job->counters[own] + job->counters[socket] + job->counters[uring] +
	       job->counters[other];
}

int check_io(struct job *job, struct control *control)
{
	if (!job || !control)
		return 0;
	check(LIMITED_READ_BYTES, job, control,
	      sum_of(job, COUNTER_READ_CHARS, COUNTER_SOCKET_READ_CHARS, COUNTER_URING_READ_CHARS,
		     COUNTER_OTHER_READ_CHARS));
	check(LIMITED_WRITTEN_BYTES, job, control,
	      sum_of(job, COUNTER_WRITE_CHARS, COUNTER_SOCKET_WRITE_CHARS,
		     COUNTER_URING_WRITE_CHARS, COUNTER_OTHER_WRITE_CHARS));
	check(LIMITED_READ_CALLS, job, control,
	      sum_of(job, COUNTER_READ_CALLS, COUNTER_SOCKET_READ_CALLS, COUNTER_URING_READ_CALLS,
		     COUNTER_OTHER_READ_CALLS));
	check(LIMITED_WRITE_CALLS, job, control,
	      sum_of(job, COUNTER_WRITE_CALLS, COUNTER_SOCKET_WRITE_CALLS,
		     COUNTER_URING_WRITE_CALLS, COUNTER_OTHER_WRITE_CALLS));
	check(LIMITED_STORAGE_READ, job, control, job->counters[COUNTER_STORAGE_READ]);
	check(LIMITED_STORAGE_WRITTEN, job, control, job->counters[COUNTER_STORAGE_WRITTEN]);
	check(LIMITED_NET_SENT, job, control, job->counters[COUNTER_NET_SENT]);
	check(LIMITED_NET_RECEIVED, job, control, job->counters[COUNTER_NET_RECEIVED]);
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_call_end, struct pt_regs *registers, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = member(task);
	struct process *process;
	struct control *control;
	__u64 sockets;
	struct job *job;

	if (!thread)
		return 0;
	job = job_of(thread->job);
	control = control_of(thread->job);
	process = process_of(task);
	if (!job || !control)
		return 0;
	if (result >= 0 && is_uncounted_call(CALL_NUMBER(registers), is_compatible(task)))
		atomic_add(&job->uncounted_calls, 1);
	/* What goes through sockets is counted where it happens, not in the thread's own counters. */
	sockets = process ? process->counters[COUNTER_SOCKET_READ_CALLS] +
				    process->counters[COUNTER_SOCKET_WRITE_CALLS] +
				    process->counters[COUNTER_OTHER_READ_CALLS] +
				    process->counters[COUNTER_OTHER_WRITE_CALLS] :
			    0;
	if (settle_io(task, thread, process, job) || sockets != thread->sockets) {
		thread->sockets = sockets;
		check_io(job, control);
	}
	return 0;
}

#endif
