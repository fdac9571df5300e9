/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Parts of the kernel's types that only `weigh io` reads: see ../kernel.h, to which these are
 * flavours.
 */
#ifndef WEIGH_IO_TYPES_H
#define WEIGH_IO_TYPES_H

#include "../kernel.h"
#include "../follow.h"

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

struct qstr___io {
	__u64 hash_len; /* of the name: a hash, and how long it is */
};

struct dentry___io {
	struct inode *d_inode;
	struct qstr___io d_name;
};

struct sockaddr_un {
	unsigned short sun_family;
};

struct unix_address {
	int len; /* with the family, before the name */
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct fs_struct___io {
	struct path root;
};

struct task_struct___io {
	struct fs_struct___io *fs;
	void *io_uring; /* once the thread has used it */
};

struct signal_struct___io {
	int nr_threads;
};

struct mm_struct___io {
	struct file *exe_file;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

/* Since 6.9: the file that has its pages, where the server is not asked for them. */
struct fuse_file {
	struct file *passthrough;
};

struct address_space___io {
	struct rb_root_cached i_mmap;
};

#pragma clang attribute pop

#if defined(__TARGET_ARCH_x86)
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___io {
	unsigned long r10, bx, bp;
};
#pragma clang attribute pop
#endif

#endif
