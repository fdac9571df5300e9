/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The generation of a file of overlayfs, which gives its inodes none though numbers in its upper layer are used again:
 * it is that layer's. Files of a lower layer are there for good: 0. One that is copied up keeps its number, which is
 * not that of the copy: 0, too, so that it is the same file before and after.
 */
#ifndef WEIGH_UPPER_H
#define WEIGH_UPPER_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct dentry___upper {
	struct inode *d_inode;
} __attribute__((preserve_access_index));

/*
 * Of any file. Since 4.13 the dentry in the upper layer stands right behind the inode. With a stack of its own: those of
 * some programs at io_uring and the page cache are full without it.
 */
static __noinline int generation_of_stacked(struct inode *inode)
{
	struct dentry___upper *upper = 0;
	struct inode *real;
	int generation = BPF_CORE_READ(inode, i_generation);

	if (generation)
		return generation;
	if (BPF_CORE_READ(inode, i_sb, s_magic) != OVERLAYFS_SUPER_MAGIC)
		return 0;
	bpf_probe_read_kernel(&upper, sizeof(upper), (void *)inode + bpf_core_type_size(struct inode));
	real = upper ? BPF_CORE_READ(upper, d_inode) : 0;
	if (!real || BPF_CORE_READ(real, i_ino) != BPF_CORE_READ(inode, i_ino))
		return 0;
	return BPF_CORE_READ(real, i_generation);
}

#endif
