/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Pages of files: what an interval sends to the device of its own, and of somebody who is not followed; and what finds
 * no room in the kernel side's table, which the account says.
 *
 * usage: pages FOLDER [job]
 *
 * With `job` its calls are followed, too: then each of them is a cause by itself, and not the interval.
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

/*
 * What is written is told once, and so is the device's time for it, whatever the cause is: the interval, which sends its
 * own pages to the device, or a write, whose pages a later fsync sends there, which carries them.
 */
static int once(weigh *w, uint64_t token, int is_job)
{
	const struct weigh_account *account;
	uint64_t shared_queue, shared_device;
	char path[4096];
	int file = new_file("once", path, sizeof(path));

	CHECK(!weigh_begin(w, token, bit(WEIGH_PAGECACHE) | bit(WEIGH_BLOCK)));
	CHECK(pwrite(file, bytes, OWN * PAGE, 0) == OWN * PAGE);
	CHECK(!fsync(file));
	weigh_end(w);
	close(file);
	unlink(path);
	account = weigh_read(w, token);
	shared_queue = account->block.carried_queue_ns + account->later.block_carried_queue_ns;
	shared_device = account->block.carried_device_ns + account->later.block_carried_device_ns;
	CHECK(shared_queue <= account->later.block_queue_ns);
	CHECK(shared_device <= account->later.block_device_ns);
	CHECK(account->block.written_bytes + account->later.block_written_bytes <= OWN * PAGE);
	if (account->block.written_bytes != (is_job ? 0 : OWN * PAGE) ||
	    account->block.carried_bytes != (is_job ? OWN * PAGE : 0) ||
	    account->later.block_written_bytes != account->block.carried_bytes)
		return 0;
	SAME(shared_queue, account->later.block_queue_ns);
	SAME(shared_device, account->later.block_device_ns);
	return account->block.device_ns >= shared_device && (shared_device > 0) == is_job;
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

	CHECK(count == 2 || count == 3);
	folder = arguments[1];
	w = measured();
	for (attempt = 0; !once(w, 50 + (uint64_t)attempt, count == 3); attempt++)
		CHECK(attempt < ATTEMPTS);
	if (count == 3)
		return 0;
	for (attempt = 0; !mixed(w, 100 + (uint64_t)attempt); attempt++)
		CHECK(attempt < ATTEMPTS);
	not_known(w, 200);
	for (attempt = 0; !crowded(w, 300 + (uint64_t)attempt * TOKENS); attempt++)
		CHECK(attempt < ATTEMPTS);
	return 0;
}
