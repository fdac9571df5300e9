/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counts accesses by the rules that BPF programs and the preload library share.
 *
 * Standard input: of each file, how many accesses, then so many of struct access. Standard output: of each file,
 * struct io_numbers and both of struct io_direction.
 */
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include "io/access_rules.h"

struct access {
	__u64 transfer, wrote, calls, bytes, at, is_placed, is_direct, is_sync;
};

struct file {
	struct io_numbers numbers;
	struct io_direction directions[2];
};

static void count(struct file *file, __u64 *unsynced, const struct access *access)
{
	__u64 called = ~is_equal(access->transfer, IO_MAPPED);
	__u32 wrote = access->wrote;

	if (access->is_sync) {
		count_sync(&file->numbers, *unsynced);
		*unsynced = 0;
		return;
	}
	count_moved(&file->numbers, access->transfer, called, &wrote, access->calls, &access->bytes);
	*unsynced += wrote ? access->bytes : 0;
	count_direct(&file->numbers, access->is_direct, access->is_placed, access->at, access->bytes);
	if (access->is_placed && called)
		place_access(&file->numbers, file->directions, &wrote, &access->at, &access->bytes);
}

int main(void)
{
	struct access access;
	struct file file;
	__u64 accesses, unsynced;

	while (fread(&accesses, sizeof(accesses), 1, stdin) == 1) {
		memset(&file, 0, sizeof(file));
		for (unsynced = 0; accesses; accesses--) {
			if (fread(&access, sizeof(access), 1, stdin) != 1)
				return 1;
			count(&file, &unsynced, &access);
		}
		if (fwrite(&file, sizeof(file), 1, stdout) != 1)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
