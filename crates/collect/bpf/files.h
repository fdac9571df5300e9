/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Opened files, where functions of the kernel can be probed: each open is counted in the kernel by
 * process and file; user space hears of a file once for each process.
 */
#ifndef WEIGH_FILES_H
#define WEIGH_FILES_H

#include "job.h"
#include "upper.h"

struct file_key {
	__u64 process;
	__u64 inode;
	__u64 device; /* and the inode's generation: numbers are used again */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, __u64);
} opened SEC(".maps");

static __always_inline void tell_file(struct file *file, struct file_key *key,
				      __u32 pid, struct job *job)
{
	union scratch *space = scratch(0);
	struct file_opened *event;
	long length;

	if (!space)
		return;
	event = &space->file;
	length = bpf_d_path(&file->f_path, event->path, sizeof(event->path));
	if (length < 0 || length > (long)sizeof(event->path)) {
		atomic_add(&job->lost_files, 1);
		return;
	}
	event->kind = EVENT_FILE;
	event->pid = pid;
	event->process = key->process;
	event->inode = key->inode;
	event->device = key->device;
	event->length = length;
	length += FILE_HEAD;
	if (length > (long)sizeof(*event) || length < 0)
		return;
	if (bpf_ringbuf_output(&events, event, length, wake_flags(length)))
		atomic_add(&job->lost_files, 1);
}

SEC("?fentry/security_file_open")
int BPF_PROG(on_open, struct file *file)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = entry_of(task);
	struct process *process;
	struct file_key key = {};
	__u64 *times, once = 1;
	__u32 generation;
	struct job *job;

	if (!thread || thread->stage == STAGE_NONE)
		return 0;
	job = job_of(thread->job);
	process = process_of(task);
	if (!job)
		return 0;
	count(job, process, COUNTER_FILES_OPENED, 1);
	key.process = process_key(task);
	key.inode = file->f_inode->i_ino;
	generation = file->f_inode->i_generation;
	if (!generation)
		generation = generation_of_stacked(file->f_inode);
	key.device = (__u64)generation << 32 | BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	times = bpf_map_lookup_elem(&opened, &key);
	if (times) {
		atomic_add(times, 1);
		return 0;
	}
	if (bpf_map_update_elem(&opened, &key, &once, BPF_NOEXIST))
		atomic_add(&job->lost_files, 1);
	else if (!(process && process->is_apart) && !has_gained_rights(task))
		/* The exec of the command itself comes before its process is known: 0. */
		tell_file(file, &key, process ? process->pid : 0, job);
	return 0;
}

#endif
