/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Contended locks: the time from when a thread finds a lock taken until it has it.
 */
#ifndef WEIGH_CALLS_LOCK_H
#define WEIGH_CALLS_LOCK_H

#include "account.h"

/* The kernel's names for what is contended: include/trace/events/lock.h, since 5.19. */
#define LCB_F_READ (1U << 1)
#define LCB_F_WRITE (1U << 2)
#define LCB_F_MUTEX (1U << 5)

/*
 * Both keep their owner's task, and flags in its lowest bits. That of a semaphore which readers
 * hold is the last reader's, who may be gone: nobody is named then.
 */
#define OWNER_FLAGS 7
#define OWNED_BY_READERS 1

struct mutex {
	atomic_long_t owner;
} __attribute__((preserve_access_index));

struct rw_semaphore {
	atomic_long_t owner;
} __attribute__((preserve_access_index));

static __always_inline __u64 owner_of(void *lock, __u32 flags)
{
	struct mutex *mutex = lock;
	struct rw_semaphore *semaphore = lock;
	__u64 owner = 0;

	if (flags & LCB_F_MUTEX) {
		/* Where locks are real-time mutexes these have no such member. */
		if (bpf_core_field_exists(mutex->owner))
			owner = BPF_CORE_READ(mutex, owner.counter);
	} else if (flags == LCB_F_READ || flags == LCB_F_WRITE) {
		if (bpf_core_field_exists(semaphore->owner))
			owner = BPF_CORE_READ(semaphore, owner.counter);
		if (owner & OWNED_BY_READERS)
			return 0;
	}
	return owner & ~(__u64)OWNER_FLAGS;
}

static __always_inline void waits_for_holder(void *lock, __u32 flags)
{
	struct rival *holder;
	struct open open;
	__u64 owner;

	if (!mine(&open, WEIGH_LOCK))
		return;
	holder = &open.window->rivals.holder;
	holder->pid = 0;
	owner = owner_of(lock, flags);
	if (!owner)
		return;
	holder->time = bpf_ktime_get_ns();
	name_rival(holder, (struct task_struct *)owner);
}

static __always_inline void has_waited_for_holder(void)
{
	struct rival *holder;
	struct open open;

	if (!mine(&open, WEIGH_LOCK))
		return;
	holder = &open.window->rivals.holder;
	met(&open.window->rivals, RIVAL_LOCK_HOLDER, holder, bpf_ktime_get_ns() - holder->time);
	holder->pid = 0;
}

SEC("?tp_btf/contention_begin")
int BPF_PROG(lock__begin, void *lock, unsigned int flags)
{
	enter(WEIGH_LOCK);
	if (names_rivals)
		waits_for_holder(lock, flags);
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(lock__end)
{
	if (names_rivals)
		has_waited_for_holder();
	leave(WEIGH_LOCK);
	return 0;
}

#endif
