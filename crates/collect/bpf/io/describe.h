/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a call has done, by its arguments and its result: described in the thread's window, not yet
 * added to any file.
 */
#ifndef WEIGH_IO_DESCRIBE_H
#define WEIGH_IO_DESCRIBE_H

#include "aio.h"
#include "append.h"
#include "frees.h"
#include "kinds.h"
#include "messages.h"

#define AT_FDCWD -100
#define O_TRUNC 01000
#define PROT_WRITE 2
#define MAX_PIECES 1024 /* of a vector: the kernel takes no more */

/* Where a transfer began that took its offset from a variable, if it took it from one. */
static __always_inline void place_by(struct io_window *window, struct io_doing *did, __u64 pointer)
{
	__u32 bytes = window->shape == SHAPE_SHORT_OFFSET ? sizeof(__u32) : sizeof(__u64);
	__u64 offset;

	did->is_placed = 2;
	if (!pointer)
		return;
	read_word(&offset, pointer, bytes);
	did->from = offset - did->bytes;
	did->is_placed = 1;
}

struct vector {
	__u64 address, bytes;
	__u32 word_bytes, unused;
};

/* An address, and a length. */
static long one_piece(__u32 index, struct vector *vector)
{
	__u64 length;

	read_word(&length, vector->address + (2 * index + 1) * vector->word_bytes,
		  vector->word_bytes);
	vector->bytes += length;
	return 0;
}

/* How much a call asked for: looked at where each call is told. Messages in vectors are left out. */
static __noinline int asks(struct io_window *window, struct pt_regs *regs, __u32 call)
{
	struct io_doing *did = &window->did[0];
	struct vector vector = { .word_bytes = word_bytes(window) };
	__u64 pieces;

	did->is_asked = 1;
	switch (call) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_PREAD:
	case CALL_PWRITE:
	case CALL_TEE:
		did->asked = ARGUMENT(3, window, regs);
		break;
	case CALL_SENDFILE:
		did->asked = ARGUMENT(4, window, regs);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		did->asked = ARGUMENT(5, window, regs);
		break;
	case CALL_READV:
	case CALL_WRITEV:
	case CALL_PREADV:
	case CALL_PWRITEV:
	case CALL_VMSPLICE:
		vector.address = ARGUMENT(2, window, regs);
		pieces = ARGUMENT(3, window, regs);
		bpf_loop(pieces > MAX_PIECES ? MAX_PIECES : pieces, one_piece, &vector, 0);
		did->asked = vector.bytes;
		break;
	default:
		did->is_asked = 0;
	}
	return 0;
}

/* From one descriptor to another. */
static __always_inline void copied(struct io_window *window, __s32 in, __u64 in_at, __s32 out,
				   __u64 out_at)
{
	window->did[0].transfer = IO_COPIED;
	window->did[1] = window->did[0];
	window->ends[0] = in;
	place_by(window, &window->did[0], in_at);
	/* The time is one call's. */
	window->did[1].time_ns = 0;
	window->did[1].wrote = 1;
	window->ends[1] = out;
	place_by(window, &window->did[1], out_at);
}

/* At the offset that the call names, or where the file ended. */
static __always_inline void place_at(struct io_window *window, struct io_doing *did, __u64 offset)
{
	bool is_appended = did->wrote && window->end != NOT_APPENDED;

	did->is_placed = is_appended ? 3 : 1;
	did->from = is_appended ? window->end : offset;
}

/* A call that moves bytes between memory and one descriptor. */
static __always_inline void moved(struct io_window *window, struct pt_regs *regs, __u32 call,
				  long result)
{
	struct io_doing *did = &window->did[0];

	did->wrote = is_write(call);
	did->is_placed = 2;
	switch (call) {
	case CALL_READ:
	case CALL_WRITE:
		did->transfer = IO_PLAIN;
		break;
	case CALL_PREAD:
	case CALL_PWRITE:
		did->transfer = IO_POSITIONED;
		place_at(window, did, ARGUMENT(4, window, regs));
		break;
	case CALL_READV:
	case CALL_WRITEV:
		did->transfer = IO_VECTORED;
		break;
	case CALL_PREADV:
	case CALL_PWRITEV:
		did->transfer = IO_VECTORED;
		/* preadv2 and its like: -1 is the file's own position. */
		if ((__s64)ARGUMENT(4, window, regs) >= 0)
			place_at(window, did, ARGUMENT(4, window, regs));
		break;
	case CALL_RECEIVE_MANY:
	case CALL_SEND_MANY:
		did->transfer = IO_MESSAGE;
		move_many(did, ARGUMENT(2, window, regs), word_bytes(window), result);
		break;
	case CALL_VMSPLICE:
		did->transfer = IO_COPIED;
		break;
	default:
		did->transfer = IO_MESSAGE;
	}
}

