/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Results of io_uring that do not come with their request. One that completes many times (multishot) is named by its
 * last completion alone: the others are known by the ring and by what the program calls it. Of one with
 * IOSQE_CQE_SKIP_SUCCESS that succeeds there is no result at all.
 */
#ifndef WEIGH_URING_RESULTS_H
#define WEIGH_URING_RESULTS_H

#include "uring_requests.h"
#include <bpf/bpf_helpers.h>

struct uring_name {
	__u64 ring, user_data;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct uring_name);
	__type(value, __u64); /* the request */
} repeated_requests SEC(".maps");

/* In the table: with none, nothing has to be looked for. */
__u64 live_repeated_requests;

static __always_inline bool is_repeated(struct io_kiocb *request, __u8 operation)
{
	struct io_sr_msg *message = (void *)&request->cmd;

	if (operation == URING_READ_MULTISHOT)
		return true;
	/* Kernels without it have none of these. */
	return (operation == URING_RECV || operation == URING_RECVMSG) &&
	       bpf_core_field_exists(message->flags) &&
	       BPF_CORE_READ(message, flags) & RECV_MULTISHOT;
}

static __always_inline struct uring_name name_of_request(struct io_kiocb *request)
{
	struct uring_name name = {
		.ring = (__u64)BPF_CORE_READ(request, ctx),
		.user_data = BPF_CORE_READ(request, cqe.user_data),
	};

	return name;
}

/* A request of the job begins. Whether there will be a result that tells what it moves. */
static __always_inline bool will_be_told(struct io_kiocb *request, __u8 operation)
{
	struct uring_name name;
	__u64 flags = 0, value = (__u64)request;

	if (is_repeated(request, operation)) {
		name = name_of_request(request);
		if (!bpf_map_update_elem(&repeated_requests, &name, &value, BPF_NOEXIST))
			__sync_fetch_and_add(&live_repeated_requests, 1);
		else if (bpf_map_update_elem(&repeated_requests, &name, &value, BPF_ANY))
			return false;
		return true;
	}
	bpf_core_read(&flags, bpf_core_field_size(request->flags), &request->flags);
	return !(flags & REQ_F_CQE_SKIP);
}

/* The request that a result belongs to, where the kernel names none. */
static __always_inline struct io_kiocb *repeated_request(void *ring, __u64 user_data, __u32 flags)
{
	struct uring_name name = { .ring = (__u64)ring, .user_data = user_data };
	__u64 *found;

	/* What these receive comes in a buffer that the result names; results of accept and poll name none. */
	if (!live_repeated_requests || !(flags & CQE_F_BUFFER))
		return 0;
	found = bpf_map_lookup_elem(&repeated_requests, &name);
	return found ? (struct io_kiocb *)*found : 0;
}

/* The last result of a request has come. */
static __always_inline void forget_repeated(struct io_kiocb *request, __u8 operation)
{
	struct uring_name name;

	if (!live_repeated_requests || !is_repeated(request, operation))
		return;
	name = name_of_request(request);
	if (!bpf_map_delete_elem(&repeated_requests, &name))
		__sync_fetch_and_add(&live_repeated_requests, -1);
}

#endif
