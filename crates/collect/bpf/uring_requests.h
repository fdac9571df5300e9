/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Requests of io_uring, as the kernel has them: which operations there are, and whose a request is.
 */
#ifndef WEIGH_URING_REQUESTS_H
#define WEIGH_URING_REQUESTS_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>

/* The operations of include/uapi/linux/io_uring.h that move bytes, or have them written. */
enum uring_operation {
	URING_READV = 1,
	URING_WRITEV = 2,
	URING_FSYNC = 3,
	URING_READ_FIXED = 4,
	URING_WRITE_FIXED = 5,
	URING_SENDMSG = 9,
	URING_RECVMSG = 10,
	URING_READ = 22,
	URING_WRITE = 23,
	URING_SEND = 26,
	URING_RECV = 27,
	URING_SPLICE = 30,
	URING_TEE = 33,
	URING_SEND_ZC = 47,
	URING_SENDMSG_ZC = 48,
	URING_READ_MULTISHOT = 49,
	URING_READV_FIXED = 60,
	URING_WRITEV_FIXED = 61,
};

#define URING_READS                                                                                \
	(1ULL << URING_READV | 1ULL << URING_READ_FIXED | 1ULL << URING_RECVMSG |                  \
	 1ULL << URING_READ | 1ULL << URING_RECV | 1ULL << URING_READ_MULTISHOT |                  \
	 1ULL << URING_READV_FIXED)
#define URING_WRITES                                                                               \
	(1ULL << URING_WRITEV | 1ULL << URING_WRITE_FIXED | 1ULL << URING_SENDMSG |                \
	 1ULL << URING_WRITE | 1ULL << URING_SEND | 1ULL << URING_SEND_ZC |                        \
	 1ULL << URING_SENDMSG_ZC | 1ULL << URING_WRITEV_FIXED)
/* From one file to the other. */
#define URING_COPIES (1ULL << URING_SPLICE | 1ULL << URING_TEE)

static __always_inline bool moves_bytes(__u8 operation)
{
	return operation < 64 && (URING_READS | URING_WRITES | URING_COPIES) >> operation & 1;
}

#define REQ_F_CQE_SKIP (1 << 6) /* of one that succeeds nothing is told */
#define RECV_MULTISHOT (1 << 1) /* among the flags of a recv */
#define CQE_F_BUFFER 1 /* names the buffer in which the data lies */
#define CQE_F_NOTIF 8 /* tells that a buffer is free again; its result is no number of bytes */

static __always_inline struct task_struct *task_of_request(struct io_kiocb *request)
{
	struct io_kiocb___since_6_12 *newer = (void *)request;
	struct io_kiocb___before_6_12 *older = (void *)request;

	if (bpf_core_field_exists(newer->tctx))
		return BPF_CORE_READ(newer, tctx, task);
	return BPF_CORE_READ(older, task);
}

#endif
