/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is common to all ways of following sockets.
 *
 * Bytes are counted where every send and receive passes (`sock_send_length`, since 6.3; the
 * protocols' own functions before). read(2), write(2) and sendfile(2) on a socket are in the
 * kernel's own accounting already, so the system call decides whether bytes are added to the
 * I/O by calls. A socket belongs to the process that connected it, or first sent or received on
 * it; that is how work in another context (retransmissions) finds its job.
 */
#ifndef WEIGH_SOCKETS_H
#define WEIGH_SOCKETS_H

#include "compatible.h"
#include "job.h"

struct owner {
	__u64 process;
	__u64 received; /* taken from a TCP socket, as far as it was seen */
	__u32 job;
	__u32 connecting;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct owner);
} owners SEC(".maps");

struct listener {
	__u32 network; /* the namespace */
	__u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct listener);
	__type(value, struct owner);
} listeners SEC(".maps");

/* Numbers of the calls that the kernel's own accounting does not see. */
#if defined(__TARGET_ARCH_x86)
#define CALL_NUMBER(regs) ((regs)->orig_ax)
#define IS_UNDER_WAY(regs) ((long)(regs)->ax == -38) /* ENOSYS, until there is a result */
static __always_inline bool is_socket_call(__u64 call, bool compat)
{
	if (compat)
		return call == 102 || call == 337 || call == 345 || call == 417 ||
		       (call >= 369 && call <= 372);
	/* sendto, recvfrom, sendmsg, recvmsg, recvmmsg, sendmmsg */
	return (call >= 44 && call <= 47) || call == 299 || call == 307;
}
static __always_inline bool is_of_messages(struct pt_regs *regs, bool compat)
{
	__u64 call = CALL_NUMBER(regs);

	if (!compat)
		return call == 299 || call == 307;
	/* recvmmsg, sendmmsg, recvmmsg_time64, and the first two by socketcall */
	return call == 337 || call == 345 || call == 417 ||
	       (call == 102 && ((__u32)regs->bx == 19 || (__u32)regs->bx == 20));
}
static __always_inline bool is_uncounted_call(__u64 call, bool compat)
{
	if (compat)
		return call == 313 || call == 315 || call == 316 || call == 248;
	/* splice, tee, vmsplice, io_submit */
	return call == 275 || call == 276 || call == 278 || call == 209;
}
#elif defined(__TARGET_ARCH_arm64)
#define CALL_NUMBER(regs) ((regs)->syscallno)
#define IS_UNDER_WAY(regs) ((regs)->regs[0] == (regs)->orig_x0) /* the result takes its place */
static __always_inline bool is_socket_call(__u64 call, bool compat)
{
	if (compat)
		return call == 102 || (call >= 289 && call <= 298) || call == 365 || call == 374 ||
		       call == 417;
	/* sendto, recvfrom, sendmsg, recvmsg, recvmmsg, sendmmsg */
	return call == 206 || call == 207 || call == 211 || call == 212 || call == 243 ||
	       call == 269;
}
static __always_inline bool is_of_messages(struct pt_regs *regs, bool compat)
{
	__u64 call = CALL_NUMBER(regs);

	/* recvmmsg, sendmmsg, recvmmsg_time64 */
	return compat ? call == 365 || call == 374 || call == 417 : call == 243 || call == 269;
}
static __always_inline bool is_uncounted_call(__u64 call, bool compat)
{
	if (compat)
		return call == 340 || call == 342 || call == 343 || call == 246;
	/* splice, tee, vmsplice, io_submit */
	return (call >= 75 && call <= 77) || call == 2;
}
#else
#error "the system call numbers of this architecture are not known here"
#endif

/*
 * Whether it counts as a call. Of calls that move several messages each message does: the try that finds no
 * further one is none of its own.
 */
static __always_inline bool in_socket_call(struct task_struct *task, bool failed)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bool compat = is_compatible(task);

	/* On its way out of a call a thread completes requests of io_uring. */
	if (task->flags & (PF_IO_WORKER | PF_KTHREAD) || !IS_UNDER_WAY(regs))
		return false;
	return is_socket_call(CALL_NUMBER(regs), compat) && !(failed && is_of_messages(regs, compat));
}

