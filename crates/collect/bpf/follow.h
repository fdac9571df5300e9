/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Since 6.2 a pointer of a known type can be followed by plain loads; a helper that copies takes some 9 ns for
 * each field, and a read looks at a dozen.
 */
#ifndef WEIGH_FOLLOW_H
#define WEIGH_FOLLOW_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_functions.h"

static void *(*const cast_read_only)(const void *pointer, __u32 type) = KERNEL_FUNCTION(0);
#define CAN_FOLLOW followed_types.can_follow
#define FOLLOW(type, pointer) ((struct type *)cast_read_only(pointer, followed_types.type))

/* The kernel's numbers of these types. Relocations cannot tell them: they are made by a part of its types alone. */
struct followed_types {
	__u32 can_follow;
	__u32 task_struct;
	__u32 folio;
	__u32 file;
	__u32 inode;
	__u32 address_space;
	__u32 hlist_head;
	__u32 tcphdr;
	__u32 tcp_sock;
	__u32 tcp_skb_cb;
	__u32 softnet_data;
};
const volatile struct followed_types followed_types;

/*
 * A thread whose pointers are followed. A plain load of a pointer from one that a program is given makes the verifier
 * search all of the kernel's type names four times, each time it comes by.
 */
static __always_inline struct task_struct *followed(struct task_struct *task)
{
	return CAN_FOLLOW ? FOLLOW(task_struct, task) : task;
}

#endif
