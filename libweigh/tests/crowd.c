/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * More accounts write to the same pages than can be told apart: some have their bytes, the others say that theirs
 * are missing, and to nobody do they look like pages of a program that is not followed.
 *
 * usage: crowd FOLDER
 */
#include "check.h"
#include <fcntl.h>

#define PAGE 4096
#define PAGES 3
#define TOKENS 40
#define SYNCS 99

int main(int count, char **arguments)
{
	uint64_t wanted = bit(WEIGH_PAGECACHE) | bit(WEIGH_BLOCK), owners = 0, written = 0;
	const struct weigh_account *account;
	char path[4096], bytes[77] = { 1 };
	weigh *w;
	int file;

	CHECK(count == 2);
	snprintf(path, sizeof(path), "%s/crowd-%d", arguments[1], (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	w = measured();
	for (int token = 0; token < TOKENS; token++) {
		CHECK(!weigh_begin(w, (uint64_t)token, wanted));
		for (int page = 0; page < PAGES; page++)
			SAME(pwrite(file, bytes, sizeof(bytes), page * PAGE + token * 77), sizeof(bytes));
		weigh_end(w);
	}
	CHECK(!weigh_begin(w, SYNCS, wanted));
	CHECK(!fsync(file));
	weigh_end(w);
	for (int token = 0; token < TOKENS; token++) {
		account = weigh_read(w, (uint64_t)token);
		for (int i = 0; i < 3000 && !weigh_settled(w, (uint64_t)token); i++)
			usleep(10000);
		SAME(weigh_settled(w, (uint64_t)token), 1);
		if (account->later.lost) {
			SAME(account->later.lost, PAGES);
			SAME(account->later.block_written_bytes, 0);
			continue;
		}
		/* Each wrote as much as the others. */
		CHECK(account->later.block_written_bytes >= PAGES * (PAGE / TOKENS));
		written += account->later.block_written_bytes;
		owners++;
	}
	CHECK(owners >= 18 && owners < TOKENS);
	CHECK(written < PAGES * PAGE);
	account = weigh_read(w, SYNCS);
	SAME(account->block.foreign_bytes + account->later.block_foreign_bytes, 0);
	CHECK(!unlink(path));
	weigh_close(w);
	return 0;
}