static __always_inline void opened(struct io_window *window, struct pt_regs *regs, __u32 call,
				   long result, __u32 pid)
{
	struct io_doing *did = &window->did[0];
	struct io_process *process;
	__u64 flags = 0;

	if (result < 0) {
		process = process_of(pid);
		if (process) {
			add(&process->failed_opens, 1);
			add(&process->path_ns, did->time_ns);
		}
		did->deed = DID_OPEN;
		tell_fileless(did, pid);
		return;
	}
	if (call == CALL_OPEN)
		flags = ARGUMENT(2, window, regs);
	else if (call == CALL_OPENAT)
		flags = ARGUMENT(3, window, regs);
	else if (call == CALL_CREAT)
		flags = O_TRUNC;
	else
		bpf_probe_read_user(&flags, sizeof(flags), (void *)ARGUMENT(3, window, regs));
	did->deed = DID_OPEN;
	did->truncates = !!(flags & O_TRUNC);
	window->ends[0] = result;
}

/* A call that says what it is about by a path, unless that is empty. */
static __always_inline bool is_by_path(struct io_window *window, struct pt_regs *regs, __u32 call)
{
	__s32 descriptor = window->descriptor;
	char first = 0;

	if (call == CALL_PATH)
		return true;
	if (call != CALL_STATAT)
		return false;
	if (descriptor == AT_FDCWD || !ARGUMENT(2, window, regs))
		return descriptor == AT_FDCWD;
	bpf_probe_read_user(&first, 1, (void *)ARGUMENT(2, window, regs));
	return first;
}

static __always_inline void other(struct io_window *window, struct pt_regs *regs, __u32 call,
				  __u32 pid)
{
	struct io_doing *did = &window->did[0];
	struct io_process *process;

	if (is_by_path(window, regs, call)) {
		process = process_of(pid);
		if (process) {
			add(&process->path_calls, 1);
			add(&process->path_ns, did->time_ns);
		}
		did->deed = DID_PATH;
		tell_fileless(did, pid);
		return;
	}
	did->deed = DID_METADATA;
	window->ends[0] = window->descriptor;
	if (call == CALL_SEEK)
		did->deed = DID_SEEK;
	else if (call == CALL_SYNC)
		did->deed = DID_SYNC;
	else if (call == CALL_TRUNCATE)
		did->deed = DID_TRUNCATE;
	else if (call == CALL_MMAP) {
		did->deed = DID_MAP;
		/* MAP_SHARED_VALIDATE has the bit, too. */
		did->is_shared_map = ARGUMENT(3, window, regs) & PROT_WRITE &&
				     ARGUMENT(4, window, regs) & MAP_SHARED;
		if (ARGUMENT(4, window, regs) & MAP_SHARED)
			window->frees = FREES_IF_WRITABLE;
		window->ends[0] = ARGUMENT(5, window, regs);
	}
}

/* What the call has done, but to whom it was done is looked up by the caller. */
static __always_inline void describe(struct io_window *window, struct pt_regs *regs, __u32 call,
				     long result, __u32 pid)
{
	switch (call) {
	case CALL_SENDFILE:
		copied(window, ARGUMENT(2, window, regs), ARGUMENT(3, window, regs), window->descriptor, 0);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		copied(window, window->descriptor, ARGUMENT(2, window, regs), ARGUMENT(3, window, regs),
		       ARGUMENT(4, window, regs));
		break;
	case CALL_TEE:
		copied(window, window->descriptor, 0, ARGUMENT(2, window, regs), 0);
		break;
	case CALL_OPEN:
	case CALL_OPENAT:
	case CALL_OPENAT2:
	case CALL_CREAT:
		opened(window, regs, call, result, pid);
		break;
	case CALL_AIO_EVENTS:
		aio_completes(window, pid, ARGUMENT(4, window, regs), result);
		break;
	case CALL_AIO_SUBMIT:
	case CALL_URING:
	case CALL_FREE:
		break;
	case CALL_SEEK:
	case CALL_SYNC:
	case CALL_TRUNCATE:
	case CALL_METADATA:
	case CALL_STATAT:
	case CALL_PATH:
	case CALL_MMAP:
		other(window, regs, call, pid);
		break;
	default:
		window->ends[0] = window->descriptor;
		moved(window, regs, call, result);
	}
}

#endif
