/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The programs at io_uring's tracepoints. What includes this has declared submitted() and completed() before. */
#ifndef WEIGH_URING_PROGRAMS_H
#define WEIGH_URING_PROGRAMS_H

#include "uring_results.h"

static __always_inline void completed_of(void *ring, struct io_kiocb *request, __u64 user_data,
					 __s32 result, __u32 flags)
{
	struct io_kiocb *known = request ?: repeated_request(ring, user_data, flags);

	completed(known, result, flags);
	if (request)
		forget_repeated(request, BPF_CORE_READ(request, opcode));
}

/* Since 6.4 (2ad57931db64); before that under the name of what is submitted. */
SEC("?tp_btf/io_uring_submit_req")
int BPF_PROG(uring__submit, struct io_kiocb *request)
{
	submitted(request);
	return 0;
}

SEC("?tp_btf/io_uring_submit_sqe")
int BPF_PROG(uring__submit_entry, struct io_kiocb *request)
{
	submitted(request);
	return 0;
}

/* Since 6.12 or so the completion is handed over whole; before, in pieces. */
SEC("?tp_btf/io_uring_complete")
int BPF_PROG(uring__complete, void *ring, void *request, struct io_uring_cqe *completion)
{
	completed_of(ring, request, BPF_CORE_READ(completion, user_data),
		     BPF_CORE_READ(completion, res), BPF_CORE_READ(completion, flags));
	return 0;
}

SEC("?tp_btf/io_uring_complete")
int BPF_PROG(uring__complete_pieces, void *ring, void *request, __u64 user_data, int result,
	     unsigned int flags)
{
	completed_of(ring, request, user_data, result, flags);
	return 0;
}

#endif
