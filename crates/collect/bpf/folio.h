/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the kernel's structures say of a folio: one page of the page cache or several in a row,
 * which become dirty, and are written, as one.
 */
#ifndef WEIGH_FOLIO_H
#define WEIGH_FOLIO_H

#include "kernel.h"
#include "follow.h"

#define PAGE_SHIFT 12
#define PAGE_BYTES (1ULL << PAGE_SHIFT)

#define PAGE_FLAG(flag) (bpf_core_enum_value(enum pageflags, flag) & 63)
#define FOLIO_FLAG(folio, flag) (flags_of(folio) >> PAGE_FLAG(flag) & 1)

static __always_inline unsigned long flags_of(struct folio *folio)
{
	unsigned long flags = 0;

	/* The first word is the flags; as a type of its own since 6.18 (53fbef56e07d). */
	if (CAN_FOLLOW)
		return *(unsigned long *)FOLLOW(folio, folio);
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	return flags;
}

static __always_inline struct address_space *mapping_of(struct folio *folio)
{
	return CAN_FOLLOW ? FOLLOW(folio, folio)->mapping : BPF_CORE_READ(folio, mapping);
}

/* Its first page's place in the file. */
static __always_inline __u64 index_of(struct folio *folio)
{
	return CAN_FOLLOW ? FOLLOW(folio, folio)->index : BPF_CORE_READ(folio, index);
}

static __always_inline __u64 pages_of(struct folio *folio)
{
	struct folio___before_6_6 *older = (void *)folio;

	if (!FOLIO_FLAG(folio, PG_head))
		return 1;
	if (bpf_core_field_exists(older->_folio_order))
		return 1ULL << (BPF_CORE_READ(older, _folio_order) & 31);
	if (CAN_FOLLOW)
		return 1ULL << (FOLLOW(folio, folio)->_flags_1 & 31);
	return 1ULL << (BPF_CORE_READ(folio, _flags_1) & 31);
}

/* The folio of a page, and which of its pages it is. */
static __always_inline struct folio *folio_of(__u64 page, __u64 *number)
{
	/* Not by plain loads: the verifier takes it for a pointer, with which nobody may compute. */
	__u64 head = BPF_CORE_READ((struct page *)page, compound_head);

	*number = 0;
	if (!(head & 1))
		return (struct folio *)page;
	*number = (page - (head - 1)) / bpf_core_type_size(struct page);
	return (struct folio *)(head - 1);
}

#endif
