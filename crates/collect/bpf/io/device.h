/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What devices read and wrote of the job's files, at the completion of a request. Reads are charged to the
 * submitter; writes to the process that made the pages dirty, whatever submitted them.
 *
 * The pages of a request lead to their files. What goes past the page cache has none: it is of the file
 * that the call is about which hands it in.
 */
#ifndef WEIGH_IO_DEVICE_H
#define WEIGH_IO_DEVICE_H

#include "owners.h"
#include "overlay.h"
#include "kinds.h"
#include "../bio.h"

#define REQUEST_FLAG(name) (1U << (bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 31))
#define MAX_BIOS 65536
#define MAX_BIOS_IN_REQUEST 256

/* Who handed pages to the device. */
enum hand {
	HAND_UNKNOWN,
	HAND_OWN, /* who made them dirty */
	HAND_KERNEL, /* a thread of the kernel */
	HAND_OTHER, /* another process */
};

/* Who handed a bio in. */
struct handed {
	struct io_key direct; /* the file that it is of if its memory is not the page cache's */
	__u64 who;
	__u16 is_kernel, is_direct;
	__u32 is_there;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_BIOS);
	__type(key, __u64);
	__type(value, struct handed);
} bios SEC(".maps");

/* The way through a request. Not on the stack: there is too little of it. */
struct device_walk {
	struct bio *bio;
	__u64 left; /* of the request */
	struct bio_walk at;
	__u32 writes, unused;
	struct handed handed;
	__u64 request_bytes, request_ns, now;
	/* Bytes of one file, one owner and one hand that follow each other. */
	__u64 mapping, owner, bytes;
	__u32 hand, is_known;
	struct io_file file;
	struct disowned run;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct device_walk);
} walks SEC(".maps");

static __always_inline struct device_walk *walk_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&walks, &zero);
}

/* The file that the open call moves bytes of past the page cache, if it is one. */
static __always_inline bool knows_direct(struct handed *handed, struct io_window *window,
					 struct task_struct *task)
{
	struct io_file file = {};

	switch (window->inside) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_PREAD:
	case CALL_PWRITE:
	case CALL_READV:
	case CALL_WRITEV:
	case CALL_PREADV:
	case CALL_PWRITEV:
		break;
	default:
		return false;
	}
	if (!know_file(&file, file_at(task, window->descriptor), task->tgid, task->pid) ||
	    !(file.flags & O_DIRECT_FLAG))
		return false;
	handed->direct = file.key;
	return true;
}

/*
 * Whether a bio of the job's goes past the page cache. Else it is what the file system keeps for itself:
 * its blocks are not locked as pages are. Of requests by AIO and io_uring the file is not known.
 */
static __always_inline bool is_direct(struct bio *bio, struct handed *handed,
				      struct task_struct *task)
{
	struct io_window *window = member(task);
	__u32 flags = BPF_CORE_READ(bio, bi_opf), marks = REQUEST_FLAG(SYNC) | REQUEST_FLAG(IDLE);

	handed->direct.pid = handed->who >> 32;
	handed->direct.tid = handed->who;
	if (flags & REQUEST_FLAG(META))
		return false;
	/* Nobody else marks writes so. */
	if ((flags & REQ_OP_MASK) == REQ_OP_WRITE && (flags & marks) != marks)
		return false;
	if (!window || window->inside == CALL_AIO_SUBMIT || window->inside == CALL_URING)
		return true;
	return knows_direct(handed, window, task);
}

static __always_inline int hand_in(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 operation = BPF_CORE_READ(bio, bi_opf) & REQ_OP_MASK;
	struct handed handed = {};
	__u64 key = (__u64)bio;

	handed.who = doer(task, member(task));
	/* The owner of an earlier bio at this address must not be taken for this one's. */
	if (operation > REQ_OP_WRITE || !BPF_CORE_READ(bio, bi_iter.bi_size) ||
	    (!handed.who && (operation == REQ_OP_READ || !live_owned))) {
		bpf_map_delete_elem(&bios, &key);
		return 0;
	}
	handed.is_kernel = !!(task->flags & PF_KTHREAD);
	if (handed.who)
		handed.is_direct = is_direct(bio, &handed, task);
	if (bpf_map_update_elem(&bios, &key, &handed, BPF_ANY))
		add(&tally.lost_pages, BPF_CORE_READ(bio, bi_iter.bi_size) >> PAGE_SHIFT);
	return 0;
}

