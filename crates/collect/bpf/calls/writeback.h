/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Writing dirty pages back, as far as it is in a call: files that it writes itself, the kernel's
 * writers that it waits for, and its being held back while there is too much that is dirty.
 */
#ifndef WEIGH_CALLS_WRITEBACK_H
#define WEIGH_CALLS_WRITEBACK_H

#include "account.h"

SEC("?tp_btf/writeback_single_inode_start")
int BPF_PROG(writeback__inode_begin)
{
	struct open open;

	if (mine(&open, WEIGH_WRITEBACK))
		add(&open.account->writeback.inodes, 1);
	enter(WEIGH_WRITEBACK);
	return 0;
}

SEC("?tp_btf/writeback_single_inode")
int BPF_PROG(writeback__inode_end)
{
	leave(WEIGH_WRITEBACK);
	return 0;
}

SEC("?tp_btf/ext4_writepages_result")
int BPF_PROG(writeback__pages, struct inode *inode, struct writeback_control *control, int result,
	     int pages)
{
	struct open open;

	if (pages > 0 && mine(&open, WEIGH_WRITEBACK))
		add(&open.account->writeback.pages, pages);
	return 0;
}

SEC("?tp_btf/folio_wait_writeback")
int BPF_PROG(writeback__await)
{
	struct open open;

	if (!mine(&open, WEIGH_WRITEBACK))
		return 0;
	add(&open.account->writeback.awaited, 1);
	open.window->awaits = AWAITS_NOTHING;
	return 0;
}

/* A thread that hands work to the kernel's writers waits until it is done, as sync does. */
SEC("?tp_btf/writeback_queue")
int BPF_PROG(writeback__queue)
{
	struct open open;

	if (mine(&open, WEIGH_WRITEBACK))
		open.window->awaits = AWAITS_WRITER;
	return 0;
}

/* What of the event's record tells which arguments it has: since 6.15 fewer, for limits are in one. */
struct trace_event_raw_balance_dirty_pages {
	unsigned long wb_dirty;
} __attribute__((preserve_access_index));

/* Before the writer pauses, if it is to. */
SEC("?tp_btf/balance_dirty_pages")
int writeback__pause(__u64 *arguments)
{
	struct trace_event_raw_balance_dirty_pages *record = 0;
	struct open open;
	__s64 pause = 0;

	/* Not by the verifier's rules: it would refuse the argument that the kernel lacks. */
	bpf_probe_read_kernel(&pause, sizeof(pause),
			      &arguments[bpf_core_field_exists(record->wb_dirty) ? 6 : 10]);
	if (pause <= 0 || !mine(&open, WEIGH_WRITEBACK))
		return 0;
	add(&open.account->writeback.pauses, 1);
	open.window->awaits = AWAITS_PAUSE;
	return 0;
}

#endif
