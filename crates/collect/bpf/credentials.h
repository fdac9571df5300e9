/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the kernel's rule for looking into a process (ptrace(2), PTRACE_MODE_READ_FSCREDS) goes by, and what
 * a thread has of it.
 */
#ifndef WEIGH_CREDENTIALS_H
#define WEIGH_CREDENTIALS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define DUMPABLE_BITS 3
#define DUMPABLE_BY_USER 1
#define CAP_SYS_PTRACE 19
#define MAX_USER_NAMESPACES 34 /* nested: the kernel allows 32 */

/* As prctl(2) has it: not so is a program that may be executed and not read, or that has gained rights. */
static __always_inline bool is_dumpable(struct task_struct *task)
{
	void *mm = BPF_CORE_READ(task, mm);
	struct mm_struct___since_6_18 *newer = mm;
	struct mm_struct___before_6_18 *older = mm;
	unsigned long flags = 0;

	if (bpf_core_field_exists(newer->flags))
		bpf_core_read(&flags, sizeof(flags), &newer->flags);
	else
		bpf_core_read(&flags, sizeof(flags), &older->flags);
	return (flags & DUMPABLE_BITS) == DUMPABLE_BY_USER;
}

static __always_inline __u64 permitted_of(const struct cred *cred)
{
	__u64 set = 0;

	bpf_probe_read_kernel(&set, sizeof(set),
			      (void *)cred + bpf_core_field_offset(struct cred, cap_permitted));
	return set;
}

static __always_inline __u64 effective_of(const struct cred *cred)
{
	__u64 set = 0;

	bpf_probe_read_kernel(&set, sizeof(set),
			      (void *)cred + bpf_core_field_offset(struct cred, cap_effective));
	return set;
}

#endif
