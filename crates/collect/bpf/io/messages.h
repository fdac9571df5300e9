/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls that move many messages at once: each message is a call, as it is told.
 */
#ifndef WEIGH_IO_MESSAGES_H
#define WEIGH_IO_MESSAGES_H

#include "compat32.h"

#define MAX_MESSAGES 1024

#define MESSAGE_WORDS 8 /* a header of seven, and the length of what was moved */

struct messages {
	__u64 address;
	__u64 bytes;
	__u32 word_bytes, unused;
};

static long one_message(__u32 index, struct messages *messages)
{
	__u32 length = 0;

	bpf_probe_read_user(&length, sizeof(length),
			    (void *)(messages->address + (MESSAGE_WORDS * index + MESSAGE_WORDS - 1) *
								 messages->word_bytes));
	messages->bytes += length;
	return 0;
}

static __always_inline void move_many(struct io_doing *did, __u64 address, __u32 word_bytes,
				      long result)
{
	struct messages messages = { .address = address, .word_bytes = word_bytes };

	did->bytes = 0;
	if (result <= 0)
		return;
	did->calls = result;
	bpf_loop(result > MAX_MESSAGES ? MAX_MESSAGES : result, one_message, &messages, 0);
	did->bytes = messages.bytes;
}

#endif
