/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Calls of 32-bit programs on a kernel of 64 bits: their numbers are others. */
#ifndef WEIGH_COMPATIBLE_H
#define WEIGH_COMPATIBLE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

static __always_inline bool is_compatible(struct task_struct *task)
{
	return bpf_core_field_exists(task->thread_info.status) &&
	       task->thread_info.status & TS_COMPAT;
}

#endif
