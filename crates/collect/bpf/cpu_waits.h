/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * While threads of the job are runnable and wait for a CPU: the threads that had that CPU.
 *
 * Each CPU has a clock for each of those who can have it. A wait begins with a snapshot of the clocks of the CPU that
 * the thread is queued on, and ends with their differences. All of it happens under the lock of that CPU's queue, but
 * for the snapshot of the CPU that a waiting thread is moved to: clocks that do not add up to the time are not used.
 *
 * Attached on request only: each switch between threads of the machine pays for it.
 */
#ifndef WEIGH_CPU_WAITS_H
#define WEIGH_CPU_WAITS_H

#include "job.h"

#define TURN_MASK 3ULL

/* Of one CPU, and of one line of the cache. */
struct cpu_clocks {
	__u64 since; /* when the present turn began; in the two lowest bits whose it is */
	__u64 ran[N_TURNS];
	__u64 unused[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as many as CPUs: set by user space */
	__type(key, __u32);
	__type(value, struct cpu_clocks);
} cpu_clocks SEC(".maps");

/* When the clocks began; 0 where nobody asks for them. */
const volatile __u64 clocks_began = 0;

static __always_inline __u64 turn_now(void)
{
	return bpf_ktime_get_ns() & ~TURN_MASK;
}

static __always_inline __u64 began(struct cpu_clocks *clocks)
{
	__u64 since = *(volatile __u64 *)&clocks->since;

	return since ? since : clocks_began | TURN_NOBODY;
}

static __always_inline bool belongs(struct thread *thread)
{
	return thread && thread->stage != STAGE_NONE;
}

static __always_inline enum turn turn_of(struct task_struct *task, struct thread *thread)
{
	if (!task->pid)
		return TURN_NOBODY;
	if (belongs(thread) || ((task->flags & PF_IO_WORKER) && process_of(task)))
		return TURN_OWN;
	return TURN_OTHERS;
}

/* What the clocks of a CPU show. */
static __always_inline bool read_clocks(__u64 *ran, __u32 cpu, __u64 now)
{
	struct cpu_clocks *clocks = bpf_map_lookup_elem(&cpu_clocks, &cpu);
	__u64 since, start;

	if (!clocks)
		return false;
	since = began(clocks);
	start = since & ~TURN_MASK;
	for (int turn = 0; turn < N_TURNS; turn++) {
		ran[turn] = clocks->ran[turn];
		if ((since & TURN_MASK) == turn && now > start)
			ran[turn] += now - start;
	}
	return true;
}

static __always_inline void begin_wait(struct cpu_wait *wait, __u32 cpu, __u64 now)
{
	if (wait->since || !read_clocks(wait->ran, cpu, now))
		return;
	wait->cpu = cpu;
	wait->since = now;
}

static __always_inline void end_wait(struct cpu_wait *wait, struct job *job, __u32 cpu, __u64 now)
{
	__u64 ran[N_TURNS], passed, sum = 0;

	if (!wait->since)
		return;
	passed = now - wait->since;
	wait->since = 0;
	if (wait->cpu == cpu && read_clocks(ran, cpu, now)) {
		for (int turn = 0; turn < N_TURNS; turn++) {
			ran[turn] -= wait->ran[turn];
			sum += ran[turn];
		}
		if (sum == passed) {
			for (int turn = 0; turn < N_TURNS; turn++)
				atomic_add(&job->waited[turn], ran[turn]);
			return;
		}
	}
	atomic_add(&job->waited_unknown, passed);
}

/* Where nothing has been switched since the clocks began, the thread that runs there has done so since. */
static __always_inline void note_turn(struct task_struct *task, struct thread *thread)
{
	struct cpu_clocks *clocks;
	__u32 cpu;

	if (!clocks_began || !bpf_core_field_exists(task->on_cpu) || !task->on_cpu)
		return;
	cpu = task->thread_info.cpu;
	clocks = bpf_map_lookup_elem(&cpu_clocks, &cpu);
	if (clocks)
		__sync_val_compare_and_swap(&clocks->since, 0,
					    clocks_began | turn_of(task, thread));
}

static __always_inline void next_turn(struct task_struct *next, struct thread *arrives, __u32 cpu,
				      __u64 now)
{
	struct cpu_clocks *clocks = bpf_map_lookup_elem(&cpu_clocks, &cpu);
	__u64 since;

	if (!clocks)
		return;
	since = began(clocks);
	if (now > (since & ~TURN_MASK))
		clocks->ran[since & TURN_MASK] += now - (since & ~TURN_MASK);
	clocks->since = now | turn_of(next, arrives);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *before, struct task_struct *next)
{
	struct thread *leaves = entry_of(before);
	struct thread *arrives = entry_of(next);
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 now = turn_now();
	struct job *job;

	next_turn(next, arrives, cpu, now);
	if (belongs(leaves) && !before->__state)
		begin_wait(&leaves->wait, cpu, now);
	if (!belongs(arrives))
		return 0;
	job = job_of(arrives->job);
	if (job)
		end_wait(&arrives->wait, job, cpu, now);
	return 0;
}

static __always_inline int is_queued(struct task_struct *task)
{
	struct thread *thread = entry_of(task);

	/* One that has not left its CPU yet waits from when it does. */
	if (belongs(thread) && !task->on_cpu)
		begin_wait(&thread->wait, task->thread_info.cpu, turn_now());
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	return is_queued(task);
}

SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return is_queued(task);
}

SEC("?tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int cpu)
{
	struct thread *thread = entry_of(task);
	__u64 now;
	struct job *job;

	if (!belongs(thread) || !thread->wait.since)
		return 0;
	job = job_of(thread->job);
	if (!job)
		return 0;
	now = turn_now();
	end_wait(&thread->wait, job, task->thread_info.cpu, now);
	begin_wait(&thread->wait, cpu, now);
	return 0;
}

#endif
