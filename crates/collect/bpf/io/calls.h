/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The calls of a job's threads that are about files, from their entry to their exit.
 */
#ifndef WEIGH_IO_CALLS_H
#define WEIGH_IO_CALLS_H

#include "account.h"
#include "aio.h"

#define MAX_CALL_NUMBER 512
#define MAX_MESSAGES 1024
#define AT_EMPTY_PATH 0x1000
#define AT_FDCWD -100
#define O_TRUNC 01000

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#define ARGUMENT_4(regs) BPF_CORE_READ((struct pt_regs___io *)(regs), r10)
#define ARGUMENT_5(regs) ((regs)->r8)
#else
#define ARGUMENT_1(regs) ((regs)->regs[0])
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#define ARGUMENT_4(regs) ((regs)->regs[3])
#define ARGUMENT_5(regs) ((regs)->regs[4])
#endif

/* What a call does, by its number. */
enum io_call {
	CALL_NONE,
	CALL_READ,
	CALL_WRITE,
	CALL_PREAD,
	CALL_PWRITE,
	CALL_READV,
	CALL_WRITEV,
	CALL_PREADV,
	CALL_PWRITEV,
	CALL_RECEIVE,
	CALL_SEND,
	CALL_RECEIVE_MANY,
	CALL_SEND_MANY,
	CALL_SENDFILE,
	CALL_SPLICE,
	CALL_TEE,
	CALL_VMSPLICE,
	CALL_COPY_RANGE,
	CALL_OPEN,
	CALL_OPENAT,
	CALL_OPENAT2,
	CALL_CREAT,
	CALL_CLOSE,
	CALL_SEEK,
	CALL_SYNC,
	CALL_TRUNCATE,
	CALL_METADATA, /* by descriptor */
	CALL_STATAT, /* by descriptor with an empty path, else by path */
	CALL_PATH,
	CALL_MMAP,
	CALL_AIO_SUBMIT,
	CALL_AIO_EVENTS,
	CALL_URING, /* the requests are told where they complete */
};

const volatile __u8 calls[MAX_CALL_NUMBER];
const volatile enum io_call call_layout;

static __always_inline bool is_compatible(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & TS_COMPAT;
#else
	return false;
#endif
}

/* The call as it is while it is open; the number that is not of a call on files gives nothing. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call__enter, struct pt_regs *regs, long number)
{
	struct task_struct *task;
	struct io_process *process;
	struct io_window *window;
	struct io_file file = {};
	__u32 call;

	if ((__u64)number >= MAX_CALL_NUMBER)
		return 0;
	call = calls[number];
	if (!call)
		return 0;
	task = bpf_get_current_task_btf();
	window = member(task);
	if (!window)
		return 0;
	if (is_compatible(task)) {
		process = process_of(task->tgid);
		if (process)
			add(&process->foreign_calls, 1);
		return 0;
	}
	window->descriptor = ARGUMENT_1(regs);
	window->number = number;
	window->inside = call;
	window->began = bpf_ktime_get_ns();
	if (call == CALL_CLOSE) {
		struct io_doing did = { .deed = DID_CLOSE, .number = number, .at = window->began };

		window->inside = 0;
		if (!know_file(&file, file_at(task, window->descriptor), task->tgid))
			return 0;
		did_with(&file, &did);
		if (is_last_reference(file.file))
			tell_use(&file);
	} else if (call == CALL_AIO_SUBMIT) {
		aio_submits(task, ARGUMENT_2(regs), ARGUMENT_3(regs));
	}
	return 0;
}

/* One end of a transfer, or what else was done. */
static __noinline int one_end(struct io_doing *did, __s32 descriptor)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_file file = {};

	if (!know_file(&file, file_at(task, descriptor), task->tgid)) {
		if (!did->failed)
			count_in_rest(did);
		return 0;
	}
	if (!has_offsets(file.mode))
		did->is_placed = 0;
	else if (did->is_placed == 2)
		did->from = file.position - did->bytes;
	did->is_direct = did->deed == DID_MOVE && file.flags & O_DIRECT_FLAG;
	did_with(&file, did);
	return 0;
}

/* Where a transfer began that took its offset from a variable, if it took it from one. */
static __always_inline void place_by(struct io_doing *did, __u64 pointer)
{
	__s64 offset = 0;

	did->is_placed = 2;
	if (!pointer)
		return;
	bpf_probe_read_user(&offset, sizeof(offset), (void *)pointer);
	did->from = offset - did->bytes;
	did->is_placed = 1;
}

/* From one descriptor to another. */
static __always_inline void copied(struct io_window *window, __s32 in, __u64 in_at, __s32 out,
				   __u64 out_at)
{
	window->did[0].transfer = IO_COPIED;
	window->did[1] = window->did[0];
	window->ends[0] = in;
	place_by(&window->did[0], in_at);
	/* The time is one call's. */
	window->did[1].time_ns = 0;
	window->did[1].wrote = 1;
	window->ends[1] = out;
	place_by(&window->did[1], out_at);
}

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

