/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The job's processes and threads, from fork to free: what membership.h asks of this object, and what the kernel itself
 * counts for each thread.
 *
 * A thread's counters are settled (what is new since the last time goes into
 * the process's and the job's) at its exit, at each tick, and for the last time when it has left its
 * last CPU, so that its own exit is in them.
 */
#ifndef WEIGH_LIFECYCLE_H
#define WEIGH_LIFECYCLE_H

#include "job.h"
#include "cpu_waits.h"
#include "follow.h"
#include "limits.h"
#include "memory.h"
#include "membership.h"

struct settling {
	struct thread *thread;
	struct process *process;
	struct job *job;
	struct task_counters *now;
};

/*
 * With an exchange, because a tick and an exit may settle the same thread at once: whatever the
 * order, the sums end up at what was put in place last.
 */
static long settle_value(__u32 slot, struct settling *settling)
{
	struct process *process = settling->process;
	__u64 value, change;

	if (slot >= N_TASK_COUNTERS)
		return 1;
	value = settling->now->values[slot];
	if (value == settling->thread->seen.values[slot])
		return 0;
	change = value - exchange(&settling->thread->seen.values[slot], value);
	atomic_add(&settling->job->counters[slot], change);
	if (process)
		atomic_add(&process->counters[slot], change);
	return 0;
}

/* A plain loop is followed turn by turn, by each way through it. */
int settle_values(struct thread *thread, struct process *process, struct job *job,
		  struct task_counters *now)
{
	struct settling settling = { thread, process, job, now };

	if (thread && job && now)
		bpf_loop(N_TASK_COUNTERS, settle_value, &settling, 0);
	return 0;
}

#define READ_COUNTER(slot, value) counters.values[slot] = value;

static __always_inline struct task_counters counters_of(struct task_struct *task)
{
	struct task_counters counters;

	FOR_EACH_TASK_COUNTER(READ_COUNTER)
	return counters;
}

static __always_inline void settle(struct task_struct *task, struct thread *thread,
				   struct process *process, struct job *job)
{
	struct task_counters now = counters_of(task);

	settle_values(thread, process, job, &now);
}

static __always_inline __u32 pid_at(struct task_struct *task, __u32 level)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u64 offset;
	int number = 0;

	/* The namespaces' numbers lie behind each other; the verifier wants to see a bound. */
	offset = level * (__u32)bpf_core_type_size(struct upid);
	barrier_var(offset);
	offset &= 0xfff;
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) + offset);
	return number;
}

int tell_end(struct process *process, struct job *job)
{
	struct process_end *end;

	if (!process || !job)
		return 0;
	end = bpf_ringbuf_reserve(&events, sizeof(*end), 0);
	if (!end) {
		atomic_add(&job->lost_processes, 1);
		return 0;
	}
	end->kind = EVENT_PROCESS_END;
	end->unused = 0;
	__builtin_memcpy(&end->process, process, sizeof(end->process));
	bpf_ringbuf_submit(end, wake_flags(sizeof(*end)));
	return 0;
}

/*
 * Another process has the address by which an ended one was known, so its last thread was freed
 * without on_free being called: some kernels call no program from an interrupt that comes while
 * another program runs. What it used until its memory was gone is accounted for.
 */
static __always_inline void tell_forgotten(__u64 key, struct job *job)
{
	struct process *process = bpf_map_lookup_elem(&processes, &key);

	if (!process)
		return;
	tell_end(process, job);
	__sync_fetch_and_add(&job->unsettled, -(__u64)process->unsettled);
}

static __always_inline struct process *new_process(struct task_struct *task, struct job *job,
						   __u32 job_index, __u32 parent)
{
	__u64 key = process_key(task);
	union scratch *space = scratch(0);
	struct process *process;

	if (!space)
		return 0;
	tell_forgotten(key, job);
	process = &space->process;
	__builtin_memset(process, 0, sizeof(*process));
	process->started = task->start_boottime;
	process->job = job_index;
	process->pid = pid_at(task, job->level);
	process->parent = parent;
	process->threads = 1;
	process->unsettled = 1;
	bpf_probe_read_kernel(process->name, sizeof(process->name), task->comm);
	if (bpf_map_update_elem(&processes, &key, process, BPF_ANY)) {
		atomic_add(&job->lost_processes, 1);
		return 0;
	}
	return bpf_map_lookup_elem(&processes, &key);
}

