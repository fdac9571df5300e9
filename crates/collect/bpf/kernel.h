/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of the kernel's types that weigh reads, and nothing more. Offsets are relocated when
 * the programs are loaded (CO-RE), so only names and types count here. A type or field that
 * differs between kernels has a flavour (`___since_6_2`) and is tested for before use; each
 * difference is listed once, in this file.
 */
#ifndef WEIGH_KERNEL_H
#define WEIGH_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false, true };

#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_F_NO_PREALLOC 1
/*
 * What a map's function returns is kept in an int: before 6.4 it is one, and the upper half of the register is not
 * its sign.
 */
#define EEXIST 17
#define BPF_F_USER_STACK 256
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2
#define BPF_RB_AVAIL_DATA 0

#define BPF_F_MMAPABLE 1024
#define BPF_F_CURRENT_CPU 0xffffffffULL

struct bpf_perf_event_value {
	__u64 counter, enabled, running;
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define BTRFS_SUPER_MAGIC 0x9123683e
#define TMPFS_MAGIC 0x01021994
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define FUSE_SUPER_MAGIC 0x65735546
#define EXT4_SUPER_MAGIC 0xef53
#define F2FS_SUPER_MAGIC 0xf2f52010
#define XFS_SUPER_MAGIC 0x58465342

#define SIGKILL 9
#define SIGSTOP 19
#define SIGNAL_GROUP_EXIT 4
#define PF_EXITING 0x4
#define PF_IO_WORKER 0x10
#define PF_KTHREAD 0x00200000
#define TS_COMPAT 0x0002

#define MM_FILEPAGES 0
#define MM_ANONPAGES 1
#define MM_SWAPENTS 2
#define MM_SHMEMPAGES 3
#define NR_MM_COUNTERS 4

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
};

struct sched_info {
	unsigned long long run_delay;
};

struct task_io_accounting {
	__u64 rchar, wchar, syscr, syscw;
	__u64 read_bytes, write_bytes, cancelled_write_bytes;
};

struct task_delay_info {
	__u64 blkio_delay, swapin_delay, freepages_delay;
};

struct mm_struct;

struct signal_struct {
	unsigned int flags;
	int group_exit_code;
	struct mm_struct *oom_mm; /* of a victim of the OOM killer */
};

struct ns_common {
	unsigned int inum;
};

struct hlist_node {
	struct hlist_node *next;
};

