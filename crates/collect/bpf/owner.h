/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * For whom a job is followed, if he has no rights of his own: whom he may signal, and of whom he is not
 * told what it does. Without an owner the verifier drops all of it.
 */
#ifndef WEIGH_OWNER_H
#define WEIGH_OWNER_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

const volatile __u32 has_owner = 0;
const volatile __u32 owner = 0;

/* As kill(2) has it for a user without capabilities. */
static __always_inline bool may_signal(struct task_struct *task)
{
	if (!has_owner)
		return true;
	return BPF_CORE_READ(task, real_cred, uid.val) == owner ||
	       BPF_CORE_READ(task, real_cred, suid.val) == owner;
}

/*
 * Whether a thread has rights that the owner of the job has not, as ptrace(2) would have it: then he
 * is not told what it does. What a user namespace gives counts for nothing outside.
 */
static __always_inline bool has_gained_rights(struct task_struct *task)
{
	const struct cred *cred;
	__u64 permitted = 0;

	if (!has_owner)
		return false;
	cred = BPF_CORE_READ(task, real_cred);
	if (BPF_CORE_READ(cred, uid.val) != owner || BPF_CORE_READ(cred, euid.val) != owner ||
	    BPF_CORE_READ(cred, suid.val) != owner || BPF_CORE_READ(cred, fsuid.val) != owner)
		return true;
	if (BPF_CORE_READ(cred, gid.val) != BPF_CORE_READ(cred, egid.val) ||
	    BPF_CORE_READ(cred, gid.val) != BPF_CORE_READ(cred, sgid.val))
		return true;
	if (BPF_CORE_READ(cred, user_ns, level))
		return false;
	bpf_probe_read_kernel(&permitted, sizeof(permitted),
			      (void *)cred + bpf_core_field_offset(struct cred, cap_permitted));
	return permitted;
}

#endif