static __always_inline void more_threads(struct job *job, struct control *control)
{
	__u64 threads = atomic_add(&job->threads, 1) + 1;

	atomic_add(&job->unsettled, 1);
	if (threads > job->threads_peak) {
		raise_to((__s64 *)&job->threads_peak, threads);
		check(LIMITED_THREADS, job, control, threads);
	}
}

static __always_inline void more_processes(struct job *job, struct control *control)
{
	__u64 processes = atomic_add(&job->processes, 1) + 1;
	__u64 total = atomic_add(&job->processes_total, 1) + 1;

	check(LIMITED_PROCESSES_TOTAL, job, control, total);
	if (processes > job->processes_peak) {
		raise_to((__s64 *)&job->processes_peak, processes);
		check(LIMITED_PROCESSES, job, control, processes);
	}
}

static __always_inline void note_lost_member(void)
{
	struct job *job = job_of(0);

	if (job)
		atomic_add(&job->lost_threads, 1);
}

static __always_inline void note_fork(struct thread *creator, struct task_struct *parent,
				      struct task_struct *child)
{
	struct job *job = job_of(creator->job);
	struct control *control = control_of(creator->job);
	struct process *process, *origin;
	struct thread *thread;
	struct mm_struct *mm;

	if (!job || !control)
		return;
	if (control->phase == PHASE_KILLING && may_signal(parent))
		bpf_send_signal(SIGKILL);
	thread = new_member(child);
	if (!thread)
		return;
	thread->job = creator->job;
	origin = process_of(parent);
	if (process_key(child) == process_key(parent)) {
		if (origin) {
			atomic_add(&origin->threads, 1);
			atomic_add(&origin->unsettled, 1);
		}
		more_threads(job, control);
		hold_child(job, control, child);
		return;
	}
	process = new_process(child, job, creator->job, origin ? origin->pid : 0);
	if (process && origin)
		process->is_apart = origin->is_apart;
	mm = followed(child)->mm;
	if (process && mm)
		enter_memory(process, process_key(child), job, mm,
			     (__u64)mm != (__u64)BPF_CORE_READ(parent, mm));
	more_threads(job, control);
	more_processes(job, control);
	hold_child(job, control, child);
}

/* Of who is not the owner's to look at the name is told, in place of the arguments. */
static __always_inline void tell_name(struct exec *exec, struct process *process, struct job *job)
{
	exec->kind = EVENT_EXEC;
	exec->pid = process->pid;
	exec->at = bpf_ktime_get_boot_ns();
	exec->length = bpf_probe_read_kernel_str(exec->arguments, sizeof(process->name),
						 process->name);
	exec->total = MAX_ARGUMENT_BYTES;
	if (exec->length > sizeof(process->name))
		exec->length = 0;
	if (bpf_ringbuf_output(&events, exec, EXEC_HEAD + sizeof(process->name), 0))
		atomic_add(&job->lost_events, 1);
}

static __always_inline void tell_arguments(struct task_struct *task, struct process *process,
					   struct job *job)
{
	struct mm_struct *mm = followed(task)->mm;
	union scratch *space = scratch(0);
	struct exec *exec;
	__u64 start, length;

	if (!space || !mm)
		return;
	exec = &space->exec;
	if (process->is_apart) {
		tell_name(exec, process, job);
		return;
	}
	start = mm->arg_start;
	length = mm->arg_end - start;
	exec->kind = EVENT_EXEC;
	exec->pid = process->pid;
	exec->at = bpf_ktime_get_boot_ns();
	exec->total = length;
	if (length > MAX_ARGUMENT_BYTES - 1)
		length = MAX_ARGUMENT_BYTES - 1;
	length &= MAX_ARGUMENT_BYTES - 1;
	if (bpf_probe_read_user(exec->arguments, length, (void *)start))
		length = 0;
	exec->length = length;
	length += EXEC_HEAD;
	if (length > sizeof(*exec))
		return;
	if (bpf_ringbuf_output(&events, exec, length, wake_flags(length)))
		atomic_add(&job->lost_events, 1);
}

/*
 * The command itself. What it did before it was let go was weigh's doing; its exec is its own, as
 * that of any other process.
 */
