/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * io_uring: what its requests read and write, where they complete, in whatever context. Requests of which no result
 * will tell (IOSQE_CQE_SKIP_SUCCESS) are counted as hidden, and so are splice and tee, whose result names one of two files.
 */
#ifndef WEIGH_IO_URING_H
#define WEIGH_IO_URING_H

#include "account.h"
#include "readahead.h"
#include "../uring_results.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
/* What lies in `cmd` of a request that reads or writes a file. */
struct io_rw {
	struct kiocb kiocb;
};
#pragma clang attribute pop

/* Those that move bytes between memory and a file at a place of it. */
#define PLACED                                                                                     \
	(1ULL << URING_READV | 1ULL << URING_WRITEV | 1ULL << URING_READ_FIXED |                   \
	 1ULL << URING_WRITE_FIXED | 1ULL << URING_READ | 1ULL << URING_WRITE |                    \
	 1ULL << URING_READV_FIXED | 1ULL << URING_WRITEV_FIXED)

/*
 * What waits of the file is done with. Where the request began is not told of its transfer, for they complete in
 * any order; but the kernel has left in it the place behind its last byte.
 */
static __noinline int settle_request(struct io_kiocb *request, struct io_file *file,
				     struct io_doing *did, __u8 operation)
{
	struct io_rw *moved = (void *)&request->cmd;
	__u64 end;

	if (!(PLACED >> (operation & 63) & 1)) {
		settle_ahead(file, did);
		return 0;
	}
	if (did->failed || (file->mode & S_IFMT) != S_IFREG)
		return 0;
	end = BPF_CORE_READ(moved, kiocb.ki_pos);
	use_range((__u64)mapping_of_file(file), &file->key, end - did->bytes, did->bytes,
		  file->flags & O_DIRECT_FLAG);
	return 0;
}

static __always_inline void completed(struct io_kiocb *request, __s32 result, __u32 flags)
{
	struct io_doing did = { .transfer = IO_URING, .calls = 1, .number = -1 };
	struct task_struct *task;
	struct io_file file = {};
	__u8 operation;
	__u32 pid;

	if (!request || flags & CQE_F_NOTIF)
		return;
	operation = BPF_CORE_READ(request, opcode);
	if (operation == URING_FSYNC)
		did.deed = DID_SYNC;
	else if (!moves_bytes(operation))
		return;
	task = task_of_request(request);
	if (!task)
		return;
	pid = BPF_CORE_READ(task, tgid);
	if (!process_of(pid))
		return;
	did.at = bpf_ktime_get_ns();
	did.wrote = (URING_WRITES | URING_COPIES) >> (operation & 63) & 1;
	did.failed = result < 0;
	did.error = did.failed ? result : 0;
	did.tid = BPF_CORE_READ(task, pid);
	did.calls = !did.failed;
	did.bytes = result < 0 ? 0 : result;
	if (know_file(&file, BPF_CORE_READ(request, file), pid, did.tid)) {
		did_with(&file, &did);
		settle_request(request, &file, &did, operation);
	} else if (!did.failed) {
		count_in_rest(&did);
		tell_fileless(&did, pid);
	}
}

static __always_inline void submitted(struct io_kiocb *request)
{
	__u8 operation = BPF_CORE_READ(request, opcode);
	struct io_process *process;
	struct task_struct *task;
	bool has_two_files = operation == URING_SPLICE || operation == URING_TEE;

	if (!moves_bytes(operation))
		return;
	task = task_of_request(request);
	process = task ? process_of(BPF_CORE_READ(task, tgid)) : 0;
	if (!process || (will_be_told(request, operation) && !has_two_files))
		return;
	add(&process->hidden_requests, 1);
	add(&tally.hidden_requests, 1);
}

#include "../uring_programs.h"

#endif
