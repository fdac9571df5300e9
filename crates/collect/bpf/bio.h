/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The way through the memory that a bio carries: its vectors, folio by folio.
 */
#ifndef WEIGH_BIO_H
#define WEIGH_BIO_H

#include "folio.h"

/* Each step is one part, or less of it. */
#define MAX_PARTS_OF_BIO 8192

/* Where one is on it. */
struct bio_walk {
	struct bio_vec *vector;
	__u32 length, done; /* of the vector */
	__u32 left, unused; /* bytes of the bio */
};

/* What comes next: within one vector and one folio. */
struct bio_part {
	struct folio *folio;
	__u64 within, bytes;
};

static __always_inline void begin_walk(struct bio_walk *walk, struct bio *bio, __u32 bytes)
{
	walk->vector = BPF_CORE_READ(bio, bi_io_vec) + BPF_CORE_READ(bio, bi_iter.bi_idx);
	walk->done = BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
	walk->left = bytes;
}

/* False at the end. */
static __always_inline bool next_part(struct bio_walk *walk, struct bio_part *part)
{
	struct bio_vec vector;
	__u64 most, index;

	if (!walk->left || bpf_probe_read_kernel(&vector, sizeof(vector), walk->vector))
		return false;
	part->bytes = vector.bv_len - walk->done;
	if ((__s64)part->bytes <= 0)
		return false;
	walk->length = vector.bv_len;
	part->within = vector.bv_offset + walk->done;
	part->folio = folio_of((__u64)vector.bv_page +
				       (part->within >> PAGE_SHIFT) * bpf_core_type_size(struct page),
			       &index);
	part->within = (index << PAGE_SHIFT) + (part->within & (PAGE_BYTES - 1));
	if (part->bytes > walk->left)
		part->bytes = walk->left;
	most = (pages_of(part->folio) << PAGE_SHIFT) - part->within;
	if (part->bytes > most)
		part->bytes = most;
	return true;
}

/* So many bytes of the part are done with. */
static __always_inline void go_on(struct bio_walk *walk, __u32 bytes)
{
	walk->left -= bytes;
	walk->done += bytes;
	if (walk->done >= walk->length) {
		walk->vector++;
		walk->done = 0;
	}
}

#endif
