// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What only function probes can see: opened files, calls that the kernel's own accounting leaves out (splice,
 * tee, vmsplice, AIO), and sockets on kernels before 6.3. Loaded where such probes work; it shares
 * the maps of the other object. Each program is optional: a function that a kernel lacks, or has
 * built into its callers, is named in the collector's status.
 *
 * A splice or tee into a pipe reads; a splice out of a pipe, and a vmsplice of memory into a pipe,
 * write.
 */
#include "job.h"
#include "files.h"
#include "sockets.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline void other_call(bool wrote, __s64 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = member(task);
	struct process *process;
	struct job *job;

	/* One that failed is none. */
	if (bytes < 0 || !thread || task->flags & PF_IO_WORKER)
		return;
	job = job_of(thread->job);
	if (!job)
		return;
	process = process_of(task);
	if (bytes > 0)
		count(job, process, wrote ? COUNTER_OTHER_WRITE_CHARS : COUNTER_OTHER_READ_CHARS,
		      bytes);
	count(job, process, wrote ? COUNTER_OTHER_WRITE_CALLS : COUNTER_OTHER_READ_CALLS, 1);
}

static __always_inline __u64 current_call(void)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

	return CALL_NUMBER(regs);
}

#define IN_URING_CALL(call) ((call) == 426) /* io_uring_enter, the same on all machines */


static __always_inline bool is_pipe(struct file *file)
{
	return (file->f_inode->i_mode & S_IFMT) == S_IFIFO;
}

SEC("?fexit/do_splice")
int BPF_PROG(after_splice, struct file *in, void *off_in, struct file *out, void *off_out,
	     unsigned long length, unsigned int flags, long result)
{
	if (!IN_URING_CALL(current_call())) /* its completion is counted */
		other_call(!is_pipe(out), result);
	return 0;
}

SEC("?fexit/do_tee")
int BPF_PROG(after_tee, struct file *in, struct file *out, unsigned long length,
	     unsigned int flags, long result)
{
	if (!IN_URING_CALL(current_call()))
		other_call(false, result);
	return 0;
}

#define FMODE_WRITE 2

