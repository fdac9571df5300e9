/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose the bytes are that TCP hands to the network. A socket remembers from which sequence number
 * on its bytes are whose; what a segment carries is charged to them, and what had been handed over
 * before counts as sent again. So what is transmitted less what is retransmitted is what was
 * written.
 *
 * Before 6.16 (0f08335ade71) nothing is told when a call hands bytes to TCP: there the first segment
 * that leaves under a call makes the bytes up to what was written by then its own.
 */
#ifndef WEIGH_CALLS_SEGMENTS_H
#define WEIGH_CALLS_SEGMENTS_H

#include "senders.h"
#include "softirq_net.h"
#include <bpf/bpf_endian.h>

const volatile bool tells_of_sending; /* whether the kernel does */

/* Whether one place in the stream lies before another: numbers wrap. */
static __always_inline bool before(__u32 one, __u32 other)
{
	return (__s32)(one - other) < 0;
}

static __always_inline void end_range(struct sent_range *range)
{
	if (!range->pends)
		return;
	range->pends = 0;
	pends(&range->cause, -1);
}

/* Where each call is told it has a range of its own, as long as there is room. */
static __always_inline bool goes_on_in(struct sent *sent, struct cause *last, struct cause *cause)
{
	if (last->sequence == cause->sequence)
		return true;
	if (sent->next - sent->oldest < MAX_RANGES || !sent->ranges[sent->next % MAX_RANGES].pends)
		return false;
	add(&tally.merged_later, 1);
	return true;
}

/*
 * Whether the last range goes on: it is the same call's, or one of an account's that all has been handed
 * over of. What is sent again of that is the account's as before. A server's answers are one range so, in
 * memory that is not another for each.
 */
static __always_inline bool goes_on(struct sent *sent, struct cause *last, struct cause *cause, __u32 from)
{
	if (sent->next == sent->oldest)
		return false;
	if (last->request != cause->request && (cause->cell || sent->high != from))
		return false;
	return same_account(last, cause) && (!tells_later || goes_on_in(sent, last, cause));
}

/* From this place on the bytes are the open account's. */
static __always_inline void begin_range(struct sock *sk, __u64 cookie, struct open *open, __u32 from)
{
	struct sent *sent = sent_by_now(sk, cookie);
	struct sent_range *last, *range;
	struct cause cause;

	name_cause(&cause, open);
	if (!sent) {
		not_kept(&cause);
		return;
	}
	if (sent->next == sent->oldest)
		sent->high = from;
	last = &sent->ranges[(sent->next - 1) % MAX_RANGES];
	range = last;
	if (!goes_on(sent, &last->cause, &cause, from)) {
		range = &sent->ranges[sent->next % MAX_RANGES];
		if (sent->next - sent->oldest == MAX_RANGES) {
			if (range->pends)
				not_kept(&range->cause);
			end_range(range);
			sent->oldest++;
			if (before(sent->acknowledged, sent->oldest))
				sent->acknowledged = sent->oldest;
		}
		sent->next++;
		range->from = from;
		range->pends = 0;
	}
	if (tells_later && range->cause.sequence != cause.sequence)
		end_range(range);
	range->cause = cause;
	if (!range->pends) {
		range->pends = 1;
		pends(&cause, 1);
		if (sent->acknowledged == sent->next)
			sent->acknowledged = sent->next - 1;
	}
}

/* How a connection stands. */
struct tcp_state {
	__u32 srtt_us, cwnd, unacked;
};

static __always_inline void observe(struct weigh_account *account, const struct tcp_state *state)
{
	account->tcp.srtt_ns = (__u64)state->srtt_us * (1000 / 8);
	account->tcp.cwnd = state->cwnd;
	account->tcp.unacked = state->unacked;
	add(&account->tcp.observations, 1);
}

/* Not every pointer to a socket can be used as it is. */
static __always_inline void observe_sender(struct weigh_account *account, struct sock *sk)
{
	struct tcp_sock *tcp = (void *)sk;
	struct tcp_state state;

	if (CAN_FOLLOW) {
		tcp = FOLLOW(tcp_sock, sk);
		state.srtt_us = tcp->srtt_us;
		state.cwnd = tcp->snd_cwnd;
		state.unacked = tcp->packets_out;
	} else {
		state.srtt_us = BPF_CORE_READ(tcp, srtt_us);
		state.cwnd = BPF_CORE_READ(tcp, snd_cwnd);
		state.unacked = BPF_CORE_READ(tcp, packets_out);
	}
	observe(account, &state);
}

