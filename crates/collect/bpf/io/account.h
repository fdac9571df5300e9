/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One thing that was done with a file is added to what is kept of the file and process; and what is
 * kept is told to user space when the process is done with the file.
 */
#ifndef WEIGH_IO_ACCOUNT_H
#define WEIGH_IO_ACCOUNT_H

#include "file.h"
#include "access_rules.h"
#include "offset_histogram.h"
#include "maps.h"

#if defined(__TARGET_ARCH_x86)
#define O_DIRECT_FLAG 040000
#else
#define O_DIRECT_FLAG 0200000
#endif
/*
 * A thread that makes a use, or is done with one, has no more than a few instructions to go. But a virtual machine's CPU may
 * stand still among them for as long as its host runs others on it, and what does not wait for that is counted
 * without its file. The second number only bounds the loop.
 */
#define PATIENCE_NS 500000000
#define MOST_TRIES (1 << 22)

struct io_use {
	struct bpf_spin_lock lock;
	/*
	 * Without a process until its maker has set it, and just before the entry leaves the table: since 6.1 it is
	 * reused at once, and code that still has its address must not take it for the one that it looked up.
	 */
	struct io_key key;
	__u32 mode, rdev, links;
	__u32 is_named; /* or was tried: a file that is known by its inode alone has no name yet */
	__u64 unsynced; /* bytes written since the last fsync */
	__u64 slowest_ns, slowest_number, slowest_at;
	struct io_numbers numbers;
	struct io_direction directions[2];
	struct io_places places;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_USES);
	__type(key, struct io_key);
	__type(value, struct io_use);
} uses SEC(".maps");

/* What found no room among them, all together. Its key is nobody's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct io_use);
} rest SEC(".maps");

const volatile __u8 blank_use[sizeof(struct io_use)];

struct io_told_use {
	enum io_kind kind;
	__u32 unused;
	struct io_key key;
	struct io_use use;
};

const volatile struct io_told_use use_layout;

/* Uses, and processes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} told SEC(".maps");

/* Whether it is the one that was looked for. The lock is held. */
static __always_inline bool is_use_of(const struct io_use *use, const struct io_key *key)
{
	return use->key.inode == key->inode && use->key.device == key->device &&
	       use->key.generation == key->generation && use->key.pid == key->pid && use->key.tid == key->tid;
}

/*
 * The use of this file and process. Without an error it is new: nobody takes it out until the caller has given it its
 * key, under the lock. None, and -EEXIST, if somebody takes it out at this moment; none where there is no room.
 */
static __always_inline struct io_use *use_for(struct io_key *key, int *error)
{
	struct io_use *use = bpf_map_lookup_elem(&uses, key);

	*error = -EEXIST;
	if (use)
		return use;
	*error = bpf_map_update_elem(&uses, key, (void *)blank_use, BPF_NOEXIST);
	return bpf_map_lookup_elem(&uses, key);
}

/* Hardly a branch: the verifier follows each way from here through place_access(). */
static __always_inline void count_move(struct io_use *use, struct io_doing *did)
{
	struct io_numbers *numbers = &use->numbers;
	__u32 transfer = did->transfer % IO_TRANSFERS;
	__u64 writes = -direction_of(&did->wrote), called = ~is_equal(transfer, IO_MAPPED);

	count_moved(numbers, transfer, called, &did->wrote, did->calls, &did->bytes);
	numbers->write_ns += did->time_ns & writes;
	numbers->read_ns += did->time_ns & ~writes;
	numbers->cached_reads += did->is_cached & ~writes;
	use->unsynced += did->bytes & writes;
	count_direct(numbers, did->is_direct, did->is_placed, did->from, did->bytes);
	if (!did->is_placed)
		return;
	did->is_spread = !add_place(&use->places, did);
	if (called)
		place_access(numbers, use->directions, &did->wrote, &did->from, &did->bytes);
}

