/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Since 6.2 a pointer of a known type can be followed by plain loads; a helper that copies takes some 9 ns for
 * each field, and a read looks at a dozen.
 */
#ifndef WEIGH_FOLLOW_H
#define WEIGH_FOLLOW_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

extern void *bpf_rdonly_cast(const void *pointer, __u32 type) __ksym __weak;
#define CAN_FOLLOW bpf_ksym_exists(bpf_rdonly_cast)
#define FOLLOW(type, pointer) ((struct type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(struct type)))

#endif