/* Bytes that were taken from a TCP socket, by whatever means; its end counts as one, once it is taken. */
static __always_inline __u64 consumed(struct sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	__u32 left;

	if (!tcp)
		return 0;
	left = tcp->rcv_nxt - tcp->copied_seq;
	return tcp->bytes_received - left - (!left && sk->__sk_common.skc_flags & 1 << SOCK_DONE);
}

static __always_inline void own(struct sock *sk, struct task_struct *task, __u32 job,
				__u64 received)
{
	struct owner *owner = bpf_sk_storage_get(&owners, sk, 0, 0);

	if (owner)
		return;
	owner = bpf_sk_storage_get(&owners, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (owner) {
		owner->process = process_key(task);
		owner->job = job;
		owner->received = received;
	}
}

/* Nobody takes anything from a TCP socket any more: what splice(2) and TCP_ZEROCOPY_RECEIVE took passed no probe. */
static __always_inline void settle_received(struct sock *sk)
{
	struct owner *owner = bpf_sk_storage_get(&owners, sk, 0, 0);
	struct job *job;
	__u64 taken;

	if (!owner)
		return;
	taken = consumed(sk);
	job = job_of(owner->job);
	if (job && (__s64)(taken - owner->received) > 0) {
		atomic_add(&job->unreceived_bytes, taken - owner->received);
		owner->received = taken;
	}
}

static __always_inline struct listener listener_of(const struct sock *sk)
{
	struct listener listener = {
		.network = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum),
		.port = sk->__sk_common.skc_num,
	};

	return listener;
}

static __always_inline void count_connection(struct owner *owner)
{
	struct job *job = job_of(owner->job);
	__u64 key = owner->process;

	if (job)
		count(job, bpf_map_lookup_elem(&processes, &key), COUNTER_NET_CONNECTIONS, 1);
}

/*
 * A connection stands, or stood. It is counted once, the first time that this is seen: some
 * kernels call no program from an interrupt that comes while another program runs, and it is in
 * one that a connection is made. What it sends and receives, and its end, tell of it too.
 */
static __always_inline void connected(struct sock *sk)
{
	struct owner *owner = bpf_sk_storage_get(&owners, sk, 0, 0), *found;
	struct listener listener;

	if (owner) {
		if (owner->connecting) {
			owner->connecting = 0;
			count_connection(owner);
		}
		return;
	}
	listener = listener_of(sk);
	found = bpf_map_lookup_elem(&listeners, &listener);
	if (!found)
		return;
	owner = bpf_sk_storage_get(&owners, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!owner)
		return;
	*owner = *found;
	owner->connecting = 0;
	count_connection(owner);
}

/* A thread of the job has sent or received; `result` is what the call will return. */
static __always_inline void moved(struct sock *sk, __s64 result, bool sent, bool peeked)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = member(task);
	struct process *process;
	struct owner *owner;
	__u16 family;
	__u64 bytes = result > 0 ? result : 0;
	struct job *job;

	if (!thread || !sk)
		return;
	job = job_of(thread->job);
	if (!job)
		return;
	process = process_of(task);
	family = sk->__sk_common.skc_family;
	if (family == AF_INET || family == AF_INET6) {
		if (!peeked)
			count(job, process, sent ? COUNTER_NET_SENT : COUNTER_NET_RECEIVED, bytes);
		if (sk->sk_protocol == IPPROTO_TCP) {
			if (sk->__sk_common.skc_state != TCP_SYN_SENT)
				connected(sk);
			owner = bpf_sk_storage_get(&owners, sk, 0, 0);
			if (!owner)
				own(sk, task, thread->job, consumed(sk));
			else if (!sent && !peeked)
				atomic_add(&owner->received, bytes);
		}
	}
	if (in_socket_call(task, result < 0)) {
		count(job, process, sent ? COUNTER_SOCKET_WRITE_CHARS : COUNTER_SOCKET_READ_CHARS,
		      bytes);
		count(job, process, sent ? COUNTER_SOCKET_WRITE_CALLS : COUNTER_SOCKET_READ_CALLS,
		      1);
	}
}

#endif
