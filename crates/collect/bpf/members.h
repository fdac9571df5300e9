/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which threads are of a job. Each has a stage, in storage that the kernel keeps for the thread and frees with it.
 * Each object has an entry of its own for a thread; its first field is the stage. See membership.h.
 */
#ifndef WEIGH_MEMBERS_H
#define WEIGH_MEMBERS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "stages.h" /* derived from the schema by the build script */

/* Declares the storage for entries of this type, and how one is found. */
#define MEMBERS(structure)                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                           \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, int);                                                                  \
		__type(value, structure);                                                          \
	} members SEC(".maps");                                                                    \
                                                                                                   \
	_Static_assert(!__builtin_offsetof(structure, stage), "the stage comes first");            \
                                                                                                   \
	/* Of any stage. */                                                                        \
	static __always_inline structure *entry_of(struct task_struct *task)                       \
	{                                                                                          \
		return bpf_task_storage_get(&members, task, 0, 0);                                 \
	}                                                                                          \
                                                                                                   \
	static __always_inline __attribute__((unused)) structure *member(struct task_struct *task) \
	{                                                                                          \
		structure *entry = entry_of(task);                                                 \
                                                                                                   \
		return entry && entry->stage == STAGE_MEMBER ? entry : 0;                          \
	}

/* The type of an entry. */
#define MEMBER typeof(*members.value)

#endif
