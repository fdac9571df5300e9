/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sockets, TCP, devices; what goes into a packet's queue is in segments.h.
 */
#ifndef WEIGH_CALLS_NETWORK_H
#define WEIGH_CALLS_NETWORK_H

#include "account.h"

#define IFF_LOOPBACK 8

SEC("?tp_btf/sock_send_length")
int BPF_PROG(socket__send, struct sock *sk, int result)
{
	struct open open;

	if (result <= 0 || !mine(&open, WEIGH_SOCKET))
		return 0;
	add(&open.account->parts[WEIGH_SOCKET].entries, 1);
	add(&open.account->socket.sent_bytes, result);
	return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(socket__receive, struct sock *sk, int result, int flags)
{
	struct open open;

	if (result <= 0 || flags & MSG_PEEK || !mine(&open, WEIGH_SOCKET))
		return 0;
	add(&open.account->parts[WEIGH_SOCKET].entries, 1);
	add(&open.account->socket.received_bytes, result);
	return 0;
}

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp__retransmit)
{
	struct open open;

	if (mine(&open, WEIGH_TCP))
		add(&open.account->tcp.retransmits, 1);
	return 0;
}

/* The loopback device has no driver: who sends there has received, too, before it is over. */
SEC("?tp_btf/net_dev_start_xmit")
int BPF_PROG(net__transmit_begin, struct sk_buff *packet, struct net_device *device)
{
	if (!(device->flags & IFF_LOOPBACK))
		enter(WEIGH_NET);
	return 0;
}

SEC("?tp_btf/net_dev_xmit")
int BPF_PROG(net__transmit_end, struct sk_buff *packet, int result, struct net_device *device)
{
	if (!(device->flags & IFF_LOOPBACK))
		leave(WEIGH_NET);
	return 0;
}

#endif
