/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Allocations of each part of the kernel: they add up to those of the account, and are there where they were asked for, for
 * as many accounts as there is room for.
 *
 * usage: by_part FOLDER
 */
#include "check.h"
#include <fcntl.h>

#define PAGES 5
#define PAGE 4096
#define ROOM 128

static int file;

static void write_and_sync(weigh *w, uint64_t token, uint64_t wanted)
{
	static char pages[PAGES * PAGE];

	CHECK(!weigh_begin(w, token, wanted));
	SAME(pwrite(file, pages, sizeof(pages), 0), sizeof(pages));
	CHECK(!fsync(file));
	weigh_end(w);
}

static void parts_add_up(const struct weigh_account *a, const struct weigh_parts *p)
{
	struct weigh_by_part sum = { 0 };

	for (int part = 0; part < WEIGH_SUBSYSTEMS; part++) {
		sum.allocations += p->of[part].allocations;
		sum.allocated_bytes += p->of[part].allocated_bytes;
		sum.pages += p->of[part].pages;
	}
	CHECK(sum.allocations > 0);
	SAME(sum.allocations, a->memory.allocations);
	SAME(sum.allocated_bytes, a->memory.allocated_bytes);
	SAME(sum.pages, a->memory.pages);
}

int main(int count, char **arguments)
{
	const struct weigh_account *a;
	const struct weigh_parts *p;
	weigh *w = measured();
	char path[4096];

	CHECK(count == 2);
	snprintf(path, sizeof(path), "%s/by-part-%d", arguments[1], (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0 && !unlink(path));
	write_and_sync(w, 1, WEIGH_ALL | WEIGH_BY_PART);
	a = weigh_read(w, 1);
	p = weigh_read_parts(w, 1);
	CHECK(p && !(a->unmeasured & WEIGH_BY_PART));
	parts_add_up(a, p);
	/* More is added. */
	write_and_sync(w, 1, WEIGH_ALL | WEIGH_BY_PART);
	parts_add_up(a, p);
	write_and_sync(w, 2, WEIGH_ALL);
	CHECK(!weigh_read_parts(w, 2) && weigh_read(w, 2)->memory.allocations);
	CHECK(!weigh_read_parts(w, 3));
	/* With that of token 1. */
	for (uint64_t token = 101; token <= 100 + ROOM; token++) {
		CHECK(!weigh_begin(w, token, bit(WEIGH_MEMORY) | WEIGH_BY_PART));
		weigh_end(w);
	}
	CHECK(weigh_read_parts(w, 99 + ROOM) && !weigh_read_parts(w, 100 + ROOM));
	SAME(weigh_read(w, 100 + ROOM)->unmeasured, WEIGH_BY_PART);
	/* What is given back is there for another. */
	CHECK(!weigh_release(w, 1));
	write_and_sync(w, 4, WEIGH_ALL | WEIGH_BY_PART);
	CHECK(weigh_read_parts(w, 4));
	parts_add_up(weigh_read(w, 4), weigh_read_parts(w, 4));
	return 0;
}
