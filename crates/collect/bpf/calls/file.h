/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Page cache and file system.
 */
#ifndef WEIGH_CALLS_FILE_H
#define WEIGH_CALLS_FILE_H

#include "account.h"
#include "../folio.h"

SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(pagecache__add, struct folio *folio)
{
	struct open open;

	if (mine(&open, WEIGH_PAGECACHE))
		add(&open.account->pagecache.added_pages, pages_of(folio));
	return 0;
}

#define FILE_SYSTEM_PAIR(name, first, last)                                                        \
	SEC("?tp_btf/" first)                                                                      \
	int BPF_PROG(fs__##name##_begin)                                                           \
	{                                                                                          \
		enter(WEIGH_FS);                                                                   \
		return 0;                                                                          \
	}                                                                                          \
	SEC("?tp_btf/" last)                                                                       \
	int BPF_PROG(fs__##name##_end)                                                             \
	{                                                                                          \
		leave(WEIGH_FS);                                                                   \
		return 0;                                                                          \
	}

FILE_SYSTEM_PAIR(sync, "ext4_sync_file_enter", "ext4_sync_file_exit")
FILE_SYSTEM_PAIR(map, "ext4_ext_map_blocks_enter", "ext4_ext_map_blocks_exit")
FILE_SYSTEM_PAIR(truncate, "ext4_truncate_enter", "ext4_truncate_exit")
FILE_SYSTEM_PAIR(fallocate, "ext4_fallocate_enter", "ext4_fallocate_exit")
FILE_SYSTEM_PAIR(writepages, "ext4_writepages", "ext4_writepages_result")
FILE_SYSTEM_PAIR(unlink, "ext4_unlink_enter", "ext4_unlink_exit")

#endif
