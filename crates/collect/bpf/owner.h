/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The user that a job is followed for, if without privileges: which processes it may signal, and of which
 * processes it is told nothing. Without an owner the verifier drops all of it.
 */
#ifndef WEIGH_OWNER_H
#define WEIGH_OWNER_H

#include "credentials.h"

const volatile __u32 has_owner = 0;
const volatile __u32 owner = 0;
const volatile __u32 owner_group = 0;

/* As kill(2) has it for a user without capabilities. */
static __always_inline bool may_signal(struct task_struct *task)
{
	if (!has_owner)
		return true;
	return BPF_CORE_READ(task, real_cred, uid.val) == owner ||
	       BPF_CORE_READ(task, real_cred, suid.val) == owner;
}

/* The maker of a user namespace has all capabilities in it, and in those below it. */
static __always_inline bool is_in_own_namespace(const struct cred *cred)
{
	struct user_namespace *users = BPF_CORE_READ(cred, user_ns);

	for (int i = 0; i < MAX_USER_NAMESPACES; i++) {
		if (BPF_CORE_READ(users, level) <= 1)
			break;
		users = BPF_CORE_READ(users, parent);
	}
	return BPF_CORE_READ(users, level) == 1 && BPF_CORE_READ(users, owner.val) == owner;
}

/*
 * Whether the owner of the job may not look at what a thread does, as ptrace(2) would have it: it has rights
 * that the owner has not, or has closed itself. An owner has no capabilities.
 */
static __always_inline bool has_gained_rights(struct task_struct *task)
{
	const struct cred *cred;

	if (!has_owner)
		return false;
	cred = BPF_CORE_READ(task, real_cred);
	if (BPF_CORE_READ(cred, user_ns, level))
		return !is_in_own_namespace(cred) || !is_dumpable(task);
	if (BPF_CORE_READ(cred, uid.val) != owner || BPF_CORE_READ(cred, euid.val) != owner ||
	    BPF_CORE_READ(cred, suid.val) != owner || BPF_CORE_READ(cred, fsuid.val) != owner)
		return true;
	if (BPF_CORE_READ(cred, gid.val) != owner_group ||
	    BPF_CORE_READ(cred, egid.val) != owner_group ||
	    BPF_CORE_READ(cred, sgid.val) != owner_group)
		return true;
	return permitted_of(cred) || !is_dumpable(task);
}

#endif
