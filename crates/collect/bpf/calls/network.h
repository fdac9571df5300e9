/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sockets, TCP, devices.
 */
#ifndef WEIGH_CALLS_NETWORK_H
#define WEIGH_CALLS_NETWORK_H

#include "account.h"

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

SEC("?tp_btf/net_dev_queue")
int BPF_PROG(net__queue, struct sk_buff *packet)
{
	struct open open;

	if (!mine(&open, WEIGH_NET))
		return 0;
	add(&open.account->net.packets, 1);
	add(&open.account->net.transmitted_bytes, packet->len);
	return 0;
}

SEC("?tp_btf/net_dev_start_xmit")
int BPF_PROG(net__transmit_begin)
{
	enter(WEIGH_NET);
	return 0;
}

SEC("?tp_btf/net_dev_xmit")
int BPF_PROG(net__transmit_end)
{
	leave(WEIGH_NET);
	return 0;
}

#endif
