/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who caused what happens later: a cause is kept with each thing that a call leaves behind, and
 * charged when the thing is done. As long as the call is open it is charged to the call itself,
 * else to what came later of its account.
 */
#ifndef WEIGH_CALLS_CAUSES_H
#define WEIGH_CALLS_CAUSES_H

#include "deferred_events.h"

struct cause {
	__u32 client; /* its serial number; 0: none. With a cell: a call of the job that it asked for */
	__u32 slot;
	__u64 request; /* of the client */
	__u64 generation; /* of its account */
	__u32 cell; /* + 1, of the job's table */
	__u32 tid;
	__u64 sequence; /* of the call */
};

/* What completions brought for a call that is still open: the call adds it up at its end. */
struct transfer {
	__u64 requests, bytes, queue_ns, device_ns;
	__u64 carried; /* of the bytes: pages that are charged to their dirtier, too */
	__u64 carried_queue_ns, carried_device_ns; /* of the times: what they are charged with */
	__u64 written; /* of the bytes: written to the device on behalf of the one who is charged */
	__u64 foreign_requests, foreign; /* parts with bytes of files that nobody followed made dirty, and those */
	__u64 issued, in_flight, in_flight_most; /* see in_flight.h */
	__u64 server_ns; /* not of a device: see fuse.h */
};

static __always_inline void raise_to(__u64 *most, __u64 number)
{
	/* Lost races leave a smaller one of two. */
	if (number > *most)
		*most = number;
}

struct open_call {
	__u64 sequence;
	struct transfer transfer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32); /* thread */
	__type(value, struct open_call);
} open_calls SEC(".maps");

/* Names the open account as a cause. */
static __always_inline void name_cause(struct cause *cause, struct open *open)
{
	struct window *window = open->window;

	__builtin_memset(cause, 0, sizeof(*cause));
	if (!window->inside) {
		cause->client = window->client;
		cause->slot = window->slot;
		cause->request = window->request;
		cause->generation = open->account->generation;
		return;
	}
	cause->tid = bpf_get_current_task_btf()->pid;
	cause->sequence = window->sequence;
	cause->cell = window->cell;
	if (window->also) {
		cause->client = window->client;
		cause->slot = window->slot;
		cause->request = window->also;
		cause->generation = window->also_generation;
	}
}

/* Zero if what two causes bring about is added up in one place: half of a request's number is its account's. */
static __always_inline __u64 difference(struct cause *one, struct cause *other)
{
	return (one->cell ^ other->cell) | (one->client ^ other->client) |
	       ((__u32)one->request ^ (__u32)other->request) | (one->generation ^ other->generation);
}

static __always_inline bool same_account(struct cause *one, struct cause *other)
{
	return !difference(one, other);
}

/* Whether two causes are one call, or one interval of a client; a store is in neither. */
static __always_inline bool same_call(struct cause *one, struct cause *other)
{
	return (one->client || one->sequence) && one->client == other->client &&
	       one->request == other->request && one->generation == other->generation &&
	       one->tid == other->tid && one->sequence == other->sequence;
}

/* The account of a client's cause, if it is still for the same token. */
static __always_inline struct weigh_account *account_of(struct cause *cause)
{
	__u32 index = (__u32)cause->request - 1;
	union element *element;

	if (index >= MAX_ACCOUNTS)
		return 0;
	element = element_of(cause->client, FIRST_ACCOUNT + index);
	return element && element->account.generation == cause->generation ? &element->account : 0;
}

static __always_inline bool still_open(struct cause *cause)
{
	struct slot *slot = slot_of(cause->client, cause->slot);

	return slot && slot->request == cause->request;
}

static __always_inline struct weigh_later *later_of(struct cause *cause)
{
	struct weigh_account *account;
	struct cell *cell;
	__u32 index;

	if (!cause->cell) {
		account = cause->client ? account_of(cause) : 0;
		return account ? &account->later : 0;
	}
	index = cause->cell - 1;
	cell = bpf_map_lookup_elem(&cells, &index);
	if (!cell)
		return 0;
	/* Else the compiler adds the offset before the test, which the verifier refuses. */
	barrier_var(cell);
	return &cell->account.later;
}

/* The same of the requester of a call of the job. */
static __always_inline struct weigh_later *also_later_of(struct cause *cause)
{
	struct weigh_account *account;

	if (!cause->cell || !cause->client)
		return 0;
	account = account_of(cause);
	return account ? &account->later : 0;
}

/* What follows is done for each place where what comes later of a cause is added up. */
#define each_later(later, cause)                                                                   \
	_Pragma("clang loop unroll(full)") for (int which_ = 0; which_ < 2; which_++)              \
		if ((later = which_ ? also_later_of(cause) : later_of(cause)))

/*
 * Something that a call caused is under way, or has come to its end. Global, as charge_transfer() is:
 * the verifier looks at it once for each program, by itself, and not wherever it is called.
 */
