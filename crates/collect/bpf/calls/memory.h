/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Memory: what is allocated, direct reclaim, page faults.
 */
#ifndef WEIGH_CALLS_MEMORY_H
#define WEIGH_CALLS_MEMORY_H

#include "account.h"

static __always_inline void allocated(__u64 bytes)
{
	struct weigh_by_part *part;
	struct open open;

	if (!mine(&open, WEIGH_MEMORY))
		return;
	add(&open.account->memory.allocations, 1);
	add(&open.account->memory.allocated_bytes, bytes);
	part = by_part(&open);
	if (!part)
		return;
	add(&part->allocations, 1);
	add(&part->allocated_bytes, bytes);
}

SEC("?tp_btf/kmalloc")
int BPF_PROG(memory__kmalloc, unsigned long where, const void *object, unsigned long asked,
	     unsigned long bytes)
{
	allocated(bytes);
	return 0;
}

/* A slab cache knows the size of its objects. */
SEC("?tp_btf/kmem_cache_alloc")
int BPF_PROG(memory__slab, unsigned long where, const void *object, struct kmem_cache *cache)
{
	allocated(BPF_CORE_READ(cache, size));
	return 0;
}

/* Before 6.1-rc1 (11e9734bcb6a) one tracepoint had all four, with the cache in between. */
SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(memory__pages, struct page *page, unsigned int order)
{
	struct weigh_by_part *part;
	struct open open;

	if (!page || !mine(&open, WEIGH_MEMORY))
		return 0;
	add(&open.account->memory.pages, 1ULL << (order & 31));
	part = by_part(&open);
	if (part)
		add(&part->pages, 1ULL << (order & 31));
	return 0;
}

SEC("?tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(memory__reclaim_begin)
{
	enter(WEIGH_MEMORY);
	return 0;
}

SEC("?tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(memory__reclaim_end)
{
	leave(WEIGH_MEMORY);
	return 0;
}

static __always_inline void faulted(bool by_kernel)
{
	struct open open;

	if (!mine(&open, WEIGH_FAULT))
		return;
	add(&open.account->parts[WEIGH_FAULT].entries, 1);
	if (by_kernel)
		add(&open.account->fault.kernel, 1);
	else
		add(&open.account->fault.user, 1);
}

SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault__user)
{
	faulted(false);
	return 0;
}

SEC("?tp_btf/page_fault_kernel")
int BPF_PROG(fault__kernel)
{
	faulted(true);
	return 0;
}

#endif