static __always_inline void count_other(struct io_use *use, struct io_doing *did)
{
	struct io_numbers *numbers = &use->numbers;

	switch (did->deed) {
	case DID_OPEN:
		numbers->opens++;
		numbers->truncates += did->truncates;
		numbers->metadata_ns += did->time_ns;
		break;
	case DID_CLOSE:
		numbers->closes++;
		break;
	case DID_SEEK:
		numbers->seeks++;
		numbers->metadata_ns += did->time_ns;
		break;
	case DID_SYNC:
		count_sync(numbers, use->unsynced);
		use->unsynced = 0;
		numbers->sync_ns += did->time_ns;
		break;
	case DID_TRUNCATE:
		numbers->truncates++;
		numbers->metadata_ns += did->time_ns;
		break;
	case DID_MAP:
		numbers->maps++;
		numbers->metadata_ns += did->time_ns;
		break;
	case DID_FILL:
		numbers->filled += did->bytes;
		break;
	default:
		numbers->metadata_calls++;
		numbers->metadata_ns += did->time_ns;
	}
}

static __always_inline void count_times(struct io_use *use, struct io_doing *did)
{
	if (!use->numbers.first_ns)
		use->numbers.first_ns = did->at - did->time_ns;
	use->numbers.last_ns = did->at;
	if (did->time_ns > use->slowest_ns) {
		use->slowest_ns = did->time_ns;
		use->slowest_number = did->number;
		use->slowest_at = did->at;
	}
}

/*
 * False if the use is about to leave the table, or made. Not inlined: the stacks of all who are on the way to here
 * are added up, and there is little of it.
 */
static __noinline int count_in(struct io_use *use, struct io_key *key, struct io_doing *did)
{
	bool alive;

	bpf_spin_lock(&use->lock);
	if (did->is_new)
		use->key = *key;
	alive = is_use_of(use, key);
	if (alive) {
		if (did->deed == DID_MOVE)
			count_move(use, did);
		else
			count_other(use, did);
		use->numbers.failed += did->failed;
		count_times(use, did);
	}
	bpf_spin_unlock(&use->lock);
	return alive;
}

enum counting {
	COUNT_AGAIN, /* another thread makes the use at this moment, or is done with the file */
	COUNTED_IN_NEW,
	COUNTED_IN_UNNAMED,
	COUNTED_IN_NAMED,
	COUNT_NOWHERE, /* there is no room */
};

/* One attempt. Global: the verifier looks at it once, and by itself. */
__noinline int try_to_count(struct io_key *key, struct io_doing *did)
{
	struct io_use *use;
	struct io_key of;
	int error;

	if (!key || !did)
		return COUNT_NOWHERE;
	of = *key; /* before 6.2 a key is not taken from an argument's memory */
	use = use_for(&of, &error);
	if (!use)
		return error == -EEXIST ? COUNT_AGAIN : COUNT_NOWHERE;
	did->is_new = !error;
	if (!count_in(use, &of, did))
		return COUNT_AGAIN;
	if (did->is_new)
		return COUNTED_IN_NEW;
	return use->is_named ? COUNTED_IN_NAMED : COUNTED_IN_UNNAMED;
}

/*
 * An access in several places, or beyond the last one. False if another thread hands the use over at this moment,
 * or makes it: it should be tried again. Global: the verifier looks at it once, and by itself.
 */
__noinline int spread_access(struct io_key *key, struct io_doing *did)
{
	struct io_key of;
	struct io_use *use;
	int error;
	bool alive;

	if (!key || !did)
		return 1;
	of = *key; /* before 6.2 a key is not taken from an argument's memory */
	use = use_for(&of, &error);
	if (!use)
		return 0;
	did->is_new = !error;
	bpf_spin_lock(&use->lock);
	if (HIDDEN(did->is_new))
		use->key = of;
	alive = is_use_of(use, &of);
	if (alive)
		spread(&use->places, did);
	bpf_spin_unlock(&use->lock);
	return alive;
}

struct attempt {
	struct io_key *key;
	struct io_doing *did;
	__u64 until;
	__u32 outcome;
};

static __always_inline long is_over(struct attempt *attempt, bool is_done)
{
	return is_done || bpf_ktime_get_ns() > attempt->until;
}

