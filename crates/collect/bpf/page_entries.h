/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Tables with an entry for so many pages of a file in a row: owners of dirty pages (calls, io), and pages that were read
 * ahead. Entries have a lock and a key. The key is zero until the maker has set it, and its mapping is zero just before
 * the entry leaves the table. An entry that has left is reused at once: code that had looked it up before sees by the
 * key that it is another one.
 */
#ifndef WEIGH_PAGE_ENTRIES_H
#define WEIGH_PAGE_ENTRIES_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

struct pages_key {
	__u64 mapping, number;
};

/* Whether the entry is the one that was looked for. Its lock is held. */
static __always_inline bool is_key(const struct pages_key *of_entry, const struct pages_key *key)
{
	return of_entry->mapping == key->mapping && of_entry->number == key->number;
}

/* A new entry; the error of that. Entries in the table are counted: with none, nothing has to be looked for. */
#define new_entry_of_pages(table, key, blank, live)                                                \
	({                                                                                         \
		int error_ = bpf_map_update_elem(table, key, (void *)(blank), BPF_NOEXIST);        \
                                                                                                   \
		if (!error_)                                                                       \
			__sync_fetch_and_add(live, 1);                                             \
		error_;                                                                            \
	})

#define drop_entry_of_pages(table, key, live)                                                      \
	({                                                                                         \
		if (!bpf_map_delete_elem(table, key))                                              \
			__sync_fetch_and_add(live, -1);                                            \
	})

/* Hidden from the verifier, which would follow each value that it can have: read anew at each use. */
#define HIDDEN(place) (*(volatile typeof(place) *)&(place))

#endif
