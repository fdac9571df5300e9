/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Pages of files: what an interval sends to the device of its own, and of somebody who is not followed; and what finds
 * no room in the kernel side's table, which the account says.
 *
 * usage: pages FOLDER
 */
#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>

#define PAGE 4096
#define OTHERS 23
#define OWN 7
/* So many owners of sixteen pages in a row are told apart, each token is one; all that come after have the last place. */
#define OWNERS 19
#define TOKENS (OWNERS + 4)
#define ATTEMPTS 3

static const char *folder;
static char bytes[OTHERS * PAGE];

static int new_file(const char *name, char *path, size_t room)
{
	int file;

	snprintf(path, room, "%s/%s-%d", folder, name, (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	return file;
}

static void written_by_a_child(int file)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		_exit(pwrite(file, bytes, OTHERS * PAGE, 0) != OTHERS * PAGE);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A child's pages, and the interval's own behind them. */
static const struct weigh_account *write_and_sync(weigh *w, uint64_t token, uint64_t parts)
{
	char path[4096];
	int file = new_file("mixed", path, sizeof(path));

	written_by_a_child(file);
	CHECK(!weigh_begin(w, token, parts));
	CHECK(pwrite(file, bytes, OWN * PAGE, 64 * PAGE) == OWN * PAGE);
	CHECK(!fsync(file));
	weigh_end(w);
	close(file);
	unlink(path);
	return weigh_read(w, token);
}

/* Whether nobody else has had the pages written, or taken the interrupt at which they were done. */
static int mixed(weigh *w, uint64_t token)
{
	const struct weigh_account *account =
		write_and_sync(w, token, bit(WEIGH_PAGECACHE) | bit(WEIGH_BLOCK));

	CHECK(account->block.foreign_bytes <= OTHERS * PAGE);
	CHECK(account->block.written_bytes <= OWN * PAGE);
	CHECK(account->block.foreign_requests <= account->block.requests);
	CHECK(!account->block.foreign_bytes == !account->block.foreign_requests);
	SAME(account->block.carried_bytes, 0);
	SAME(account->later.block_foreign_bytes, 0);
	return account->block.foreign_bytes == OTHERS * PAGE &&
	       account->block.written_bytes == OWN * PAGE;
}

/* Whose pages they are is not known without the page cache: not its own, and not anybody else's. */
static void not_known(weigh *w, uint64_t token)
{
	const struct weigh_account *account = write_and_sync(w, token, bit(WEIGH_BLOCK));

	CHECK(account->block.requests > 0);
	SAME(account->block.foreign_requests, 0);
	SAME(account->block.foreign_bytes, 0);
}

/* Each of so many tokens writes to the same sixteen pages. */
static int crowded(weigh *w, uint64_t first)
{
	char path[4096];
	int file = new_file("crowded", path, sizeof(path));
	uint64_t lost = 0;

	for (uint64_t i = 0; i < TOKENS; i++) {
		CHECK(!weigh_begin(w, first + i, bit(WEIGH_PAGECACHE) | bit(WEIGH_BLOCK)));
		CHECK(pwrite(file, bytes, PAGE / 2, (off_t)i * PAGE / 2) == PAGE / 2);
		weigh_end(w);
	}
	for (uint64_t i = 0; i < TOKENS; i++) {
		uint64_t its = weigh_read(w, first + i)->later.lost;

		CHECK(its <= (i >= OWNERS));
		lost += its;
	}
	close(file);
	unlink(path);
	return lost == TOKENS - OWNERS;
}

int main(int count, char **arguments)
{
	int attempt;
	weigh *w;

	CHECK(count == 2);
	folder = arguments[1];
	w = measured();
	for (attempt = 0; !mixed(w, 100 + (uint64_t)attempt); attempt++)
		CHECK(attempt < ATTEMPTS);
	not_known(w, 200);
	for (attempt = 0; !crowded(w, 300 + (uint64_t)attempt * TOKENS); attempt++)
		CHECK(attempt < ATTEMPTS);
	return 0;
}