/* Nothing but a pointer: so an element of an array of pointers can be followed. */
struct hlist_head {
	struct hlist_node *first;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct xarray {
	void *xa_head;
};

struct idr {
	struct xarray idr_rt;
};

struct pid_namespace {
	struct idr idr;
	unsigned int level;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct hlist_head tasks[1];
	struct upid numbers[1];
};

typedef struct {
	__u32 val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

typedef struct {
	unsigned long long val; /* an array of two before 6.3 */
} kernel_cap_t;

struct user_namespace {
	struct user_namespace *parent;
	int level;
	kuid_t owner;
};

struct cred {
	kuid_t uid, suid, euid, fsuid;
	kgid_t gid, sgid, egid, fsgid;
	kernel_cap_t cap_permitted, cap_effective;
	struct user_namespace *user_ns;
};

typedef struct {
	long long counter;
} atomic_long_t;

struct mm_struct {
	unsigned long total_vm, hiwater_vm;
	unsigned long arg_start, arg_end;
	atomic_long_t hugetlb_usage; /* with CONFIG_HUGETLB_PAGE; in pages of the usual size */
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

/* Since 6.2 (f1a7941243c1) a resident size is a counter spread over the CPUs. */
struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

struct mm_struct___since_6_2 {
	struct percpu_counter rss_stat[NR_MM_COUNTERS];
};

struct mm_rss_stat {
	atomic_long_t count[NR_MM_COUNTERS];
};

struct mm_struct___before_6_2 {
	struct mm_rss_stat rss_stat;
};

struct thread_info {
	__u32 status, cpu;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct kernel_siginfo {
	int si_code;
};

#define TASK_DEAD 0x80 /* of its state: it does not run any more */

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid, tgid;
	int exit_code;
	int on_cpu; /* it runs */
	char comm[16];
	__u64 start_boottime;
	__u64 utime, stime;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_io_accounting ioac;
	struct task_delay_info *delays;
	unsigned int __state;
	unsigned in_iowait : 1;
	__u64 start_time; /* by CLOCK_MONOTONIC */
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct task_struct *group_leader, *real_parent;
	void *worker_private;
	struct pid *thread_pid;
	struct hlist_node pid_links[1];
	const struct cred *cred, *real_cred;
	struct files_struct *files;
	struct mm_struct *mm;
	void *bpf_storage;
};

struct linux_binprm;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long bx, orig_ax, di, si, dx, cx, r8, r9, ax, sp;
};
#else
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 orig_x0;
	__s32 syscallno;
};
#endif

struct io_uring_cqe {
	__u64 user_data;
	__s32 res;
	__u32 flags;
};

struct io_uring_task {
	struct task_struct *task;
};

struct io_wq_work {
	unsigned int flags;
};

struct io_cqe {
	__u64 user_data;
};

/* What a request of recv or recvmsg asks for. */
struct io_sr_msg {
	__u16 flags;
};

struct io_cmd_data {
	struct file *file;
};

struct io_kiocb {
	struct file *file;
	struct io_cmd_data cmd;
	void *ctx;
	struct io_cqe cqe;
	__u8 opcode;
	__u64 flags; /* of 32 bits before 6.10 */
	struct io_wq_work work;
};

/* A thread that does requests of io_uring. */
struct io_worker {
	struct io_wq_work *cur_work;
};

/* Since 6.12 (f03baece0802) the task of a request is reached through its io_uring context. */
struct io_kiocb___since_6_12 {
	struct io_uring_task *tctx;
};

struct io_kiocb___before_6_12 {
	struct task_struct *task;
};

struct super_block {
	__u32 s_dev;
	void *s_bdev;
	unsigned long s_magic;
};

struct address_space;

/* What the mode of an inode says that it is. */
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFIFO 0010000

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	__u32 i_generation;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	long long i_size;
	unsigned long long i_blocks;
};

struct address_space {
	struct inode *host;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_map {
	__u32 id;
	char name[16];
};

struct bpf_array {
	struct bpf_map map;
	void *pptrs[0];
};

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

struct list_head {
	struct list_head *next;
};

struct wait_queue_head {
	struct list_head head;
};

struct wait_queue_entry {
	void *private;
	struct list_head entry;
};

struct journal_s {
	struct wait_queue_head j_wait_transaction_locked, j_wait_done_commit;
};

struct bdi_writeback;
struct writeback_control;

struct fuse_in_header {
	__u32 pid;
};

struct fuse_req {
	struct {
		struct fuse_in_header h;
	} in;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
	int ki_flags;
};

struct iov_iter {
	unsigned long count;
};

struct kmem_cache {
	unsigned int size;
};

/* Of every page after the first of a folio: the address of the first, + 1. */
struct page {
	unsigned long compound_head;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1; /* its lowest byte: the order of a large folio */
};

/* Since 6.6 (4ce02c679722): which blocks of a folio are dirty, where a file system leaves that to iomap. */
struct iomap_folio_state {
	unsigned int state_lock;
};

/* Since 6.6 (5eb5cea1a8ae) the order lies in the second page's flags. */
struct folio___before_6_6 {
	unsigned char _folio_order;
};

/* Found in the kernel's own enumeration: it moves between versions. */
enum pageflags {
	PG_locked = 0,
	PG_head = 6,
	PG_dirty = 4,
	PG_writeback = 1,
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len, bv_offset;
};

struct bvec_iter {
	unsigned int bi_size, bi_idx, bi_bvec_done;
};

/* Found in the kernel's own enumeration. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META,
	__REQ_IDLE,
};

struct bio {
	struct bio *bi_next;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};

struct request {
	void *q; /* of the device */
	struct bio *bio;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 start_time_ns, io_start_time_ns;
};

struct hrtimer_clock_base {
	struct hrtimer *running;
};

struct hrtimer {
	struct hrtimer_clock_base *base;
};

#pragma clang attribute pop

struct bpf_spin_lock {
	__u32 val;
};

enum pid_type {
	PIDTYPE_PID,
	PIDTYPE_TGID,
};

#include "kernel_net.h"

#endif
