/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Block devices. A bio belongs to the call that hands it in, under which it becomes a request or
 * is merged into one; it is charged when the request completes, for only then has it happened:
 * requests are issued again. Time of a request is shared among its bios by their bytes.
 */
#ifndef WEIGH_CALLS_BLOCK_H
#define WEIGH_CALLS_BLOCK_H

#include "bio_pages.h"
#include "in_flight.h"
#include "uring.h"

#define MAX_BIOS_IN_REQUEST 256

/* The submitter of a bio, and whether the owners of the pages that it carries are known by its account. */
struct handed {
	struct cause cause;
	__u64 knows_owners;
	__u64 in_flight; /* requests that the device had when it got the one that this is first in */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct handed);
} bios SEC(".maps");

#define REQUEST_FLAG(name) (1U << (bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 31))

/* Of a program's own memory: nobody else marks writes so, but for journals, which say what they are. */
static __always_inline bool is_direct(struct bio *bio)
{
	__u32 marks = REQUEST_FLAG(SYNC) | REQUEST_FLAG(IDLE);

	return (BPF_CORE_READ(bio, bi_opf) & (marks | REQUEST_FLAG(META))) == marks;
}

static __always_inline void handed_in(struct bio *bio)
{
	__u64 key = (__u64)bio;
	struct handed handed = {};
	struct open open;

	/*
	 * One without data asks the device to write down what it holds: nothing completes by bytes.
	 * The owner of an earlier bio at this address must not be charged for this one.
	 */
	if (!BPF_CORE_READ(bio, bi_iter.bi_size))
		goto not_ours;
	if (mine(&open, WEIGH_BLOCK)) {
		add(&open.account->parts[WEIGH_BLOCK].entries, 1);
		if (!cause_of(&handed.cause, &open))
			return;
		/* Of an account that does not ask for the page cache, no page is its own. */
		handed.knows_owners = open.wanted & BIT(WEIGH_PAGECACHE);
	} else if (!worker_cause(&handed.cause) &&
		   (follows_calls || !is_direct(bio) || !untold_call(&handed.cause))) {
		goto not_ours;
	}
	if (bpf_map_update_elem(&bios, &key, &handed, BPF_ANY))
		not_kept(&handed.cause);
	else
		pends(&handed.cause, 1);
	return;
not_ours:
	bpf_map_delete_elem(&bios, &key);
}

SEC("?tp_btf/block_getrq")
int BPF_PROG(block__request, struct bio *bio)
{
	handed_in(bio);
	return 0;
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(block__backmerge, struct bio *bio)
{
	handed_in(bio);
	return 0;
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(block__frontmerge, struct bio *bio)
{
	handed_in(bio);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(block__issue, struct request *request)
{
	__u64 in_flight = is_issued(request), key = (__u64)BPF_CORE_READ(request, bio);
	struct handed *handed = in_flight ? bpf_map_lookup_elem(&bios, &key) : 0;

	if (handed)
		handed->in_flight = in_flight;
	return 0;
}

/* The driver has given it back: it is issued again. */
SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(block__requeue, struct request *request)
{
	is_over(request);
	return 0;
}

/* A completion, and what its present bio is charged for. */
struct completion {
	struct bio *bio;
	__u64 left; /* bytes of the completion that no bio was found for yet */
	struct transfer request; /* the whole one */
	struct transfer transfer;
	bool writes, moves;
};

/* Not on the stack: what carry() calls takes most of that. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct completion);
} completions SEC(".maps");

static __always_inline struct completion *completion_now(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&completions, &key);
}

static long complete_bio(__u32 index, void *unused)
{
	struct completion *completion = completion_now();
	struct transfer *transfer;
	bool direct, finds_foreign;
	struct handed *handed;
	struct cause *found;
	struct bio *bio;
	__u64 key;

	if (!completion || !completion->bio || !completion->left)
		return 1;
	bio = completion->bio;
	key = (__u64)bio;
	transfer = &completion->transfer;
	__builtin_memset(transfer, 0, sizeof(*transfer));
	transfer->requests = 1;
	completion->bio = BPF_CORE_READ(bio, bi_next);
	transfer->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (transfer->bytes > completion->left)
		transfer->bytes = completion->left;
	completion->left -= transfer->bytes;
	/* What discards blocks has a length, and moves nothing. */
	if (!completion->moves)
		transfer->bytes = 0;
	handed = bpf_map_lookup_elem(&bios, &key);
	found = handed ? &handed->cause : 0;
	direct = found && completion->writes && is_direct(bio);
	finds_foreign = found && completion->writes && !direct && handed->knows_owners;
	if (finds_foreign || (completion->writes && live_chunks))
		carry(bio, transfer, &completion->request, found, finds_foreign);
	if (!found)
		return 0;
	if (direct)
		transfer->written = transfer->bytes;
	take_times(transfer, &completion->request, transfer->bytes);
	if (handed->in_flight) {
		transfer->issued = 1;
		transfer->in_flight = handed->in_flight;
		/* What completes in parts was issued once. */
		handed->in_flight = 0;
	}
	charge_transfer(found, transfer);
	pends(found, -1);
	bpf_map_delete_elem(&bios, &key);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(block__complete, struct request *request, int error, unsigned int bytes)
{
	struct completion *completion = completion_now();
	__u64 now = bpf_ktime_get_ns(), made, issued;
	struct bio *first = BPF_CORE_READ(request, bio);
	__u32 operation;

	if (bytes >= BPF_CORE_READ(request, __data_len))
		is_over(request);
	/* What carries no data was not taken in. */
	if (!completion || !first || !bytes)
		return 0;
	completion->bio = first;
	completion->left = bytes;
	operation = BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK;
	completion->writes = operation == REQ_OP_WRITE;
	completion->moves = completion->writes || operation == REQ_OP_READ;
	__builtin_memset(&completion->request, 0, sizeof(completion->request));
	completion->request.bytes = BPF_CORE_READ(request, __data_len);
	made = BPF_CORE_READ(request, start_time_ns);
	issued = BPF_CORE_READ(request, io_start_time_ns);
	/* The kernel keeps them where statistics of the device are on, as by default. */
	if (made && issued >= made)
		completion->request.queue_ns = issued - made;
	if (issued && now > issued)
		completion->request.device_ns = now - issued;
	bpf_loop(MAX_BIOS_IN_REQUEST, complete_bio, 0, 0);
	return 0;
}

#endif
