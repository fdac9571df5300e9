/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How what is kept of a file and process is found, made and told from another that has its place by now.
 */
#ifndef WEIGH_IO_USES_H
#define WEIGH_IO_USES_H

#include "maps.h"

/* Whether it is the one that was looked for. The lock is held. */
static __always_inline bool is_use_of(const struct io_use *use, const struct io_key *key)
{
	return use->key.inode == key->inode && use->key.device == key->device &&
	       use->key.generation == key->generation && use->key.pid == key->pid && use->key.tid == key->tid;
}

/*
 * The use of this file and process. Without an error it is new: nobody takes it out until the caller has given it its
 * key, under the lock. None, and -EEXIST, if somebody takes it out at this moment; none where there is no room.
 */
static __always_inline struct io_use *use_for(struct io_key *key, int *error)
{
	struct io_use *use = bpf_map_lookup_elem(&uses, key);

	*error = -EEXIST;
	if (use)
		return use;
	*error = bpf_map_update_elem(&uses, key, (void *)blank_use, BPF_NOEXIST);
	return bpf_map_lookup_elem(&uses, key);
}

#endif
