/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls that move many messages at once: each message is a call, as it is told.
 */
#ifndef WEIGH_IO_MESSAGES_H
#define WEIGH_IO_MESSAGES_H

#include "keep.h"

#define MAX_MESSAGES 1024

struct message_vector {
	char header[56];
	__u32 length;
	__u32 unused;
};

struct messages {
	__u64 address;
	__u64 bytes;
};

static long one_message(__u32 index, struct messages *messages)
{
	__u32 length = 0;

	bpf_probe_read_user(&length, sizeof(length),
			    (void *)(messages->address + index * sizeof(struct message_vector) +
				     __builtin_offsetof(struct message_vector, length)));
	messages->bytes += length;
	return 0;
}

static __always_inline void move_many(struct io_doing *did, __u64 address, long result)
{
	struct messages messages = { .address = address };

	did->bytes = 0;
	if (result <= 0)
		return;
	did->calls = result;
	bpf_loop(result > MAX_MESSAGES ? MAX_MESSAGES : result, one_message, &messages, 0);
	did->bytes = messages.bytes;
}

#endif
