/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Numbers of each part of the kernel, on request: from a call, at its end, to those of its kind, and of the interval of
 * libweigh that it is in.
 */
#ifndef WEIGH_CALLS_PART_COUNTS_H
#define WEIGH_CALLS_PART_COUNTS_H

#include "cells.h"

#define PART_NUMBERS (sizeof(struct weigh_parts) / sizeof(__u64))

/* Beside each cell. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* unless user space wants them */
	__type(key, __u32);
	__type(value, struct weigh_parts);
} cell_parts SEC(".maps");

/* Nothing of the thread is open yet. */
static __always_inline void prepare_parts(struct task_struct *task)
{
	if (chosen & WEIGH_BY_PART)
		bpf_task_storage_get(&parts_of_calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline void move_parts(struct window *window, struct task_struct *task, __u32 cell,
				       __u64 request)
{
	struct weigh_parts *from = bpf_task_storage_get(&parts_of_calls, task, 0, 0);
	struct weigh_parts *to = bpf_map_lookup_elem(&cell_parts, &cell);
	struct weigh_parts *also = request ? parts_of_request(window) : 0;
	__u64 *source = (__u64 *)from, *target = (__u64 *)to, *other = (__u64 *)also;

	if (!from)
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < PART_NUMBERS; i++) {
		__u64 number = source[i];

		if (!number)
			continue;
		source[i] = 0;
		if (target)
			add(&target[i], number);
		if (other)
			add(&other[i], number);
	}
}

#endif
