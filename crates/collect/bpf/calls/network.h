/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What TCP sends again, and devices; what goes into a packet's queue is in segments.h, what comes through
 * sockets in sockets.h.
 */
#ifndef WEIGH_CALLS_NETWORK_H
#define WEIGH_CALLS_NETWORK_H

#include "standby.h"

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp__retransmit)
{
	struct open open;

	if (mine(&open, WEIGH_TCP))
		add(&open.account->tcp.retransmits, 1);
	return 0;
}

SEC("?tp_btf/net_dev_start_xmit")
int BPF_PROG(net__driver_begin, struct sk_buff *packet, struct net_device *device)
{
	if (has_driver(device))
		enter(WEIGH_NET);
	return 0;
}

SEC("?tp_btf/net_dev_xmit")
int BPF_PROG(net__driver_end, struct sk_buff *packet, int result, struct net_device *device)
{
	if (has_driver(device))
		leave(WEIGH_NET);
	return 0;
}

#endif