static long count_again(__u32 index, struct attempt *attempt)
{
	attempt->outcome = try_to_count(attempt->key, attempt->did);
	return is_over(attempt, attempt->outcome != COUNT_AGAIN);
}

static long spread_again(__u32 index, struct attempt *attempt)
{
	attempt->outcome = spread_access(attempt->key, attempt->did);
	return is_over(attempt, attempt->outcome);
}

/* As a call is counted, it is told. */
static __noinline int tell_call(struct io_key *key, struct io_doing *did)
{
	struct io_told_call *record = 0;

	if (!is_apart(key->pid))
		record = bpf_ringbuf_reserve(&told_calls, sizeof(*record), 0);
	if (!record) {
		add(&tally.untold_calls, 1);
		add(&tally.untold_bytes[did->wrote & 1], did->deed == DID_MOVE ? did->bytes : 0);
		return 0;
	}
	record->kind = TOLD_CALL;
	record->deed = did->deed;
	record->key = *key;
	record->tid = did->tid ?: (__u32)bpf_get_current_pid_tgid();
	record->number = did->number;
	record->transfer = did->transfer;
	record->wrote = did->wrote;
	record->is_placed = did->is_placed;
	record->is_asked = did->is_asked;
	record->error = did->error;
	record->calls = did->calls;
	record->bytes = did->bytes;
	record->from = did->from;
	record->asked = did->asked;
	record->time_ns = did->time_ns;
	record->at = did->at;
	bpf_ringbuf_submit(record, waking(&told_calls, sizeof(*record) + 8));
	return 0;
}

/* One that is about no file that is known. */
static __always_inline void tell_fileless(struct io_doing *did, __u32 pid)
{
	struct io_key key = { .pid = pid };

	if (tells_calls && !only_device)
		tell_call(&key, did);
}

/* Global, as above. */
__noinline int count_without_file(struct io_doing *did)
{
	struct io_key nobody = {};
	struct io_use *use;
	__u32 zero = 0;

	use = bpf_map_lookup_elem(&rest, &zero);
	if (!use || !did)
		return 0;
	/* It is of many files: no place in one means anything. */
	did->is_placed = did->is_spread = did->is_new = 0;
	count_in(use, &nobody, did);
	return 0;
}

static __always_inline int count_in_rest(struct io_doing *did)
{
	add(&tally.rest_calls, 1);
	return count_without_file(did);
}

/* What a new use has besides its numbers. */
static __noinline int describe_use(struct io_file *file, struct io_key *key)
{
	struct io_use *use = bpf_map_lookup_elem(&uses, key);
	struct inode___io *inode = (void *)file->inode;
	__u32 rdev, links;

	if (!use)
		return 0;
	rdev = inode ? BPF_CORE_READ(inode, i_rdev) : 0;
	links = inode ? BPF_CORE_READ(inode, i_nlink) : 0;
	bpf_spin_lock(&use->lock);
	if (is_use_of(use, key)) {
		use->mode = file->mode;
		use->rdev = rdev;
		use->links = links;
		use->is_named = !!file->file;
	}
	bpf_spin_unlock(&use->lock);
	return tell_name(file);
}

/* Not all that is stored into such a map is seen: see docs/io.md. */
static __always_inline void note_shared_map(struct io_file *file)
{
	struct inode *inode = file->inode;

	if ((file->mode & S_IFMT) != S_IFREG || !inode)
		return;
	add(&tally.shared_maps, 1);
	if (BPF_CORE_READ(inode, i_sb, s_magic) == TMPFS_MAGIC)
		add(&tally.memory_maps, 1);
}

/* What an access in several places adds to each. Global, as above. */
__noinline int spread_over_places(struct io_key *key, struct io_doing *did)
{
	struct attempt attempt = { .key = key, .did = did };

	if (!key || !did || spread_access(key, did))
		return 0;
	attempt.until = bpf_ktime_get_ns() + PATIENCE_NS;
	bpf_loop(MOST_TRIES, spread_again, &attempt, 0);
	if (!attempt.outcome)
		add(&tally.lost_calls, 1);
	return 0;
}