static __always_inline struct process *start_job(struct task_struct *task, struct thread *thread,
						 struct job *job, struct control *control)
{
	struct process *process;

	job->level = BPF_CORE_READ(task, thread_pid, level);
	process = new_process(task, job, thread->job, 0);
	more_threads(job, control);
	more_processes(job, control);
	if (process) {
		process->started = job->started;
		process->counters[COUNTER_FILES_OPENED] = job->counters[COUNTER_FILES_OPENED];
	}
	return process;
}

static __always_inline void note_exec(struct thread *thread, struct task_struct *task, bool begins)
{
	struct mm_struct *mm;
	struct control *control;
	struct process *process;
	struct job *job;

	if (thread->stage == STAGE_NONE)
		return;
	job = job_of(thread->job);
	control = control_of(thread->job);
	if (!job || !control)
		return;
	process = begins ? start_job(task, thread, job, control) : process_of(task);
	if (!process)
		return;
	process->execs++;
	process->is_apart = has_gained_rights(task);
	bpf_probe_read_kernel(process->name, sizeof(process->name), task->comm);
	mm = followed(task)->mm;
	if (mm && process->mm != (__u64)mm) {
		leave_memory(process, process_key(task), job, 0, false);
		enter_memory(process, process_key(task), job, mm, false);
	}
	tell_arguments(task, process, job);
}

static __always_inline void one_less(struct job *job)
{
	if (__sync_fetch_and_add(&job->processes, -1) == 1) {
		/* Later than every moment at which a reader found a process alive. */
		job->ended = bpf_ktime_get_boot_ns();
		announce(EVENT_EMPTY, LIMITED_NOTHING, job, 0, 0);
	}
}

static __always_inline void end_process(struct task_struct *task, struct process *process,
					struct job *job)
{

	process->ended = bpf_ktime_get_boot_ns();
	process->uid = BPF_CORE_READ(task, cred, uid.val);
	process->wait_status = BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT ?
				       BPF_CORE_READ(task, signal, group_exit_code) :
				       BPF_CORE_READ(task, group_leader, exit_code);
	BPF_CORE_READ_STR_INTO(&process->name, task, group_leader, comm);
	/* The OOM killer also chooses a process that was about to end anyway. */
	if (BPF_CORE_READ(task, signal, oom_mm) && (process->wait_status & 0x7f) == SIGKILL)
		count(job, process, COUNTER_OOM_KILLS, 1);
	leave_memory(process, process_key(task), job, followed(task)->mm, true);
	one_less(job);
}

/*
 * io_uring's workers are threads of the process that no fork event tells of. What they use is the
 * process's; among its threads they are not counted.
 */
static __always_inline void settle_worker(struct task_struct *task)
{
	struct process *process;
	struct thread *thread;
	struct job *job;

	if (!(task->flags & PF_IO_WORKER))
		return;
	process = process_of(task);
	if (!process)
		return;
	job = job_of(process->job);
	thread = bpf_task_storage_get(&members, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread || !job)
		return;
	thread->stage = STAGE_WORKER;
	thread->job = process->job;
	settle(task, thread, process, job);
}

static __always_inline void note_exit(struct thread *thread, struct task_struct *task)
{
	struct process *process;
	struct job *job = job_of(thread->job);

	if (!job)
		return;
	process = process_of(task);
	if (thread->inside)
		atomic_add(&job->lost_calls, 1);
	settle(task, thread, process, job);
	__sync_fetch_and_add(&job->threads, -1);
	if (process) {
		if (__sync_fetch_and_add(&process->threads, -1) == 1)
			end_process(task, process, job);
	} else if (task->pid == task->tgid) {
		/* one that did not fit into the map: counted as lost when it began */
		one_less(job);
	}
}

static __always_inline void note_other_exit(struct thread *thread, struct task_struct *task)
{
	settle_worker(task);
}

/* One that was settled for the last time. A tick and the kernel's own end of it may come to that at once. */
static __always_inline void let_go(struct task_struct *task, struct thread *thread,
				   struct process *process, struct job *job)
{
	enum stage stage = exchange(&thread->stage, STAGE_NONE);
	__u64 key;