__noinline int pends(struct cause *cause, __s64 change)
{
	struct weigh_later *later;

	if (!cause)
		return 0;
	each_later(later, cause)
		add(&later->pending, change);
	tell_later(cause, pending, change);
	return 0;
}

/* What comes of something that a call has left behind is not charged to the call. */
__noinline int loses(struct cause *cause)
{
	struct weigh_later *later;

	if (!cause)
		return 0;
	each_later(later, cause)
		add(&later->lost, 1);
	tell_later(cause, lost, 1);
	return 0;
}

/* It found no room: what comes of it is charged to nobody. */
static __always_inline void not_kept(struct cause *cause)
{
	count_lost();
	loses(cause);
}

/* Names the open account as a cause, and remembers that the call is open; false if there is no room for that. */
static __always_inline bool cause_of(struct cause *cause, struct open *open)
{
	struct window *window = open->window;
	struct open_call call = {}, *known;

	name_cause(cause, open);
	if (!cause->cell)
		return cause->client != 0;
	known = bpf_map_lookup_elem(&open_calls, &cause->tid);
	if (known && known->sequence == window->sequence)
		return true;
	call.sequence = window->sequence;
	window->left_behind = 1;
	if (!bpf_map_update_elem(&open_calls, &cause->tid, &call, BPF_ANY))
		return true;
	not_kept(cause);
	return false;
}

__noinline int charge_transfer(struct cause *cause, struct transfer *transfer)
{
	struct weigh_account *account;
	struct weigh_later *later;
	struct open_call *call;
	__u32 tid;

	if (!cause || !transfer)
		return 0;
	if (!cause->cell) {
		account = account_of(cause);
		if (account && still_open(cause)) {
			add(&account->block.requests, transfer->requests);
			add(&account->block.written_bytes, transfer->written);
			add(&account->block.transferred_bytes, transfer->bytes);
			add(&account->block.carried_bytes, transfer->carried);
			add(&account->block.queue_ns, transfer->queue_ns);
			add(&account->block.device_ns, transfer->device_ns);
			add(&account->block.carried_queue_ns, transfer->carried_queue_ns);
			add(&account->block.carried_device_ns, transfer->carried_device_ns);
			if (transfer->foreign) {
				add(&account->block.foreign_requests, transfer->foreign_requests);
				add(&account->block.foreign_bytes, transfer->foreign);
			}
			if (transfer->issued) {
				add(&account->block.issued, transfer->issued);
				add(&account->block.in_flight, transfer->in_flight);
				raise_to(&account->block.in_flight_most, transfer->in_flight);
			}
			return 0;
		}
	} else {
		tid = cause->tid; /* before 6.2 a key is not taken from an argument's memory */
		call = bpf_map_lookup_elem(&open_calls, &tid);
		if (call && call->sequence == cause->sequence) {
			add(&call->transfer.requests, transfer->requests);
			add(&call->transfer.written, transfer->written);
			add(&call->transfer.bytes, transfer->bytes);
			add(&call->transfer.carried, transfer->carried);
			add(&call->transfer.queue_ns, transfer->queue_ns);
			add(&call->transfer.device_ns, transfer->device_ns);
			add(&call->transfer.carried_queue_ns, transfer->carried_queue_ns);
			add(&call->transfer.carried_device_ns, transfer->carried_device_ns);
			if (transfer->foreign) {
				add(&call->transfer.foreign_requests, transfer->foreign_requests);
				add(&call->transfer.foreign, transfer->foreign);
			}
			if (transfer->issued) {
				add(&call->transfer.issued, transfer->issued);
				add(&call->transfer.in_flight, transfer->in_flight);
				raise_to(&call->transfer.in_flight_most, transfer->in_flight);
			}
			return 0;
		}
	}
	each_later(later, cause) {
		add(&later->block_requests, transfer->requests);
		add(&later->block_bytes, transfer->bytes);
		add(&later->block_written_bytes, transfer->written);
		add(&later->block_queue_ns, transfer->queue_ns);
		add(&later->block_device_ns, transfer->device_ns);
		if (transfer->foreign)
			add(&later->block_foreign_bytes, transfer->foreign);
		if (transfer->carried) {
			add(&later->block_carried_queue_ns, transfer->carried_queue_ns);
			add(&later->block_carried_device_ns, transfer->carried_device_ns);
		}
		if (transfer->issued) {
			add(&later->block_issued, transfer->issued);
			add(&later->block_in_flight, transfer->in_flight);
		}
	}
	tell_later(cause, block_requests, transfer->requests, transfer->bytes, transfer->written,
		   transfer->queue_ns, transfer->device_ns);
	if (transfer->foreign)
		tell_later(cause, block_foreign_bytes, transfer->foreign);
	if (transfer->carried)
		tell_later(cause, block_carried_queue_ns, transfer->carried_queue_ns,
			   transfer->carried_device_ns);
	if (transfer->issued)
		tell_later(cause, block_issued, transfer->issued, transfer->in_flight);
	return 0;
}

#endif
