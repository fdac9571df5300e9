/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Looks at who has connected to a socket, and at a thread that is asked for: run by user space, in its own thread.
 *
 * A connection keeps the credentials of who connected. The thread is found by the number that it has in the
 * connected process's PID namespace, in the table that the kernel itself looks in: /proc knows only its own.
 */
#ifndef WEIGH_CALLS_LOOK_H
#define WEIGH_CALLS_LOOK_H

#include "../credentials.h"

#define NODE_BITS 3
#define IS_NODE 2
#define SLOTS_OF_NODE 64
#define MAX_NODES 6

struct look {
	/* The request: a connection of this process, the process that connected, and a thread. */
	__u32 connection, process;
	__u32 number; /* as the process knows it; 0: its first thread */
	/* The answer. */
	__u32 found;
	__u32 tid, tgid; /* as this process knows them */
	__u32 level; /* of the thread's PID namespace */
	__u32 caller_uid, caller_gid;
	__u32 behind; /* the user who has made the outermost user namespace that the caller is in */
	__u32 users[3], groups[3]; /* effective, saved, real */
	__u32 connected; /* whether it was this very process that connected */
	__u32 same_credentials; /* of who connected and the thread: the very same */
	__u32 same_users; /* one user namespace */
	__u32 may_trace; /* who connected has CAP_SYS_PTRACE in the thread's user namespace */
	__u32 dumpable;
	__u64 caller_effective, permitted;
};

struct look look;

/* As idr_find() has it. */
static __always_inline struct pid *pid_in(struct pid_namespace *space, __u32 number)
{
	__u64 entry = (__u64)BPF_CORE_READ(space, idr.idr_rt.xa_head), slots;
	__u32 shift, index;

	slots = bpf_core_field_offset(struct xa_node, slots);
	for (int i = 0; i < MAX_NODES; i++) {
		struct xa_node *node = (void *)(entry & ~(__u64)NODE_BITS);

		if ((entry & NODE_BITS) != IS_NODE)
			return i ? (struct pid *)entry : 0;
		shift = BPF_CORE_READ(node, shift) & 31;
		index = number >> shift;
		if (!i && index >= SLOTS_OF_NODE)
			return 0;
		index %= SLOTS_OF_NODE;
		if (bpf_probe_read_kernel(&entry, sizeof(entry),
					  (void *)node + slots + index * sizeof(void *)))
			return 0;
	}
	return 0;
}

static __always_inline struct task_struct *task_of(struct pid *pid)
{
	struct hlist_node *node = pid ? BPF_CORE_READ(pid, tasks[0].first) : 0;

	return node ? (void *)node - bpf_core_field_offset(struct task_struct, pid_links) : 0;
}

/* What a PID has at a level; the verifier wants to see a bound. */
static __always_inline void *at_level(struct pid *pid, __u32 level)
{
	__u64 offset = level * (__u32)bpf_core_type_size(struct upid);

	barrier_var(offset);
	offset &= 0xfff;
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) + offset;
}

static __always_inline struct pid_namespace *space_of(struct pid *pid)
{
	struct pid_namespace *space = 0;

	bpf_probe_read_kernel(&space, sizeof(space),
			      at_level(pid, BPF_CORE_READ(pid, level)) +
				      bpf_core_field_offset(struct upid, ns));
	return space;
}

static __always_inline __u32 number_at(struct pid *pid, __u32 level)
{
	__u32 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), at_level(pid, level));
	return number;
}

static __always_inline struct sock *connection_of(__u32 descriptor)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = 0;
	struct socket *socket;

	if (descriptor >= BPF_CORE_READ(task, files, fdt, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), files + descriptor))
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* On the way up through user namespaces. */
struct ascent {
	struct user_namespace *users, *own;
	const struct cred *cred;
	int level;
	bool may_trace;
};

static long ask_namespace(__u32 unused, struct ascent *ascent)
{
	struct user_namespace *users = ascent->users, *parent;
	const struct cred *cred = ascent->cred;

	if (users == ascent->own) {
		ascent->may_trace = effective_of(cred) >> CAP_SYS_PTRACE & 1;
		return 1;
	}
	if (!users || BPF_CORE_READ(users, level) <= ascent->level)
		return 1;
	parent = BPF_CORE_READ(users, parent);
	ascent->may_trace = parent == ascent->own &&
			    BPF_CORE_READ(users, owner.val) == BPF_CORE_READ(cred, euid.val);
	ascent->users = parent;
	return ascent->may_trace;
}