SEC("?tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp__send, struct sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct tcp_state state = {};
	struct open open;

	if (!mine(&open, WEIGH_TCP))
		return 0;
	begin_range(sk, bpf_get_socket_cookie(sk), &open, tcp ? tcp->write_seq : 0);
	if (!tcp)
		return 0;
	state.srtt_us = tcp->srtt_us;
	state.cwnd = tcp->snd_cwnd;
	state.unacked = tcp->packets_out;
	observe(open.account, &state);
	return 0;
}

/* The payload of a packet. */
struct segment {
	struct sent *sent;
	__u32 from, to;
	struct cause now; /* whose context it is, if anybody's */
	struct weigh_account *account;
};

/* Where the payload begins in the stream, and how long the header is before it. */
static __always_inline bool header_of(void *header, __u32 *from, __u32 *length)
{
	struct tcphdr *tcp;
	__u8 copy[14];

	if (CAN_FOLLOW) {
		tcp = FOLLOW(tcphdr, header);
		*from = bpf_ntohl(tcp->seq);
		*length = BPF_CORE_READ_BITFIELD(tcp, doff) * 4;
		return true;
	}
	if (bpf_probe_read_kernel(copy, sizeof(copy), header))
		return false;
	*from = (__u32)copy[4] << 24 | (__u32)copy[5] << 16 | (__u32)copy[6] << 8 | copy[7];
	*length = (copy[12] >> 4) * 4;
	return true;
}

static __always_inline bool segment_of(struct segment *segment, struct sk_buff *packet)
{
	unsigned char *header = packet->head + packet->transport_header;
	__u32 length, before_it = header - packet->data;
	__s32 bytes;

	if (!header_of(header, &segment->from, &length))
		return false;
	bytes = packet->len - before_it - length;
	if (bytes <= 0)
		return false;
	segment->to = segment->from + bytes;
	return true;
}

/* Bytes are handed to the network when their call is over, some of them again. Global: see pends(). */
__noinline int sends_later(struct cause *cause, __u32 bytes, __u32 again)
{
	struct weigh_later *later;

	if (!cause)
		return 0;
	each_later(later, cause) {
		add(&later->tcp_transmitted_bytes, bytes);
		if (again)
			add(&later->tcp_retransmitted_bytes, again);
	}
	tell_later(cause, tcp_transmitted_bytes, bytes, again);
	return 0;
}

static __always_inline void charge_segment(struct segment *segment, struct cause *cause, __u32 from)
{
	__u32 bytes = segment->to - from, again = 0;

	if (before(from, segment->sent->high)) {
		again = bytes;
		if (before(segment->sent->high, segment->to))
			again = segment->sent->high - from;
	}
	if (segment->account && same_call(cause, &segment->now)) {
		add(&segment->account->tcp.transmitted_bytes, bytes);
		if (again)
			add(&segment->account->tcp.retransmitted_bytes, again);
		return;
	}
	sends_later(cause, bytes, again);
}

/* From the newest range to the oldest: each takes what lies behind its beginning. */
static long share_segment(__u32 number, struct segment *segment)
{
	struct sent *sent = segment->sent;
	struct sent_range *range;
	__u32 from;

	if (number >= sent->next - sent->oldest)
		return 1;
	range = &sent->ranges[(sent->next - 1 - number) % MAX_RANGES];
	from = before(range->from, segment->from) ? segment->from : range->from;
	if (!before(from, segment->to))
		return 0;
	charge_segment(segment, &range->cause, from);
	segment->to = from;
	return from == segment->from;
}