static __always_inline bool is_write(__u32 call)
{
	return call == CALL_WRITE || call == CALL_PWRITE || call == CALL_WRITEV ||
	       call == CALL_PWRITEV || call == CALL_SEND || call == CALL_SEND_MANY ||
	       call == CALL_VMSPLICE;
}

/* A call that moves bytes between memory and one descriptor. */
static __always_inline void moved(struct io_doing *did, struct pt_regs *regs, __u32 call,
				  long result)
{
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
		did->is_placed = 1;
		did->from = ARGUMENT_4(regs);
		break;
	case CALL_READV:
	case CALL_WRITEV:
		did->transfer = IO_VECTORED;
		break;
	case CALL_PREADV:
	case CALL_PWRITEV:
		did->transfer = IO_VECTORED;
		did->from = ARGUMENT_4(regs);
		/* preadv2 and its like: -1 is the file's own position. */
		if ((__s64)did->from >= 0)
			did->is_placed = 1;
		break;
	case CALL_RECEIVE_MANY:
	case CALL_SEND_MANY:
		did->transfer = IO_MESSAGE;
		move_many(did, ARGUMENT_2(regs), result);
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
		return;
	}
	if (call == CALL_OPEN)
		flags = ARGUMENT_2(regs);
	else if (call == CALL_OPENAT)
		flags = ARGUMENT_3(regs);
	else if (call == CALL_CREAT)
		flags = O_TRUNC;
	else
		bpf_probe_read_user(&flags, sizeof(flags), (void *)ARGUMENT_3(regs));
	did->deed = DID_OPEN;
	did->truncates = !!(flags & O_TRUNC);
	window->ends[0] = result;
}

/* A call that says what it is about by a path, unless that is empty. */
static __always_inline bool is_by_path(struct pt_regs *regs, __u32 call, __s32 descriptor)
{
	char first = 0;

	if (call == CALL_PATH)
		return true;
	if (call != CALL_STATAT)
		return false;
	if (descriptor == AT_FDCWD || !ARGUMENT_2(regs))
		return descriptor == AT_FDCWD;
	bpf_probe_read_user(&first, 1, (void *)ARGUMENT_2(regs));
	return first;
}

static __always_inline void other(struct io_window *window, struct pt_regs *regs, __u32 call,
				  __u32 pid)
{
	struct io_doing *did = &window->did[0];
	struct io_process *process;

	if (is_by_path(regs, call, window->descriptor)) {
		process = process_of(pid);
		if (process) {
			add(&process->path_calls, 1);
			add(&process->path_ns, did->time_ns);
		}
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
		window->ends[0] = ARGUMENT_5(regs);
	}
}

/* What the call has done, but to whom it was done is looked up by the caller. */
static __always_inline void describe(struct io_window *window, struct pt_regs *regs, __u32 call,
				     long result, __u32 pid)
{
	switch (call) {
	case CALL_SENDFILE:
		copied(window, ARGUMENT_2(regs), ARGUMENT_3(regs), window->descriptor, 0);
		break;
	case CALL_SPLICE:
	case CALL_COPY_RANGE:
		copied(window, window->descriptor, ARGUMENT_2(regs), ARGUMENT_3(regs),
		       ARGUMENT_4(regs));
		break;
	case CALL_TEE:
		copied(window, window->descriptor, 0, ARGUMENT_2(regs), 0);
		break;
	case CALL_OPEN:
	case CALL_OPENAT:
	case CALL_OPENAT2:
	case CALL_CREAT:
		opened(window, regs, call, result, pid);
		break;
	case CALL_AIO_EVENTS:
		aio_completes(window->number, ARGUMENT_4(regs), result);
		break;
	case CALL_AIO_SUBMIT:
	case CALL_URING:
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
		moved(&window->did[0], regs, call, result);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call__exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_window *window = member(task);
	struct io_doing *did;
	__u32 call;

	if (!window || !window->inside)
		return 0;
	call = window->inside;
	window->inside = 0;
	did = &window->did[0];
	__builtin_memset(did, 0, sizeof(*did));
	window->ends[0] = window->ends[1] = -1;
	did->number = window->number;
	did->at = bpf_ktime_get_ns();
	did->time_ns = did->at - window->began;
	did->failed = result < 0 && result >= -4095;
	/* One that failed has moved nothing: it is counted with those. */
	did->calls = !did->failed;
	did->bytes = did->failed ? 0 : result;
	describe(window, regs, call, result, task->tgid);
	if (did->failed)
		did->is_placed = window->did[1].is_placed = 0;
	if (window->ends[0] >= 0)
		one_end(&window->did[0], window->ends[0]);
	if (window->ends[1] >= 0)
		one_end(&window->did[1], window->ends[1]);
	return 0;
}

#endif
