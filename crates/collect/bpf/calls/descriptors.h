/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a descriptor refers to, where the table is by file or connection. A file is known by its
 * device and inode; user space is told its path, or its addresses, once for each kind of call.
 */
#ifndef WEIGH_CALLS_DESCRIPTORS_H
#define WEIGH_CALLS_DESCRIPTORS_H

#include "cells.h"

#define MAX_NAMES 24
#define MAX_NAME_BYTES 64


#if defined(__TARGET_ARCH_x86)
#define FIRST_ARGUMENT(regs) ((__s32)(regs)->di)
#else
#define FIRST_ARGUMENT(regs) ((__s32)(regs)->regs[0])
#endif

enum grouping {
	BY_CALL,
	BY_THREAD,
	BY_FILE,
	BY_CONNECTION,
};

const volatile enum grouping grouping = BY_CALL;

/* The name of a file: components from the last to the first; or the addresses of a socket. */
struct named {
	__u64 of[2]; /* device, inode */
	__u32 mode, depth;
	__u32 is_complete; /* whether the root was reached */
	__u32 family, protocol;
	__u16 local_port, remote_port;
	__u8 local[16], remote[16];
	char names[MAX_NAMES * MAX_NAME_BYTES]; /* of each component so many */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} told_names SEC(".maps");

const volatile struct named named_layout;

static __always_inline struct file *file_of(struct task_struct *task, __s32 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = 0;

	if (descriptor < 0 || !table || (__u32)descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	return file;
}

struct climb {
	struct named *named;
	struct dentry *dentry;
	struct mount *mount;
};

/* One component, or the step from the root of a file system to where it is mounted. */
static long one_name(__u32 index, struct climb *climb)
{
	struct dentry *dentry = climb->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = climb->mount, *above;
	__u32 depth;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root) || dentry == parent) {
		above = BPF_CORE_READ(mount, mnt_parent);
		climb->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		if (above == mount || !above) {
			climb->named->is_complete = 1;
			return 1;
		}
		climb->mount = above;
		return 0;
	}
	depth = climb->named->depth;
	if (depth >= MAX_NAMES)
		return 1;
	bpf_probe_read_kernel_str(climb->named->names + depth * MAX_NAME_BYTES, MAX_NAME_BYTES,
				  BPF_CORE_READ(dentry, d_name.name));
	climb->named->depth = depth + 1;
	climb->dentry = parent;
	return 0;
}

static __always_inline void name_socket(struct named *named, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);

	if (!sock)
		return;
	named->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	named->protocol = BPF_CORE_READ(sock, sk_protocol);
	named->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	named->remote_port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
	if (named->family == AF_INET6) {
		BPF_CORE_READ_INTO(&named->local, sock, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&named->remote, sock, __sk_common.skc_v6_daddr);
	} else if (named->family == AF_INET) {
		bpf_core_read(&named->local, 4, &sock->__sk_common.skc_rcv_saddr);
		bpf_core_read(&named->remote, 4, &sock->__sk_common.skc_daddr);
	}
}

static __always_inline void tell_name(struct cell_key *key, struct file *file, __u32 mode)
{
	struct named *named = bpf_ringbuf_reserve(&told_names, sizeof(*named), 0);
	struct vfsmount *mount;
	struct climb climb;

	if (!named) {
		count_lost();
		return;
	}
	__builtin_memset(named, 0, __builtin_offsetof(struct named, names));
	named->of[0] = key->of[0];
	named->of[1] = key->of[1];
	named->mode = mode;
	if ((mode & S_IFMT) == S_IFSOCK) {
		name_socket(named, file);
	} else {
		climb.named = named;
		climb.dentry = BPF_CORE_READ(file, f_path.dentry);
		mount = BPF_CORE_READ(file, f_path.mnt);
		climb.mount = (void *)mount - bpf_core_field_offset(struct mount, mnt);
		bpf_loop(3 * MAX_NAMES, one_name, &climb, 0);
	}
	bpf_ringbuf_submit(named, BPF_RB_NO_WAKEUP);
}

/*
 * What a call has waited for at a pipe or a socket: the process at the other end. Read only where a call has slept,
 * so others pay nothing. A table by kind of call alone is told which of the two it was.
 */
static __noinline int note_other_end(struct window *window, struct task_struct *task, struct cell *cell)
{
	struct file *file = file_of(task, window->descriptor);
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : 0;
	__u32 type = inode ? BPF_CORE_READ(inode, i_mode) & S_IFMT : 0;
	__u64 waited = window->account.parts[WEIGH_SCHED].waiting_ns;

	if (type != S_IFIFO && type != S_IFSOCK)
		return 0;
	if (grouping == BY_CALL)
		window->of[1] = type;
	if (cell)
		add(type == S_IFIFO ? &cell->waits_at_pipes_ns : &cell->waits_at_sockets_ns, waited);
	return 0;
}

/* The file, or connection, that a call of this key is about. */
static __always_inline void of_descriptor(struct cell_key *key, struct task_struct *task,
					  __s32 descriptor)
{
	struct file *file = file_of(task, descriptor);
	struct inode *inode;
	__u32 mode;

	if (!file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode);
	if (grouping == BY_CONNECTION && (mode & S_IFMT) != S_IFSOCK)
		return;
	key->of[0] = BPF_CORE_READ(inode, i_sb, s_dev);
	key->of[1] = BPF_CORE_READ(inode, i_ino);
	if (!bpf_map_lookup_elem(&cell_numbers, key))
		tell_name(key, file, mode);
}

#endif