/* Nobody's, if no account is open. */
static __always_inline void charge_packet(struct sk_buff *packet, struct sock *sk, struct open *open)
{
	struct segment segment = {};
	__u32 end;

	/* What answers a connection's first packet is sent by less than a socket. */
	if (!sk || sk->__sk_common.skc_state == TCP_NEW_SYN_RECV || sk->sk_protocol != IPPROTO_TCP)
		return;
	segment.sent = sent_by(sk);
	if (!segment.sent && tells_of_sending)
		return;
	if (!segment_of(&segment, packet))
		return;
	end = segment.to;
	if (open->account && asks(open, WEIGH_TCP)) {
		name_cause(&segment.now, open);
		segment.account = open->account;
		observe_sender(open->account, sk);
		if (!tells_of_sending &&
		    (!segment.sent || before(segment.sent->high, end))) {
			begin_range(sk, cookie_of(sk), open, segment.sent ? segment.sent->high : segment.from);
			segment.sent = sent_by(sk);
		}
	}
	if (!segment.sent)
		return;
	/* Most are of what was written last alone. */
	if (!share_segment(0, &segment))
		bpf_loop(MAX_RANGES, share_segment, &segment, 0);
	if (before(segment.sent->high, end))
		segment.sent->high = end;
}

SEC("?tp_btf/net_dev_queue")
int BPF_PROG(net_and_tcp__queue, struct sk_buff *packet)
{
	/* Before the ways part: see followed(). */
	struct net_device *device = packet->dev;
	struct sock *sk = packet->sk;
	struct open open = {};

	barrier_var(device);
	if (!has_open(&open, bpf_get_current_task_btf()) ||
	    open.window->interrupted != NOT_INTERRUPTED)
		open.account = 0;
	if (ASKED_FOR(WEIGH_NET) && open.account && asks(&open, WEIGH_NET)) {
		add(&open.account->net.packets, 1);
		add(&open.account->net.transmitted_bytes, packet->len);
		if (has_driver(device))
			goes_to_driver(&open);
		else
			has_no_driver();
	}
	if (ASKED_FOR(WEIGH_TCP))
		charge_packet(packet, sk, &open);
	return 0;
}

struct ending {
	struct sent *sent;
	__u32 until; /* acknowledged up to here */
	__u32 is_over; /* the connection: all ranges are */
};

/* Ends the first range that is not acknowledged, if it is now; 1 if no other one can be. */
static long end_first(__u32 unused, struct ending *ending)
{
	struct sent *sent = ending->sent;
	__u32 number = sent->acknowledged;
	__u32 end = sent->ranges[(number + 1) % MAX_RANGES].from;

	if (!before(number, sent->next))
		return 1;
	/* The last one's end is not known: it is where all is acknowledged. */
	if (number + 1 == sent->next)
		end = sent->high;
	if (!ending->is_over && before(ending->until, end))
		return 1;
	end_range(&sent->ranges[number % MAX_RANGES]);
	sent->acknowledged = number + 1;
	return number + 1 == sent->next;
}

static __always_inline void end_ranges(struct ending *ending)
{
	/* It is seldom more than one. */
	if (!end_first(0, ending))
		bpf_loop(MAX_RANGES, end_first, ending, 0);
}

static __always_inline struct cause *last_sender(struct sent *sent)
{
	return sent->next == sent->oldest ? 0 : &sent->ranges[(sent->next - 1) % MAX_RANGES].cause;
}

/* A segment has come for a connection, and says how far the other side has received. */
SEC("?tp_btf/tcp_probe")
int BPF_PROG(tcp__received, struct sock *sk, struct sk_buff *packet)
{
	struct serving *serving = serving_here();
	struct sent *sent = sent_by(sk);
	struct ending ending = { .sent = sent };
	struct tcp_skb_cb *control;
	__u64 now = 0;

	if (serving && serving->inside)
		serve(serving, sent ? last_sender(sent) : 0, true, &now);
	if (!sent)
		return 0;
	control = (void *)packet + bpf_core_field_offset(packet->cb);
	ending.until = CAN_FOLLOW ? FOLLOW(tcp_skb_cb, control)->ack_seq : BPF_CORE_READ(control, ack_seq);
	end_ranges(&ending);
	return 0;
}

SEC("?tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp__destroy, struct sock *sk)
{
	struct sent *sent = sent_by(sk);
	struct ending ending = { .sent = sent, .is_over = true };

	if (!sent)
		return 0;
	end_ranges(&ending);
	sends_no_more(sk);
	return 0;
}

#endif
