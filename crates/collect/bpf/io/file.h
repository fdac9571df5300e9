/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which file a descriptor refers to, and what it is called. A file is known by device, inode and
 * generation; user space is told its path, or its addresses, when it is first used.
 */
#ifndef WEIGH_IO_FILE_H
#define WEIGH_IO_FILE_H

#include "../upper.h"
#include "maps.h"
#include "types.h"

#define MAX_STEPS 512

/* A pointer that lies at an address of the kernel's; none where nothing does. */
static __always_inline void *pointer_at(void *address)
{
	void *pointer = 0;

	if (CAN_FOLLOW)
		return (void *)FOLLOW(hlist_head, address)->first;
	bpf_probe_read_kernel(&pointer, sizeof(pointer), address);
	return pointer;
}

static __always_inline struct file *file_at(struct task_struct *task, __s32 descriptor)
{
	struct files_struct *files = followed(task)->files;
	struct fdtable *table = files ? files->fdt : 0;

	if (descriptor < 0 || !table || (__u32)descriptor >= table->max_fds)
		return 0;
	return pointer_at(table->fd + descriptor);
}

static __always_inline struct inode *inode_of(struct file *file)
{
	if (!file)
		return 0;
	return CAN_FOLLOW ? FOLLOW(file, file)->f_inode : BPF_CORE_READ(file, f_inode);
}

static __always_inline __u32 mode_of(struct inode *inode)
{
	return CAN_FOLLOW ? FOLLOW(inode, inode)->i_mode : BPF_CORE_READ(inode, i_mode);
}

static __always_inline unsigned long magic_of(struct inode *inode)
{
	return CAN_FOLLOW ? FOLLOW(inode, inode)->i_sb->s_magic : BPF_CORE_READ(inode, i_sb, s_magic);
}

/* Whether it may lie on another file system. */
static __always_inline bool is_stacking(unsigned long magic)
{
	return magic == OVERLAYFS_SUPER_MAGIC || magic == FUSE_SUPER_MAGIC;
}

static __always_inline void know_inode(struct io_file *found, struct inode *inode, __u32 pid,
				       __u32 tid)
{
	struct super_block *super;

	found->inode = inode;
	found->key.pid = pid;
	found->key.tid = by_thread ? tid : 0;
	if (CAN_FOLLOW) {
		inode = FOLLOW(inode, inode);
		found->mode = inode->i_mode;
		found->key.inode = inode->i_ino;
		found->key.generation = inode->i_generation;
		found->key.device = inode->i_sb->s_dev;
		found->is_stacked = is_stacking(inode->i_sb->s_magic);
		if (!found->key.generation && inode->i_sb->s_magic == OVERLAYFS_SUPER_MAGIC)
			found->key.generation = generation_of_stacked(found->inode);
		return;
	}
	found->mode = BPF_CORE_READ(inode, i_mode);
	found->key.inode = BPF_CORE_READ(inode, i_ino);
	found->key.generation = generation_of_stacked(inode);
	super = BPF_CORE_READ(inode, i_sb);
	found->key.device = BPF_CORE_READ(super, s_dev);
	found->is_stacked = is_stacking(BPF_CORE_READ(super, s_magic));
}

static __always_inline bool know_file(struct io_file *found, struct file *file, __u32 pid,
				      __u32 tid)
{
	struct file___io *flags = (void *)file;
	struct inode *inode;

	if (!file)
		return false;
	found->file = file;
	if (CAN_FOLLOW) {
		inode = FOLLOW(file, file)->f_inode;
		flags = (void *)FOLLOW(file, file);
		found->flags = flags->f_flags;
		found->position = flags->f_pos;
	} else {
		inode = BPF_CORE_READ(file, f_inode);
		found->flags = BPF_CORE_READ(flags, f_flags);
		found->position = BPF_CORE_READ(flags, f_pos);
	}
	if (!inode)
		return false;
	know_inode(found, inode, pid, tid);
	return true;
}

/* Whether nobody else holds it open: what is closed now is closed for good. */
static __always_inline bool is_last_reference(struct file *file)
{
	struct file___since_6_13 *newer = (void *)file;
	struct file___before_6_13 *older = (void *)file;

	if (bpf_core_field_exists(newer->f_ref))
		return BPF_CORE_READ(newer, f_ref.refcnt.counter) == 0;
	return BPF_CORE_READ(older, f_count.counter) == 1;
}

/* Reads and writes of it are at an offset. */
static __always_inline bool has_offsets(__u32 mode)
{
	return (mode & S_IFMT) == S_IFREG || (mode & S_IFMT) == S_IFBLK;
}

struct climb {
	struct io_told_name *name;
	struct dentry *dentry;
	struct mount *mount;
	struct path root; /* where there is an owner: names are told from there on */
};

/* As far as the thread that runs sees: by /proc/self/fd it would be told no more. */
static __always_inline void know_root(struct path *root)
{
	struct task_struct___io *task = (void *)bpf_get_current_task();

	root->dentry = BPF_CORE_READ(task, fs, root.dentry);
	root->mnt = BPF_CORE_READ(task, fs, root.mnt);
}

