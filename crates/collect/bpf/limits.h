/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Limits, checked at the update that crosses them. The offender is stopped at that point so that
 * user space can look at it; user space then ends the job. A stop is not seen by a thread that
 * stays in the kernel (MAP_POPULATE, a large read into untouched memory), so a process that goes on
 * growing by more than SLACK_BYTES while held is killed.
 */
#ifndef WEIGH_LIMITS_H
#define WEIGH_LIMITS_H

#include "kernel_functions.h"
#include "job.h"

#define SLACK_BYTES (256 << 10)

__u32 precise; /* a limit is near: updates are not passed over */

int announce(enum event_kind kind, enum limited limited, struct job *job, __s64 observed,
	     __u32 held)
{
	struct crossing *event;
	struct task_struct *task = bpf_get_current_task_btf();
	struct process *process = process_of(task);
	__s64 stack_bytes = 0;

	if (!job)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		atomic_add(&job->lost_events, 1);
		return 0;
	}
	event->kind = kind;
	event->limited = limited;
	event->at = bpf_ktime_get_boot_ns();
	event->rss = job->rss;
	event->floor = job->floor;
	event->observed = observed;
	event->pid = process ? process->pid : 0;
	event->tid = task->pid;
	event->held = held;
	if (kind == EVENT_LIMIT && process && !process->is_apart && !has_gained_rights(task))
		stack_bytes = bpf_get_task_stack(task, event->stack, sizeof(event->stack),
						 BPF_F_USER_STACK);
	event->frames = stack_bytes > 0 ? stack_bytes / sizeof(__u64) : 0;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}

static __always_inline bool is_memory(enum limited limited)
{
	return limited <= LIMITED_VIRTUAL;
}

/* What a job that is being ended may still take: 0.2 % of its limit, 256 KiB or calls at least; a few processes. */
static __always_inline __u64 last_wish(enum limited limited, __u64 limit)
{
	__u64 least = SLACK_BYTES;

	if (limited >= LIMITED_PROCESSES_TOTAL && limited <= LIMITED_THREADS)
		return 16;
	if (limited == LIMITED_READ_CALLS || limited == LIMITED_WRITE_CALLS)
		least = 256;
	return limit >> 9 > least ? limit >> 9 : least;
}

/* Called with each new value of something that a limit can be set on. */
int check(enum limited limited, struct job *job, struct control *control, __s64 value)
{
	struct task_struct *task;
	__u64 limit, warning;

	if (!job || !control || limited >= N_LIMITED)
		return 0;
	limit = control->limits[limited];
	warning = control->warnings[limited];
	/*
	 * From half of it on every single page is checked: a thread that took some before, and waits for
	 * a CPU since then, must not add them after the limit is reached.
	 */
	if (value > (__s64)(limit >> 1) && limit && !precise && is_memory(limited))
		precise = 1;
	if (warning && value > (__s64)warning && !(job->warned & (1ull << limited))) {
		if (!(__sync_fetch_and_or(&job->warned, 1ull << limited) & (1ull << limited)))
			announce(EVENT_WARNING, limited, job, value, 0);
	}
	if (!limit)
		return 0;
	if (value <= (__s64)limit)
		return 0;
	task = bpf_get_current_task_btf();
	if (__sync_val_compare_and_swap(&job->crossed, 0, limited) == 0) {
		__u32 hold = control->hold && member(task) && may_signal(task);

		job->crossed_value = value;
		if (hold)
			bpf_send_signal(SIGSTOP);
		announce(EVENT_LIMIT, limited, job, value, hold);
		return 0;
	}
	if (!control->hold || !member(task) || !may_signal(task))
		return 0;
	if (job->crossed == limited && job->crossed_value > (__s64)limit)
		limit = job->crossed_value;
	if (control->phase >= PHASE_ENDING) {
		/* A process that was told to end may need a little to do so; it gets no more. */
		if (control->hold == HOLD_KILL && value > (__s64)(limit + last_wish(limited, limit)))
			bpf_send_signal(SIGKILL);
	} else if (control->hold == HOLD_KILL && is_memory(limited) &&
		   value > (__s64)(limit + SLACK_BYTES)) {
		bpf_send_signal(SIGKILL);
	} else {
		bpf_send_signal(SIGSTOP);
	}
	return 0;
}

/* Since 6.13. */
static int (*const bpf_send_signal_task)(struct task_struct *task, int sig, enum pid_type type,
					 __u64 value) = KERNEL_FUNCTION(1);
const volatile bool can_signal_task;

/*
 * The signal for a thread that is about to add to a number of processes or threads past its limit,
 * and for one that forks while the job is killed; 0 for others.
 */
static __always_inline int signal_for_fork(struct job *job, struct control *control)
{
	__u64 limit, now;

	if (!control->hold)
		return 0;
	if (control->phase == PHASE_KILLING)
		return SIGKILL;
	switch (job->crossed) {
	case LIMITED_PROCESSES_TOTAL:
		limit = control->limits[LIMITED_PROCESSES_TOTAL];
		now = job->processes_total;
		break;
	case LIMITED_PROCESSES:
		limit = control->limits[LIMITED_PROCESSES];
		now = job->processes;
		break;
	case LIMITED_THREADS:
		limit = control->limits[LIMITED_THREADS];
		now = job->threads;
		break;
	default:
		return 0;
	}
	if (control->phase < PHASE_ENDING)
		return now >= limit ? SIGSTOP : 0;
	if (control->hold == HOLD_KILL && now >= limit + last_wish(job->crossed, limit))
		return SIGKILL;
	return 0;
}

/*
 * At a fork that is done, a signal to the parent comes too late for the child: stopped or killed as
 * their parents are, the children of a fork bomb would go on for ever. From 6.13 on the child can be
 * sent one before its first instruction.
 */
static __always_inline void hold_child(struct job *job, struct control *control,
				       struct task_struct *child)
{
	int signal = signal_for_fork(job, control);

	if (signal && may_signal(child) && can_signal_task)
		bpf_send_signal_task(child, signal, PIDTYPE_TGID, 0);
}

#if defined(__TARGET_ARCH_x86)
#define CALL_CLONE 56
#define CALL_FORK 57
#define CALL_VFORK 58
#define CALL_CLONE3 435
#else
#define CALL_CLONE 220
#define CALL_FORK 220
#define CALL_VFORK 220
#define CALL_CLONE3 435
#endif

/*
 * The same for older kernels: with a signal waiting for it, a fork does not begin. Attached only where
 * there is a limit of processes or threads, or a job is being killed: it slows all calls on the machine.
 */
SEC("?tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *registers, long number)
{
	struct thread *thread;
	struct control *control;
	struct job *job;
	int signal;

	if (number != CALL_CLONE && number != CALL_FORK && number != CALL_VFORK && number != CALL_CLONE3)
		return 0;
	thread = member(bpf_get_current_task_btf());
	if (!thread)
		return 0;
	job = job_of(thread->job);
	control = control_of(thread->job);
	if (!job || !control)
		return 0;
	signal = signal_for_fork(job, control);
	if (signal && may_signal(bpf_get_current_task_btf()))
		bpf_send_signal(signal);
	return 0;
}

#endif