SEC("?tp_btf/block_getrq")
int BPF_PROG(device__request, struct bio *bio)
{
	return hand_in(bio);
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(device__backmerge, struct bio *bio)
{
	return hand_in(bio);
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(device__frontmerge, struct bio *bio)
{
	return hand_in(bio);
}

/* What was gathered is added up. Global: the verifier looks at it once. */
__noinline int charge_device(void)
{
	struct device_walk *walk = walk_now();
	struct io_device *device;
	__u64 bytes, ns = 0;
	struct io_key key;

	if (!walk || !walk->bytes)
		return 0;
	bytes = walk->bytes;
	walk->bytes = 0;
	if (!walk->is_known)
		return 0;
	key = walk->file.key;
	if (!is_wanted(key.device))
		return 0;
	device = device_for(&key);
	if (!device) {
		add(&tally.lost_pages, bytes >> PAGE_SHIFT);
		return 0;
	}
	if (walk->request_bytes)
		ns = walk->request_ns * bytes / walk->request_bytes;
	if (!walk->writes) {
		add(&device->read, bytes);
		add(&device->read_ns, ns);
		return 0;
	}
	add(&device->written, bytes);
	add(&device->write_ns, ns);
	if (walk->hand == HAND_OWN)
		add(&device->by_itself, bytes);
	else if (walk->hand == HAND_KERNEL)
		add(&device->by_kernel, bytes);
	else if (walk->hand == HAND_OTHER)
		add(&device->by_others, bytes);
	if (!device->first_written)
		device->first_written = walk->now;
	device->last_written = walk->now;
	return 0;
}

static __always_inline __u32 hand_of(struct handed *handed, __u64 owner)
{
	if (handed->who && handed->who >> 32 == owner >> 32)
		return HAND_OWN;
	if (handed->is_kernel)
		return HAND_KERNEL;
	return handed->who || handed->is_there ? HAND_OTHER : HAND_UNKNOWN;
}

/* Another file or owner than before. */
static __always_inline void turn_to(struct device_walk *walk, __u64 mapping, __u64 owner)
{
	struct inode *inode;

	charge_device();
	walk->mapping = mapping;
	walk->owner = owner;
	walk->hand = walk->writes ? hand_of(&walk->handed, owner) : HAND_OWN;
	walk->is_known = !!owner;
	if (!owner)
		return;
	if (!mapping) {
		walk->file.key = walk->handed.direct;
		return;
	}
	inode = BPF_CORE_READ((struct address_space *)mapping, host);
	walk->is_known = inode && (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG;
	if (walk->is_known)
		know_inode(&walk->file, inode, owner >> 32, owner);
	if (walk->is_known)
		see_above(&walk->file);
}

/* Whose the first pages are of what was written, and of how many bytes that is said. */
static __always_inline __u64 take_written(struct device_walk *walk, __u64 mapping, __u64 page,
					  __u32 within, __u32 *bytes, bool is_dirty)
{
	struct disowned *run = &walk->run;
	__u32 pages = OWNED_PAGES - page % OWNED_PAGES;
	__u32 asked = (within + *bytes + PAGE_BYTES - 1) >> PAGE_SHIFT;

	run->mapping = mapping;
	run->page = page;
	run->pages = asked < pages ? asked : pages;
	run->is_kept = is_dirty;
	run->owner = 0;
	if (live_owned)
		disown(run);
	if (run->pages < asked)
		*bytes = (run->pages << PAGE_SHIFT) - within;
	return run->owner;
}

/* A part of a bio, within one folio; how much of it is one owner's. Global, as above. */
__noinline int walk_folio(__u64 address, __u64 within, __u32 bytes)
{
	struct folio *folio = (struct folio *)address;
	struct device_walk *walk = walk_now();
	__u64 mapping = 0, owner, flags;
	__u32 cached_by;

	if (!walk)
		return 0;
	owner = walk->handed.is_direct ? walk->handed.who : 0;
	flags = flags_of(folio);
	cached_by = walk->writes ? PAGE_FLAG(PG_writeback) : PAGE_FLAG(PG_locked);
	if (flags >> cached_by & 1) {
		mapping = (__u64)mapping_of(folio);
		owner = walk->handed.who;
		if (walk->writes)
			owner = take_written(walk, mapping, index_of(folio) + (within >> PAGE_SHIFT),
					     within & (PAGE_BYTES - 1), &bytes,
					     flags >> PAGE_FLAG(PG_dirty) & 1);
	}
	if (!walk->bytes || walk->mapping != mapping || walk->owner != owner)
		turn_to(walk, mapping, owner);
	walk->bytes += bytes;
	return bytes;
}

static long walk_part(__u32 number, void *unused)
{
	struct device_walk *walk = walk_now();
	struct bio_part part;

	if (!walk || !next_part(&walk->at, &part))
		return 1;
	go_on(&walk->at, walk_folio((__u64)part.folio, part.within, part.bytes));
	return 0;
}

static long walk_bio(__u32 number, void *unused)
{
	struct device_walk *walk = walk_now();
	struct handed *handed;
	struct bio *bio;
	__u32 bytes;
	__u64 key;

	if (!walk || !walk->bio || !walk->left)
		return 1;
	bio = walk->bio;
	key = (__u64)bio;
	walk->bio = BPF_CORE_READ(bio, bi_next);
	bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (bytes > walk->left)
		bytes = walk->left;
	walk->left -= bytes;
	handed = bpf_map_lookup_elem(&bios, &key);
	__builtin_memset(&walk->handed, 0, sizeof(walk->handed));
	if (handed) {
		walk->handed = *handed;
		walk->handed.is_there = 1;
	}
	if (!handed && (!walk->writes || !live_owned))
		return 0;
	begin_walk(&walk->at, bio, bytes);
	bpf_loop(MAX_PARTS_OF_BIO, walk_part, 0, 0);
	charge_device();
	if (handed)
		bpf_map_delete_elem(&bios, &key);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(device__complete, struct request *request, int error, unsigned int bytes)
{
	struct bio *first = BPF_CORE_READ(request, bio);
	struct device_walk *walk = walk_now();
	__u32 operation = BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK;
	__u64 made;

	if (!walk || !first || !bytes || error || operation > REQ_OP_WRITE)
		return 0;
	walk->bio = first;
	walk->left = bytes;
	walk->writes = operation == REQ_OP_WRITE;
	walk->bytes = 0;
	walk->now = bpf_ktime_get_ns();
	walk->request_bytes = BPF_CORE_READ(request, __data_len);
	made = BPF_CORE_READ(request, start_time_ns);
	/* The kernel keeps it where statistics of the device are on, as by default. */
	walk->request_ns = made && walk->now > made ? walk->now - made : 0;
	bpf_loop(MAX_BIOS_IN_REQUEST, walk_bio, 0, 0);
	return 0;
}

#endif
