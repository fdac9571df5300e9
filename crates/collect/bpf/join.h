/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How a process that runs already becomes one of the job: see membership.h. What it has used before is not the job's.
 */
#ifndef WEIGH_JOIN_H
#define WEIGH_JOIN_H

#include "lifecycle.h"

/* A thread that is about to end is left out, for its exit may have been told. */
static __always_inline bool may_join(struct task_struct *task)
{
	return !(task->flags & (PF_EXITING | PF_IO_WORKER | PF_KTHREAD));
}

static __always_inline void note_join(struct thread *thread, struct task_struct *task)
{
	struct control *control = control_of(0);
	struct job *job = job_of(0);
	struct process *process;
	struct mm_struct *mm;

	if (!job || !control || thread->stage != STAGE_NONE)
		return;
	thread->seen = counters_of(task);
	thread->stage = STAGE_MEMBER;
	process = process_of(task);
	if (process) {
		atomic_add(&process->threads, 1);
		atomic_add(&process->unsettled, 1);
		more_threads(job, control);
		return;
	}
	if (!job->started) {
		job->started = bpf_ktime_get_boot_ns();
		/* Numbers of processes are those of the namespace that weigh is in. */
		job->level = BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid, level);
	}
	process = new_process(task, job, 0, 0);
	if (process) {
		process->started = job->started;
		process->is_apart = has_gained_rights(task);
	}
	mm = followed(task)->mm;
	if (process && mm)
		enter_memory(process, process_key(task), job, mm, false);
	more_threads(job, control);
	more_processes(job, control);
}

#endif
