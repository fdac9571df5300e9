/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Parts of the kernel's types that only `weigh io` reads: see ../kernel.h, to which these are
 * flavours.
 */
#ifndef WEIGH_IO_TYPES_H
#define WEIGH_IO_TYPES_H

#include "../kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct file___io {
	unsigned int f_flags;
	long long f_pos;
};

struct file___before_6_13 {
	atomic_long_t f_count;
};

typedef struct {
	atomic_long_t refcnt;
} file_ref_t;

/* Since 6.13 (08ef26ea9ab3) a count of zero is one reference. */
struct file___since_6_13 {
	file_ref_t f_ref;
};

struct inode___io {
	unsigned int i_nlink;
	__u32 i_rdev;
};

struct fs_struct___io {
	struct path root;
};

struct task_struct___io {
	struct fs_struct___io *fs;
};

struct mm_struct___before_6_18 {
	unsigned long flags;
};

typedef struct {
	unsigned long __mm_flags[1];
} mm_flags_t;

struct mm_struct___since_6_18 {
	mm_flags_t flags;
};

struct mm_struct___io {
	struct file *exe_file;
};

#pragma clang attribute pop

/*
 * Since 6.2 a pointer of a known type can be followed by plain loads; a helper that copies takes some 9 ns for
 * each field, and a read looks at a dozen.
 */
extern void *bpf_rdonly_cast(const void *pointer, __u32 type) __ksym __weak;
#define CAN_FOLLOW bpf_ksym_exists(bpf_rdonly_cast)
#define FOLLOW(type, pointer) ((struct type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(struct type)))

#if defined(__TARGET_ARCH_x86)
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___io {
	unsigned long r10;
};
#pragma clang attribute pop
#endif

#endif