#if defined(__TARGET_ARCH_x86)
SEC("?fexit/__x64_sys_vmsplice")
int BPF_PROG(after_vmsplice, const struct pt_regs *regs, long result)
{
	__u32 descriptor = regs->di;
#else
SEC("?fexit/__arm64_sys_vmsplice")
int BPF_PROG(after_vmsplice, const struct pt_regs *regs, long result)
{
	__u32 descriptor = regs->regs[0];
#endif
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **table = BPF_CORE_READ(task, files, fdt, fd);
	struct file *file = 0;

	bpf_probe_read_kernel(&file, sizeof(file), table + descriptor);
	if (file)
		other_call(BPF_CORE_READ(file, f_mode) & FMODE_WRITE, result);
	return 0;
}

/* AIO requests complete in any context: who made one is kept until then. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} requests SEC(".maps");

#define IOCB_WRITE (1 << 18)

SEC("?fentry/aio_prep_rw")
int BPF_PROG(before_aio, struct kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = member(task);
	__u64 key = (__u64)request, process;
	struct job *job;

	if (!thread)
		return 0;
	process = process_key(task);
	job = job_of(thread->job);
	if (bpf_map_update_elem(&requests, &key, &process, BPF_ANY) && job)
		atomic_add(&job->lost_events, 1);
	return 0;
}

SEC("?fentry/aio_complete_rw")
int BPF_PROG(after_aio, struct kiocb *request, long result)
{
	__u64 key = (__u64)request;
	__u64 *owner = bpf_map_lookup_elem(&requests, &key);
	struct process *process;
	struct job *job;
	bool wrote;

	if (!owner)
		return 0;
	process = bpf_map_lookup_elem(&processes, owner);
	bpf_map_delete_elem(&requests, &key);
	if (!process)
		return 0;
	job = job_of(process->job);
	if (!job)
		return 0;
	wrote = request->ki_flags & IOCB_WRITE;
	if (result > 0)
		count(job, process, wrote ? COUNTER_OTHER_WRITE_CHARS : COUNTER_OTHER_READ_CHARS,
		      result);
	count(job, process, wrote ? COUNTER_OTHER_WRITE_CALLS : COUNTER_OTHER_READ_CALLS, 1);
	return 0;
}

/*
 * Somebody who attaches to a function, or detaches from it, makes the kernel pass over the exit
 * programs of the calls that are in it at that moment. So who comes in again without having been
 * seen to leave was not counted.
 */
enum inside {
	INSIDE_INET_SEND,
	INSIDE_INET6_SEND,
	INSIDE_STREAM_SEND,
	INSIDE_DATAGRAM_SEND,
	INSIDE_NETLINK_SEND,
	INSIDE_INET_RECEIVE,
	INSIDE_INET6_RECEIVE,
	INSIDE_STREAM_RECEIVE,
	INSIDE_DATAGRAM_RECEIVE,
	INSIDE_NETLINK_RECEIVE,
};

static __always_inline void enter_call(enum inside function)
{
	struct thread *thread = member(bpf_get_current_task_btf());
	struct job *job;

	if (!thread)
		return;
	if (thread->inside & (1ull << function)) {
		job = job_of(thread->job);
		if (job)
			atomic_add(&job->lost_calls, 1);
	}
	thread->inside |= 1ull << function;
}

static __always_inline void leave_call(enum inside function)
{
	struct thread *thread = member(bpf_get_current_task_btf());

	if (thread)
		thread->inside &= ~(1ull << function);
}

#define ENTERS(name, inside, function)                                                             \
	SEC("?fentry/" #function)                                                                  \
	int BPF_PROG(before_##name)                                                                \
	{                                                                                          \
		enter_call(inside);                                                                \
		return 0;                                                                          \
	}

/* Sockets before 6.3. Only the protocols' functions are sure not to be built into their callers. */
#define SENDS(name, inside, function)                                                              \
	ENTERS(name, inside, function)                                                             \
	SEC("?fexit/" #function)                                                                   \
	int BPF_PROG(after_##name, struct socket *socket, void *message, unsigned long size,      \
		     int result)                                                                   \
	{                                                                                          \
		leave_call(inside);                                                                \
		moved(socket->sk, result, true, false);                                            \
		return 0;                                                                          \
	}

#define RECEIVES(name, inside, function)                                                           \
	ENTERS(name, inside, function)                                                             \
	SEC("?fexit/" #function)                                                                   \
	int BPF_PROG(after_##name, struct socket *socket, void *message, unsigned long size, int flags,   \
		     int result)                                                                   \
	{                                                                                          \
		leave_call(inside);                                                                \
		moved(socket->sk, result, false, flags & MSG_PEEK);                                \
		return 0;                                                                          \
	}

SENDS(inet_send, INSIDE_INET_SEND, inet_sendmsg)
SENDS(inet6_send, INSIDE_INET6_SEND, inet6_sendmsg)
SENDS(stream_send, INSIDE_STREAM_SEND, unix_stream_sendmsg)
SENDS(datagram_send, INSIDE_DATAGRAM_SEND, unix_dgram_sendmsg)
SENDS(netlink_send, INSIDE_NETLINK_SEND, netlink_sendmsg)
RECEIVES(inet_receive, INSIDE_INET_RECEIVE, inet_recvmsg)
RECEIVES(inet6_receive, INSIDE_INET6_RECEIVE, inet6_recvmsg)
RECEIVES(stream_receive, INSIDE_STREAM_RECEIVE, unix_stream_recvmsg)
RECEIVES(datagram_receive, INSIDE_DATAGRAM_RECEIVE, unix_dgram_recvmsg)
RECEIVES(netlink_receive, INSIDE_NETLINK_RECEIVE, netlink_recvmsg)

/* sendfile and splice to a socket took this way before 6.5 (dc97391e6610). */
SEC("?fexit/inet_sendpage")
int BPF_PROG(after_sendpage, struct socket *socket, void *page, int offset, unsigned long size,
	     int flags, long result)
{
	moved(socket->sk, result, true, false);
	return 0;
}
