/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is known of a file and process only later, when it may be closed and its process gone: what devices did
 * with it, and what was read ahead for it and not used.
 */
#ifndef WEIGH_IO_LATER_H
#define WEIGH_IO_LATER_H

#include "file.h"

#define MAX_DEVICE_USES 262144

struct io_device {
	__u64 read, read_ns, written, write_ns;
	__u64 by_itself, by_kernel, by_others; /* of what was written: who handed it in */
	__u64 first_written, last_written;
	__u64 ahead; /* bytes that wait in the page cache, or waited in vain */
	__u64 doubts; /* times that they may have been used, and nobody could see it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_DEVICE_USES);
	__type(key, struct io_key);
	__type(value, struct io_device);
} devices SEC(".maps");

const volatile struct io_device device_layout;
const volatile __u8 blank_device[sizeof(struct io_device)];

/* Its entry, which may be a new one; none if there is no room. */
static __always_inline struct io_device *device_for(struct io_key *key)
{
	struct io_device *device = bpf_map_lookup_elem(&devices, key);

	if (device)
		return device;
	bpf_map_update_elem(&devices, key, (void *)blank_device, BPF_NOEXIST);
	return bpf_map_lookup_elem(&devices, key);
}

#endif
