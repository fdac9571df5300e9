/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Senders of signals that end a process of the job. Attached where signals are generated: a machine that sends none
 * pays nothing, and a signal to another process costs one look at whether it is the job's.
 *
 * Only signals that would end the process are kept, one for each process. A process that catches one and then sends
 * it to itself has done the latter.
 */
#ifndef WEIGH_SIGNALS_H
#define WEIGH_SIGNALS_H

#include "lifecycle.h"

#define SIGCHLD 17
#define SIGCONT 18
#define SIGTTOU 22
#define SIGURG 23
#define SIGWINCH 28
#define LAST_SIGNAL 64

/* In place of the address of what came with a signal. */
#define SENT_WITHOUT_INFO 0
#define SENT_BY_KERNEL 1

/* si_code */
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6

enum sender_kind {
	SENDER_UNKNOWN,
	SENDER_KERNEL,
	SENDER_ITSELF,
	SENDER_JOB, /* another process of it */
	SENDER_OTHER,
};

struct sender {
	__u32 signal;
	enum sender_kind kind;
	__u32 pid; /* as the job's PID namespace has it; 0: it is in none of its */
	__u32 uid;
	char name[16];
};

/* By the process that got it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct sender);
} senders SEC(".maps");

const volatile struct sender sender_layout;

/* Whether it ends a process that has made no arrangements for it. */
static __always_inline bool is_fatal_by_default(__u32 signal)
{
	if (signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH)
		return false;
	return signal < SIGCONT || signal > SIGTTOU;
}

static __always_inline bool is_left_to_default(struct task_struct *task, __u32 signal)
{
	void *actions = BPF_CORE_READ(task, sighand), *handler = 0;
	__u64 offset;

	if (!actions)
		return false;
	/* The verifier wants to see a bound. */
	offset = (signal - 1) * (__u32)bpf_core_type_size(struct k_sigaction);
	barrier_var(offset);
	offset &= 0xfff;
	offset += bpf_core_field_offset(struct sighand_struct, action) +
		  bpf_core_field_offset(struct k_sigaction, sa.sa_handler);
	bpf_probe_read_kernel(&handler, sizeof(handler), actions + offset);
	return !handler;
}

/* What a process sends comes in a call of its own; of what it can pretend to be nothing is told. */
static __always_inline enum sender_kind kind_of(struct kernel_siginfo *info, bool is_own)
{
	int code = SI_USER;

	if ((__u64)info == SENT_BY_KERNEL)
		return SENDER_KERNEL;
	if ((__u64)info != SENT_WITHOUT_INFO)
		code = BPF_CORE_READ(info, si_code);
	else if (is_own)
		/* For a write of its own. What kills a control group comes without more, too. */
		return SENDER_KERNEL;
	if (code == SI_USER || code == SI_QUEUE || code == SI_TKILL)
		return is_own ? SENDER_ITSELF : SENDER_OTHER;
	return code > 0 ? SENDER_KERNEL : SENDER_UNKNOWN;
}

static __always_inline void know_sender(struct sender *sender, struct task_struct *task, struct job *job)
{
	if (sender->kind == SENDER_OTHER && member(task))
		sender->kind = SENDER_JOB;
	sender->uid = BPF_CORE_READ(task, cred, uid.val);
	if (BPF_CORE_READ(task, group_leader, thread_pid, level) >= job->level)
		sender->pid = pid_at(task, job->level);
	BPF_CORE_READ_STR_INTO(&sender->name, task, group_leader, comm);
}

SEC("?tp_btf/signal_generate")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct sender sender = { .signal = signal };
	struct thread *thread;
	struct job *job;
	__u32 pid;

	if (signal < 1 || signal > LAST_SIGNAL || !is_fatal_by_default(signal))
		return 0;
	thread = member(task);
	if (!thread || !is_left_to_default(task, signal))
		return 0;
	job = job_of(thread->job);
	if (!job)
		return 0;
	sender.kind = kind_of(info, current->tgid == task->tgid);
	if (sender.kind >= SENDER_ITSELF)
		know_sender(&sender, current, job);
	pid = pid_at(task, job->level);
	bpf_map_update_elem(&senders, &pid, &sender, BPF_ANY);
	return 0;
}

#endif