/* One component, or the step from the root of a file system to where it is mounted. */
static long one_name(__u32 index, struct climb *climb)
{
	struct dentry *dentry = climb->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = climb->mount, *above;
	struct dentry *root = BPF_CORE_READ(mount, mnt.mnt_root);
	const unsigned char *name;
	bool is_alone;
	long length;
	__u32 at;

	if (has_owner && dentry == climb->root.dentry &&
	    (void *)climb->root.mnt == (void *)mount + bpf_core_field_offset(struct mount, mnt)) {
		climb->name->is_complete = 1;
		return 1;
	}
	/* As memfd_create makes it: in no folder, and its name is all that there is. */
	is_alone = !index && dentry == parent && dentry != root &&
		   (climb->name->mode & S_IFMT) == S_IFREG;
	if (!is_alone && (dentry == root || dentry == parent)) {
		above = BPF_CORE_READ(mount, mnt_parent);
		climb->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		if (above == mount || !above) {
			climb->name->is_complete = 1;
			return 1;
		}
		climb->mount = above;
		return 0;
	}
	name = BPF_CORE_READ(dentry, d_name.name);
	/* Not before: old verifiers forget what is known of a number that is kept over a call. */
	at = climb->name->length;
	if (at >= PATH_BYTES)
		return 1;
	length = bpf_probe_read_kernel_str(climb->name->path + at, NAME_BYTES, name);
	if (length <= 0 || length > NAME_BYTES)
		return 1;
	climb->name->length = at + length;
	climb->dentry = parent;
	climb->name->is_complete = is_alone;
	return is_alone;
}

/* A Unix socket's name, a path or one that begins with a zero; how long it is. */
static __always_inline __u16 name_unix(struct unix_sock *sock, char *to)
{
	struct unix_address *address = BPF_CORE_READ(sock, addr);
	__u32 bytes;

	if (!address)
		return 0;
	bytes = BPF_CORE_READ(address, len) - sizeof(__u16);
	barrier_var(bytes);
	if (bytes > UNIX_BYTES)
		return 0;
	if (bpf_probe_read_kernel(to, bytes,
				  (void *)address + bpf_core_field_offset(struct unix_address, name) +
					  sizeof(__u16)))
		return 0;
	return bytes;
}

/* Its own name, and that of the one at the other end. */
static __noinline int name_unix_socket(struct io_told_name *name, struct sock *sock)
{
	struct unix_sock *own = (void *)sock, *other;

	__builtin_memset(name->path, 0, 2 * UNIX_BYTES);
	if (!bpf_core_type_exists(struct unix_sock))
		return 0;
	name->local_port = name_unix(own, name->path);
	other = (void *)BPF_CORE_READ(own, peer);
	if (other)
		name->remote_port = name_unix(other, name->path + UNIX_BYTES);
	name->length = 2 * UNIX_BYTES;
	return 0;
}

static __always_inline void name_socket(struct io_told_name *name, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);

	if (!sock)
		return;
	name->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (name->family == AF_UNIX) {
		name_unix_socket(name, sock);
		return;
	}
	name->protocol = BPF_CORE_READ(sock, sk_protocol);
	name->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	name->remote_port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
	if (name->family == AF_INET6) {
		BPF_CORE_READ_INTO(&name->local, sock, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&name->remote, sock, __sk_common.skc_v6_daddr);
	} else if (name->family == AF_INET) {
		bpf_core_read(&name->local, 4, &sock->__sk_common.skc_rcv_saddr);
		bpf_core_read(&name->remote, 4, &sock->__sk_common.skc_daddr);
	}
}

/* What a regular file is called now: its name and its folder, as one number. Of others it is the same each time. */
static __always_inline __u64 name_mark(struct io_file *found)
{
	struct dentry *dentry, *folder;
	struct file *file = found->file;
	struct dentry___io *named;
	__u64 mark;

	if ((found->mode & S_IFMT) != S_IFREG)
		return 1;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	named = (void *)dentry;
	mark = BPF_CORE_READ(named, d_name.hash_len);
	folder = BPF_CORE_READ(dentry, d_parent);
	named = (void *)folder;
	return mark ^ BPF_CORE_READ(named, d_inode, i_ino) * 0x9e3779b97f4a7c15ULL;
}

/* Global: the verifier looks at it once, and not at each place where it is called. */
__noinline int tell_name(struct io_file *found)
{
	struct inode___io *inode;
	struct io_key key = {};
	struct file *file;
	struct io_told_name *name;
	struct vfsmount *mount;
	struct climb climb;
	__u32 zero = 0, length;
	__u64 mark, *told;

	if (!found || !found->file)
		return 0;
	file = found->file;
	inode = (void *)found->inode;
	key.inode = found->key.inode;
	key.device = found->key.device;
	key.generation = found->key.generation;
	told = bpf_map_lookup_elem(&named, &key);
	mark = name_mark(found);
	if (told && *told == mark)
		return 0;
	name = bpf_map_lookup_elem(&name_scratch, &zero);
	if (!name)
		return 0;
	__builtin_memset(name, 0, NAME_HEAD);
	name->kind = TOLD_NAME;
	name->mode = found->mode;
	name->key = key;
	name->rdev = BPF_CORE_READ(inode, i_rdev);
	if ((found->mode & S_IFMT) == S_IFSOCK) {
		name_socket(name, file);
	} else {
		climb.name = name;
		climb.dentry = BPF_CORE_READ(file, f_path.dentry);
		climb.root.dentry = 0;
		climb.root.mnt = 0;
		if (has_owner)
			know_root(&climb.root);
		mount = BPF_CORE_READ(file, f_path.mnt);
		climb.mount = (void *)mount - bpf_core_field_offset(struct mount, mnt);
		bpf_loop(MAX_STEPS, one_name, &climb, 0);
	}
	length = name->length;
	if (length > PATH_BYTES + NAME_BYTES)
		return 0;
	if (bpf_ringbuf_output(&told_names, name, NAME_HEAD + length,
			       waking(&told_names, NAME_HEAD + length))) {
		add(&tally.lost_names, 1);
		return 0;
	}
	bpf_map_update_elem(&named, &key, &mark, BPF_ANY);
	return 0;
}

#endif