	if (stage != STAGE_MEMBER)
		return;
	if (process && __sync_fetch_and_add(&process->unsettled, -1) == 1) {
		bury_memory(process, job);
		tell_end(process, job);
		key = process_key(task);
		bpf_map_delete_elem(&processes, &key);
	}
	if (__sync_fetch_and_add(&job->unsettled, -1) == 1 && !job->processes)
		announce(EVENT_EMPTY, LIMITED_NOTHING, job, 0, 0);
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	struct thread *thread = entry_of(task);
	struct process *process;
	struct job *job;

	if (!thread || thread->stage < STAGE_MEMBER)
		return 0;
	job = job_of(thread->job);
	if (!job)
		return 0;
	process = process_of(task);
	settle(task, thread, process, job);
	let_go(task, thread, process, job);
	return 0;
}

/*
 * It has left its last CPU and waits for its parent: what it has used does not change any more. The kernel frees it a
 * grace period after that, some 12 ms at the end of a short job.
 */
static __always_inline bool is_dead(struct task_struct *task, struct thread *thread)
{
	if (!bpf_core_field_exists(task->on_cpu) || task->__state != TASK_DEAD || task->on_cpu)
		return false;
	/* What it has used is read after that. */
	__sync_fetch_and_add(&thread->inside, 0);
	return true;
}

/* Since 6.16 a process gives back its memory after its exit was told: that is part of its time. */
static __always_inline void torn_down(struct memory *memory, struct job *job)
{
	__u64 key = memory->process;
	struct process *process = bpf_map_lookup_elem(&processes, &key);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	memory->dying = 1;
	if (!process || !process->ended || process->mm_id != memory->id)
		return;
	process->ended = bpf_ktime_get_boot_ns();
	if (process->ended > job->ended)
		job->ended = process->ended;
	thread = member(task);
	if (thread && process_key(task) == key)
		settle(task, thread, process, job);
}

SEC("tp_btf/rss_stat")
int BPF_PROG(on_rss_stat, struct mm_struct *mm, int which)
{
	__u64 key = (__u64)mm;
	struct recent *recent = recent_of(key);
	struct memory *memory;
	__s64 plain, now;
	struct job *job;

	if (which < 0 || which >= NR_MM_COUNTERS)
		return 0;
	plain = plain_count(mm, which);
	if (recent->mm == key && recent->counts[which] == plain && !precise)
		return 0;
	memory = bpf_map_lookup_elem(&memories, &key);
	if (!memory || !memory->dying) {
		recent->mm = key;
		recent->counts[which] = plain;
	}
	if (!memory)
		return 0;
	job = job_of(memory->job);
	if (!job)
		return 0;
	now = exact_count(mm, which);
	/* One that was torn down does not grow: another process has its address now. */
	if (memory->dying && now > memory->pages[which]) {
		forget_memory(memory, job);
		return 0;
	}
	memory->pages[which] = now;
	look_at_hugetlb(memory, job, mm);
	account_memory(memory, job, virtual_bytes(mm));
	if (is_empty(memory))
		torn_down(memory, job);
	return 0;
}

/* Run by user space at each tick: brings the counters of all threads up to date that were not reaped. */
SEC("iter/task")
int on_tick(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct mm_struct *mm;
	struct process *process;
	struct memory *memory;
	struct thread *thread;
	struct job *job;
	bool dead;
	__u64 key;

	if (!task)
		return 0;
	thread = entry_of(task);
	note_turn(task, thread);
	if (!thread || thread->stage == STAGE_NONE || thread->stage == STAGE_WORKER) {
		settle_worker(task);
		return 0;
	}
	job = job_of(thread->job);
	if (!job)
		return 0;
	if (thread->stage == STAGE_ARMED) {
		/* It waits between fork and exec, and is let go right after this. */
		thread->seen = counters_of(task);
		job->started = bpf_ktime_get_boot_ns();
		return 0;
	}
	process = process_of(task);
	dead = is_dead(task, thread);
	settle(task, thread, process, job);
	if (dead) {
		let_go(task, thread, process, job);
		return 0;
	}
	mm = followed(task)->mm;
	if (!process || !mm || task->pid != task->tgid)
		return 0;
	key = (__u64)mm;
	memory = bpf_map_lookup_elem(&memories, &key);
	if (memory && memory->id == process->mm_id)
		refresh_memory(memory, job, mm);
	return 0;
}

#endif
