/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Linux native AIO: a request is remembered when it is submitted, and counted when io_getevents
 * hands its result over. One whose result a program takes out of the ring by itself, without a
 * call, is still remembered in the end; user space counts it as it was asked for, and says so.
 */
#ifndef WEIGH_IO_AIO_H
#define WEIGH_IO_AIO_H

#include "account.h"
#include "append.h"
#include "readahead.h"
#include "compat32.h"

#define MAX_REQUESTS 65536
#define MAX_BATCH 4096

#define AIO_PREAD 0
#define AIO_PWRITE 1
#define AIO_PREADV 7
#define AIO_PWRITEV 8

/* As user space has them. */
/*
 * What of a request is read, in two parts: there are 512 bytes of stack for all that is under way, and its caller's
 * data and buffer are not looked at.
 */
struct aio_control {
	__u32 key, flags;
	__u16 operation;
	__s16 priority;
	__u32 descriptor;
};
#define CONTROL_AT 8

struct aio_extent {
	__u64 bytes;
	__s64 offset;
};
#define EXTENT_AT 32

struct aio_event {
	__u64 data, object;
	__s64 result, second;
};

struct aio_key {
	__u64 control; /* its address */
	__u32 pid, unused;
};

struct aio_request {
	struct io_key file;
	__u64 bytes; /* asked for */
	__u64 from;
	__u64 mapping; /* of a regular file whose pages it uses at its place, else 0 */
	__u32 wrote, mode, flags, is_placed;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_REQUESTS);
	__type(key, struct aio_key);
	__type(value, struct aio_request);
} requests SEC(".maps");

const volatile struct aio_request request_layout;

struct aio_batch {
	__u64 address;
	struct io_window *window;
	__u32 pid, word_bytes;
	/* The file that the batch appends to, and where the next write to it begins; negative: nobody knows. */
	__u64 appended_inode;
	__s64 end;
	__u32 appended_device, unused;
};

/*
 * A request that goes to the end of the file: behind what was asked for before it in the same batch. Of a vector
 * nobody has added up how much that is, and of a second file nobody remembers it.
 */
static __always_inline void place_request(struct aio_batch *batch, struct aio_request *request,
					  struct io_file *file)
{
	if (!batch->appended_inode) {
		batch->appended_inode = file->key.inode;
		batch->appended_device = file->key.device;
		batch->end = size_of(file->inode);
	}
	request->is_placed = batch->appended_inode == file->key.inode &&
			     batch->appended_device == file->key.device && batch->end >= 0;
	if (!request->is_placed)
		return;
	request->from = batch->end;
	batch->end = request->bytes ? batch->end + request->bytes : -1;
}

static long submit_one(__u32 index, struct aio_batch *batch)
{
	struct io_file *file = &batch->window->file;
	struct aio_key key = { .pid = batch->pid };
	struct aio_request request = {};
	struct aio_control control;
	struct aio_extent extent;

	if (read_word(&key.control, batch->address + index * batch->word_bytes,
		      batch->word_bytes) ||
	    bpf_probe_read_user(&control, sizeof(control), (void *)(key.control + CONTROL_AT)) ||
	    bpf_probe_read_user(&extent, sizeof(extent), (void *)(key.control + EXTENT_AT)))
		return 1;
	switch (control.operation) {
	case AIO_PREAD:
	case AIO_PREADV:
		break;
	case AIO_PWRITE:
	case AIO_PWRITEV:
		request.wrote = 1;
		break;
	default:
		return 0;
	}
	if (!know_file(file, file_at(bpf_get_current_task_btf(), control.descriptor),
		       batch->pid, (__u32)bpf_get_current_pid_tgid()))
		return 0;
	if (is_apart(batch->pid)) {
		add(&tally.lost_requests, 1);
		doubt_ahead(file);
		return 0;
	}
	request.file = file->key;
	/* Of a vector this is the number of its pieces: the result alone tells. */
	if (control.operation == AIO_PREAD || control.operation == AIO_PWRITE)
		request.bytes = extent.bytes;
	request.from = extent.offset;
	request.mode = file->mode;
	request.flags = file->flags;
	request.is_placed = has_offsets(file->mode);
	if (request.wrote && appends(file, control.flags))
		place_request(batch, &request, file);
	else if ((file->mode & S_IFMT) == S_IFREG)
		request.mapping = (__u64)mapping_of_file(file);
	if (bpf_map_update_elem(&requests, &key, &request, BPF_ANY)) {
		add(&tally.lost_requests, 1);
		doubt_ahead(file);
	}
	/* So that it is known by name, whatever becomes of it. */
	tell_name(file);
	return 0;
}

static __always_inline void aio_submits(struct io_window *window, __u32 pid, __u64 count,
					__u64 address)
{
	struct aio_batch batch = {
		.address = address,
		.window = window,
		.pid = pid,
		.word_bytes = word_bytes(window),
	};

	bpf_loop(count > MAX_BATCH ? MAX_BATCH : count, submit_one, &batch, 0);
}

static long complete_one(__u32 index, struct aio_batch *batch)
{
	struct aio_key key = { .pid = batch->pid };
	struct io_doing *did = &batch->window->did[0];
	struct io_file *file = &batch->window->file;
	struct aio_request *request;
	struct aio_event event;

	if (bpf_probe_read_user(&event, sizeof(event),
				(void *)(batch->address + index * sizeof(event))))
		return 1;
	key.control = event.object;
	request = bpf_map_lookup_elem(&requests, &key);
	if (!request)
		return 0;
	__builtin_memset(did, 0, sizeof(*did));
	did->transfer = IO_AIO;
	did->number = batch->window->number;
	did->at = bpf_ktime_get_ns();
	did->wrote = request->wrote;
	did->failed = event.result < 0;
	did->error = did->failed ? event.result : 0;
	did->asked = request->bytes;
	did->is_asked = !!request->bytes;
	did->calls = !did->failed;
	did->bytes = did->failed ? 0 : event.result;
	did->is_placed = !did->failed && request->is_placed;
	did->from = request->from;
	did->is_direct = !!(request->flags & O_DIRECT_FLAG);
	__builtin_memset(file, 0, sizeof(*file));
	file->key = request->file;
	file->mode = request->mode;
	did_with(file, did);
	if (request->mapping && !did->failed)
		use_range(request->mapping, &request->file, request->from, did->bytes,
			  did->is_direct);
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

static __always_inline void aio_completes(struct io_window *window, __u32 pid, __u64 address,
					  long result)
{
	struct aio_batch batch = { .address = address, .window = window, .pid = pid };

	if (result > 0)
		bpf_loop(result > MAX_BATCH ? MAX_BATCH : result, complete_one, &batch, 0);
}

#endif
