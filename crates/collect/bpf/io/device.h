/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What devices read and wrote of the job's files, when a request is done: what is read is his who handed the
 * request in, what is written is his who made the pages dirty, whoever handed them in.
 *
 * The pages of a request lead to their files. What goes past the page cache has none: it is of the file
 * that the call is about which hands it in.
 */
#ifndef WEIGH_IO_DEVICE_H
#define WEIGH_IO_DEVICE_H

#include "owners.h"
#include "kinds.h"

#define REQUEST_FLAG(name) (1U << (bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 31))
#define MAX_BIOS 65536
#define MAX_BIOS_IN_REQUEST 256
#define MAX_PARTS_OF_BIO 8192
#define MAX_DEVICE_USES 262144

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

/* What devices did with a file: it may be done when its process is long gone. */
struct io_device {
	__u64 read, read_ns, written, write_ns;
	__u64 by_itself, by_kernel, by_others; /* of what was written: who handed it in */
	__u64 first_written, last_written;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_DEVICE_USES);
	__type(key, struct io_key);
	__type(value, struct io_device);
} devices SEC(".maps");

const volatile struct io_device device_layout;

/* The way through a request. Not on the stack: there is too little of it. */
struct device_walk {
	struct bio *bio;
	__u64 left; /* of the request */
	struct bio_vec *vector;
	__u32 done; /* of the vector */
	__u32 of_bio; /* bytes of the bio that are left */
	__u32 writes, unused;
	struct handed handed;
	__u64 request_bytes, request_ns, now;
	/* Bytes of one file, one owner and one hand that follow each other. */
	__u64 mapping, owner, bytes;
	__u32 hand, is_known;
	struct io_file file;
	struct owning owning;
	struct io_device blank;
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

	handed.who = doer(task);
	/* Whoever had a bio of this address before must not be taken for this one. */
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
	device = bpf_map_lookup_elem(&devices, &key);
	if (!device) {
		bpf_map_update_elem(&devices, &key, &walk->blank, BPF_NOEXIST);
		device = bpf_map_lookup_elem(&devices, &key);
		if (!device) {
			add(&tally.lost_pages, bytes >> PAGE_SHIFT);
			return 0;
		}
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
}

/* A part of a bio, within one folio, and of what is written within one page. Global, as above. */
__noinline int walk_folio(__u64 address, __u64 within, __u32 bytes)
{
	struct folio *folio = (struct folio *)address;
	struct device_walk *walk = walk_now();
	__u64 mapping = 0, owner, page;
	bool is_cached;

	if (!walk)
		return 0;
	owner = walk->handed.is_direct ? walk->handed.who : 0;
	is_cached = walk->writes ? FOLIO_FLAG(folio, PG_writeback) : FOLIO_FLAG(folio, PG_locked);
	if (is_cached) {
		mapping = (__u64)BPF_CORE_READ(folio, mapping);
		page = BPF_CORE_READ(folio, index) + (within >> PAGE_SHIFT);
		owner = walk->handed.who;
		if (walk->writes)
			owner = live_owned ? owner_of(mapping, page) : 0;
		/* Else it is dirty again, by then. */
		if (walk->writes && owner && !FOLIO_FLAG(folio, PG_dirty)) {
			walk->owning.mapping = mapping;
			walk->owning.from = page;
			walk->owning.to = page + 1;
			walk->owning.owner = 0;
			own_entry(&walk->owning, 0);
		}
	}
	if (!walk->bytes || walk->mapping != mapping || walk->owner != owner)
		turn_to(walk, mapping, owner);
	walk->bytes += bytes;
	return 0;
}

static long walk_part(__u32 number, void *unused)
{
	struct device_walk *walk = walk_now();
	__u64 bytes, most, within, index;
	struct bio_vec vector;
	struct folio *folio;

	if (!walk || !walk->of_bio || bpf_probe_read_kernel(&vector, sizeof(vector), walk->vector))
		return 1;
	bytes = vector.bv_len - walk->done;
	if ((__s64)bytes <= 0)
		return 1;
	within = vector.bv_offset + walk->done;
	folio = folio_of((__u64)vector.bv_page +
				 (within >> PAGE_SHIFT) * bpf_core_type_size(struct page),
			 &index);
	within = (index << PAGE_SHIFT) + (within & (PAGE_BYTES - 1));
	if (bytes > walk->of_bio)
		bytes = walk->of_bio;
	most = (pages_of(folio) << PAGE_SHIFT) - within;
	if (walk->writes)
		most = PAGE_BYTES - (within & (PAGE_BYTES - 1));
	if (bytes > most)
		bytes = most;
	walk_folio((__u64)folio, within, bytes);
	walk->of_bio -= bytes;
	walk->done += bytes;
	if (walk->done >= vector.bv_len) {
		walk->vector++;
		walk->done = 0;
	}
	return 0;
}

static long walk_bio(__u32 number, void *unused)
{
	struct device_walk *walk = walk_now();
	struct handed *handed;
	struct bio *bio;
	__u64 key;

	if (!walk || !walk->bio || !walk->left)
		return 1;
	bio = walk->bio;
	key = (__u64)bio;
	walk->bio = BPF_CORE_READ(bio, bi_next);
	walk->of_bio = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (walk->of_bio > walk->left)
		walk->of_bio = walk->left;
	walk->left -= walk->of_bio;
	handed = bpf_map_lookup_elem(&bios, &key);
	__builtin_memset(&walk->handed, 0, sizeof(walk->handed));
	if (handed) {
		walk->handed = *handed;
		walk->handed.is_there = 1;
	}
	if (!handed && (!walk->writes || !live_owned))
		return 0;
	walk->vector = BPF_CORE_READ(bio, bi_io_vec) + BPF_CORE_READ(bio, bi_iter.bi_idx);
	walk->done = BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
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
