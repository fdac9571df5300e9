/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The network's part of `kernel.h`: sockets, packets, devices.
 */
#ifndef WEIGH_KERNEL_NET_H
#define WEIGH_KERNEL_NET_H

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define MSG_PEEK 2
#define TCP_ESTABLISHED 1
#define TCP_NEW_SYN_RECV 12
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define SOCK_DONE 1
#define SHUTDOWN_MASK 3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 bytes[16]; /* named otherwise in the kernel: read as a whole */
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	__u8 sk_shutdown;
	struct pid *sk_peer_pid;
	const struct cred *sk_peer_cred;
};

struct socket {
	struct sock *sk;
};

struct msghdr;

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	char cb[48];
	unsigned char *head, *data;
	__u16 transport_header;
};

struct net_device {
	unsigned int flags;
};

struct napi_struct {
	struct net_device *dev;
};

struct softnet_data {
	unsigned int processed; /* packets that came in by this CPU */
	struct napi_struct backlog;
};

struct tcp_sock {
	__u64 bytes_received;
	__u32 rcv_nxt;
	__u32 copied_seq; /* the next to be taken */
	__u32 write_seq;
	__u32 srtt_us; /* eight times as much */
	__u32 snd_cwnd;
	__u32 packets_out; /* sent and not acknowledged */
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc_ops {
	char id[16];
};

struct Qdisc {
	unsigned int flags;
	const struct Qdisc_ops *ops;
	struct qdisc_skb_head q;
	long privdata[0];
};

/* A ring of packets, as queues without a lock have them. */
struct ptr_ring {
	int producer, consumer_head, size;
	void **queue;
};

struct skb_array {
	struct ptr_ring ring;
};

struct pfifo_fast_priv {
	struct skb_array q[3];
};

struct tcp_skb_cb {
	__u32 ack_seq;
};

struct tcphdr {
	__be32 seq;
	__u16 doff : 4;
};

#pragma clang attribute pop

/* Found in the kernel's own enumeration. */
enum skb_drop_reason {
	SKB_DROP_REASON_QDISC_DROP = 64,
	SKB_DROP_REASON_QDISC_OVERLIMIT,
	SKB_DROP_REASON_QDISC_CONGESTED,
	SKB_DROP_REASON_CAKE_FLOOD,
	SKB_DROP_REASON_FQ_BAND_LIMIT,
	SKB_DROP_REASON_FQ_HORIZON_LIMIT,
	SKB_DROP_REASON_FQ_FLOW_LIMIT,
};

#endif