/*
 * Adds a transfer to the use of its file, as nearly all are added: by fewer calls than below, for each takes some
 * nanoseconds. False if it was not: another thread makes the use or is done with it, or there is more to do.
 */
static __always_inline bool count_at_once(struct io_file *file, struct io_doing *did)
{
	struct io_use *use;

	if (tells_calls || has_owner || did->deed != DID_MOVE || !is_wanted(file->key.device))
		return false;
	use = bpf_map_lookup_elem(&uses, &file->key);
	if (!use || !use->is_named || !count_in(use, &file->key, did))
		return false;
	if (did->is_spread)
		spread_over_places(&file->key, did);
	return true;
}

/*
 * Whether nobody else counts in the uses of this thread's process: it has no other thread, and this one has made no
 * requests of io_uring, which others may complete.
 */
static __always_inline bool is_alone(struct task_struct *task)
{
	struct task_struct___io *more = (void *)followed(task);
	struct signal_struct___io *signal = (void *)followed(task)->signal;

	if (bpf_core_field_exists(more->io_uring) && more->io_uring)
		return false;
	return signal->nr_threads == 1;
}

/* Adds a transfer without the lock: if nobody else comes. */
static __noinline int count_alone(struct io_use *use, struct io_doing *did)
{
	count_move(use, did);
	count_times(use, did);
	return 0;
}

/* Adds it to the use of this file, or to the rest. Global, as above. */
__noinline int did_with(struct io_file *file, struct io_doing *did)
{
	struct attempt attempt;
	struct io_key key;
	__u32 outcome;

	if (!file || !did || !is_wanted(file->key.device))
		return 0;
	key = file->key;
	if (did->deed == DID_MAP && did->is_shared_map && !did->failed)
		note_shared_map(file);
	if (tells_calls)
		tell_call(&key, did);
	if (is_apart(key.pid)) {
		add(&tally.apart_calls, 1);
		return count_without_file(did);
	}
	attempt.key = &key;
	attempt.did = did;
	attempt.outcome = try_to_count(&key, did);
	if (attempt.outcome == COUNT_AGAIN) {
		attempt.until = bpf_ktime_get_ns() + PATIENCE_NS;
		bpf_loop(MOST_TRIES, count_again, &attempt, 0);
	}
	outcome = attempt.outcome;
	if (outcome == COUNT_AGAIN || outcome == COUNT_NOWHERE)
		return count_in_rest(did);
	if (did->is_spread)
		spread_over_places(&key, did);
	if (outcome == COUNTED_IN_NEW || (outcome == COUNTED_IN_UNNAMED && file->file))
		describe_use(file, &key);
	return 0;
}

/* Hands what is kept to user space, and keeps it no longer. Without room it stays. */
static __noinline int tell_use(struct io_file *file)
{
	struct io_use *use = bpf_map_lookup_elem(&uses, &file->key);
	struct inode___io *inode = (void *)file->inode;
	struct io_told_use *record;
	__u32 links;

	/* What was done before it came to be apart stays in the table: when it is done with it is not told. */
	if (!use || is_apart(file->key.pid))
		return 0;
	record = bpf_ringbuf_reserve(&told, sizeof(*record), 0);
	if (!record)
		return 0;
	record->kind = TOLD_USE;
	record->unused = 0;
	record->key = file->key;
	links = BPF_CORE_READ(inode, i_nlink);
	bpf_spin_lock(&use->lock);
	if (!is_use_of(use, &file->key)) {
		bpf_spin_unlock(&use->lock);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	use->links = links;
	use->key.pid = 0;
	bpf_spin_unlock(&use->lock);
	/* Nobody adds to it any more. */
	bpf_probe_read_kernel(&record->use, sizeof(record->use), use);
	bpf_map_delete_elem(&uses, &file->key);
	bpf_ringbuf_submit(record, waking(&told, sizeof(*record) + 8));
	return 0;
}

#endif
