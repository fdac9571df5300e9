/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writes that end after the interval in which they were begun, by asynchronous I/O: every byte is
 * accounted either in the interval or later, and the program is told when all of it is. Where others
 * use the processors, too, the disk may be done before the interval ends: it is tried until one write
 * has outlasted its interval.
 *
 * usage: deferred_writes FOLDER
 */
#include "check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/syscall.h>

#define BYTES (5 * 4096)
#define TOKENS 13
#define MOST_ROUNDS 200

static int told;
static uint64_t told_tokens;

static void settled(uint64_t token, const struct weigh_account *account, void *data)
{
	CHECK(data == &told);
	CHECK(token >= 40 && token < 40 + TOKENS);
	SAME(account->later.pending, 0);
	told_tokens |= 1ULL << (token - 40);
	told++;
}

static void submit(aio_context_t context, int file, void *bytes, int place)
{
	struct iocb request = {
		.aio_fildes = (uint32_t)file,
		.aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_buf = (uint64_t)(uintptr_t)bytes,
		.aio_nbytes = BYTES,
		.aio_offset = (int64_t)place * BYTES,
	};
	struct iocb *requests = &request;

	SAME(syscall(SYS_io_submit, context, 1, &requests), 1);
}

/* Measures one write for each token, and waits until all of it is accounted. */
static void round_of_writes(weigh *w, aio_context_t context, int file, void *bytes)
{
	struct pollfd wait = { .events = POLLIN };
	struct io_event ended[TOKENS];

	told = 0;
	told_tokens = 0;
	for (int i = 0; i < TOKENS; i++) {
		CHECK(!weigh_begin(w, 40 + (uint64_t)i, bit(WEIGH_BLOCK)));
		submit(context, file, bytes, i);
		weigh_end(w);
		CHECK(!weigh_watch(w, 40 + (uint64_t)i));
	}
	wait.fd = weigh_descriptor(w);
	CHECK(wait.fd >= 0);
	while (told < TOKENS) {
		CHECK(poll(&wait, 1, 10000) == 1);
		weigh_dispatch(w, settled, &told);
	}
	SAME(told_tokens, (1ULL << TOKENS) - 1);
	SAME(weigh_dispatch(w, settled, &told), 0);
	SAME(syscall(SYS_io_getevents, context, TOKENS, TOKENS, ended, NULL), TOKENS);
}

/* How many bytes came after their interval, of so many rounds; each byte is in one of the two. */
static uint64_t late_bytes(weigh *w, uint64_t rounds)
{
	uint64_t late = 0;

	for (int i = 0; i < TOKENS; i++) {
		const struct weigh_account *account = weigh_read(w, 40 + (uint64_t)i);

		SAME(weigh_settled(w, 40 + (uint64_t)i), 1);
		SAME(account->block.transferred_bytes + account->later.block_bytes, rounds * BYTES);
		/* One for each extent that the file system gave. */
		CHECK(account->block.requests + account->later.block_requests >= rounds);
		late += account->later.block_bytes;
	}
	return late;
}

int main(int count, char **arguments)
{
	aio_context_t context = 0;
	char path[4096];
	uint64_t rounds = 0, late;
	struct pollfd wait;
	void *bytes;
	weigh *w;
	int file;

	CHECK(count == 2);
	snprintf(path, sizeof(path), "%s/later-%d", arguments[1], (int)getpid());
	CHECK(!posix_memalign(&bytes, 4096, BYTES));
	memset(bytes, 5, BYTES);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	CHECK(file >= 0);
	/* Written once before, so that the file system has nothing of its own to write. */
	for (int i = 0; i < TOKENS; i++)
		SAME(pwrite(file, bytes, BYTES, (off_t)i * BYTES), BYTES);
	CHECK(!fsync(file));
	CHECK(!syscall(SYS_io_setup, TOKENS, &context));
	w = measured();
	do {
		round_of_writes(w, context, file, bytes);
		late = late_bytes(w, ++rounds);
	} while (!late && disk_takes_time() && rounds < MOST_ROUNDS);
	CHECK(late > 0 || !disk_takes_time());
	/* Once more, when nobody has looked for a while. */
	sleep(1);
	CHECK(!weigh_watch(w, 40));
	wait = (struct pollfd){ .fd = weigh_descriptor(w), .events = POLLIN };
	CHECK(poll(&wait, 1, 10000) == 1);
	SAME(weigh_dispatch(w, settled, &told), 1);
	unlink(path);
	return 0;
}
