/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The payload that calls send and receive by sockets: where every send and receive passes
 * (`sock_send_length`, `sock_recv_length`, since 6.3); before, by the protocols' own functions, where the
 * kernel lets functions be probed. There other protocols are not seen, and a call that is in such a
 * function when anybody attaches to it, or detaches, is passed over.
 */
#ifndef WEIGH_CALLS_SOCKETS_H
#define WEIGH_CALLS_SOCKETS_H

#include "udp.h"

static __always_inline void enters_socket(struct open *open)
{
	if (!(at_borders & BIT(WEIGH_SOCKET)))
		add(&open->account->parts[WEIGH_SOCKET].entries, 1);
}

static __always_inline void sent(struct sock *sk, __s64 result)
{
	struct open open;

	if (result < 0 || !in_context(&open))
		return;
	if (ASKED_FOR(WEIGH_SOCKET) && result && asks(&open, WEIGH_SOCKET)) {
		enters_socket(&open);
		add(&open.account->socket.sent_bytes, result);
	}
	if (ASKED_FOR(WEIGH_UDP) && sk->sk_protocol == IPPROTO_UDP)
		udp_sent(&open, result);
}

static __always_inline void received(struct sock *sk, __s64 result, int flags)
{
	bool looked = flags & MSG_PEEK;
	struct open open;

	if (!in_context(&open))
		return;
	if (ASKED_FOR(WEIGH_SOCKET) && result > 0 && !looked && asks(&open, WEIGH_SOCKET)) {
		enters_socket(&open);
		add(&open.account->socket.received_bytes, result);
	}
	if (ASKED_FOR(WEIGH_UDP) && sk->sk_protocol == IPPROTO_UDP)
		udp_received(&open, sk, result, looked);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(socket_and_udp__send, struct sock *sk, int result)
{
	sent(sk, result);
	return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(socket_and_udp__receive, struct sock *sk, int result, int flags)
{
	received(sk, result, flags);
	return 0;
}

#define SENDS(name, function)                                                                      \
	SEC("?fexit/" #function)                                                                   \
	int BPF_PROG(socket_and_udp__send_before_6_3_##name, struct socket *socket, void *message, \
		     unsigned long size, int result)                                               \
	{                                                                                          \
		sent(socket->sk, result);                                                          \
		return 0;                                                                          \
	}

#define RECEIVES(name, function)                                                                   \
	SEC("?fexit/" #function)                                                                   \
	int BPF_PROG(socket_and_udp__receive_before_6_3_##name, struct socket *socket,             \
		     void *message, unsigned long size, int flags, int result)                     \
	{                                                                                          \
		received(socket->sk, result, flags);                                               \
		return 0;                                                                          \
	}

/* sendfile and splice to a socket took this way before 6.5 (dc97391e6610). */
#define SENDS_PAGES(name, function)                                                                \
	SEC("?fexit/" #function)                                                                   \
	int BPF_PROG(socket_and_udp__send_before_6_3_##name, struct socket *socket, void *page,    \
		     int offset, unsigned long size, int flags, long result)                       \
	{                                                                                          \
		sent(socket->sk, result);                                                          \
		return 0;                                                                          \
	}

SENDS(inet, inet_sendmsg)
SENDS(inet6, inet6_sendmsg)
SENDS(stream, unix_stream_sendmsg)
SENDS(datagram, unix_dgram_sendmsg)
SENDS(netlink, netlink_sendmsg)
RECEIVES(inet, inet_recvmsg)
RECEIVES(inet6, inet6_recvmsg)
RECEIVES(stream, unix_stream_recvmsg)
RECEIVES(datagram, unix_dgram_recvmsg)
RECEIVES(netlink, netlink_recvmsg)
SENDS_PAGES(inet_pages, inet_sendpage)
SENDS_PAGES(stream_pages, unix_stream_sendpage)

#endif
