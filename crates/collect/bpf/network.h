/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sockets, by tracepoints: what a job sends, receives, connects, and has to send again.
 */
#ifndef WEIGH_NETWORK_H
#define WEIGH_NETWORK_H

#include "sockets.h"

SEC("?tp_btf/sock_send_length")
int BPF_PROG(on_sock_send, struct sock *sk, int result)
{
	moved(sk, result, true, false);
	return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(on_sock_receive, struct sock *sk, int result, int flags)
{
	moved(sk, result, false, flags & MSG_PEEK);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(on_sock_state, struct sock *sk, int before, int now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct listener listener;
	struct thread *thread;
	struct owner *owner;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (now == TCP_SYN_SENT || now == TCP_LISTEN) {
		thread = member(task);
		if (!thread)
			return 0;
		own(sk, task, thread->job, 0);
		owner = bpf_sk_storage_get(&owners, sk, 0, 0);
		if (!owner)
			return 0;
		owner->connecting = now == TCP_SYN_SENT;
		owner->received = 0;
		if (now == TCP_LISTEN) {
			listener = listener_of(sk);
			bpf_map_update_elem(&listeners, &listener, owner, BPF_ANY);
		}
	} else if (now == TCP_ESTABLISHED || before == TCP_ESTABLISHED) {
		connected(sk);
	} else if (now == TCP_CLOSE && before == TCP_LISTEN) {
		listener = listener_of(sk);
		bpf_map_delete_elem(&listeners, &listener);
	}
	/* It is being closed, or was shut down; else somebody may just be receiving. */
	if (sk->sk_shutdown == SHUTDOWN_MASK)
		settle_received(sk);
	return 0;
}

SEC("?tp_btf/tcp_destroy_sock")
int BPF_PROG(on_sock_destroy, struct sock *sk)
{
	settle_received(sk);
	return 0;
}

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk)
{
	struct owner *owner = bpf_sk_storage_get(&owners, sk, 0, 0);
	struct job *job;
	__u64 key;

	if (!owner)
		return 0;
	job = job_of(owner->job);
	key = owner->process;
	if (job)
		count(job, bpf_map_lookup_elem(&processes, &key), COUNTER_NET_RETRANSMITS, 1);
	return 0;
}

#endif