/* As cap_capable() has it. */
static __always_inline bool may_trace_in(struct user_namespace *users, const struct cred *cred)
{
	struct user_namespace *own = BPF_CORE_READ(cred, user_ns);
	struct ascent ascent = { .users = users, .own = own, .cred = cred };

	ascent.level = BPF_CORE_READ(own, level);
	bpf_loop(MAX_USER_NAMESPACES, ask_namespace, &ascent, 0);
	return ascent.may_trace;
}

static long go_up(__u32 unused, struct ascent *ascent)
{
	struct user_namespace *users = ascent->users;

	if (BPF_CORE_READ(users, level) <= 1)
		return 1;
	ascent->users = BPF_CORE_READ(users, parent);
	return 0;
}

/* Rootless containers have many users, and are one user's. Root makes containers for others. */
static __always_inline __u32 user_behind(const struct cred *cred)
{
	struct ascent ascent = { .users = BPF_CORE_READ(cred, user_ns) };
	struct user_namespace *users;
	__u32 owner;

	bpf_loop(MAX_USER_NAMESPACES, go_up, &ascent, 0);
	users = ascent.users;
	owner = BPF_CORE_READ(users, level) ? BPF_CORE_READ(users, owner.val) : 0;
	return owner ? owner : BPF_CORE_READ(cred, euid.val);
}

static __always_inline void compare(struct task_struct *task, const struct cred *caller)
{
	const struct cred *cred = BPF_CORE_READ(task, real_cred);
	struct user_namespace *users = BPF_CORE_READ(cred, user_ns);

	look.users[0] = BPF_CORE_READ(cred, euid.val);
	look.users[1] = BPF_CORE_READ(cred, suid.val);
	look.users[2] = BPF_CORE_READ(cred, uid.val);
	look.groups[0] = BPF_CORE_READ(cred, egid.val);
	look.groups[1] = BPF_CORE_READ(cred, sgid.val);
	look.groups[2] = BPF_CORE_READ(cred, gid.val);
	look.permitted = permitted_of(cred);
	look.dumpable = is_dumpable(task);
	look.caller_uid = BPF_CORE_READ(caller, fsuid.val);
	look.caller_gid = BPF_CORE_READ(caller, fsgid.val);
	look.behind = user_behind(caller);
	look.caller_effective = effective_of(caller);
	look.same_credentials = cred == caller;
	look.same_users = users == BPF_CORE_READ(caller, user_ns);
	look.may_trace = may_trace_in(users, caller);
}

SEC("raw_tp")
int member__look(void *context)
{
	struct task_struct *self = bpf_get_current_task_btf(), *task;
	struct pid *own = BPF_CORE_READ(self, thread_pid), *pid;
	struct sock *connection = connection_of(look.connection);
	const struct cred *caller = BPF_CORE_READ(connection, sk_peer_cred);

	look.found = 0;
	pid = pid_in(space_of(own), look.process);
	task = task_of(pid);
	if (!caller || !task)
		return 0;
	look.connected = pid == BPF_CORE_READ(connection, sk_peer_pid);
	if (look.number) {
		pid = pid_in(space_of(pid), look.number);
		task = task_of(pid);
	}
	if (!task)
		return 0;
	look.tid = number_at(pid, BPF_CORE_READ(own, level));
	look.tgid = number_at(BPF_CORE_READ(task, group_leader, thread_pid), BPF_CORE_READ(own, level));
	look.level = BPF_CORE_READ(pid, level) - BPF_CORE_READ(own, level);
	compare(task, caller);
	look.found = 1;
	return 0;
}

/* The pages that there are, by what the kernel knows them by. */
SEC("iter/bpf_map")
int member__pages(struct bpf_iter__bpf_map *ctx)
{
	static const char page[] = "weigh_page";
	struct bpf_map *map = ctx->map;
	char name[sizeof(page)] = {};
	__u32 number;

	if (!map)
		return 0;
	bpf_probe_read_kernel(name, sizeof(name), map->name);
	for (int i = 0; i < sizeof(page); i++)
		if (name[i] != page[i])
			return 0;
	number = map->id;
	bpf_seq_write(ctx->meta->seq, &number, sizeof(number));
	return 0;
}

#endif
