/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Wants and uses what its input says; each line is answered by one.
 *
 * usage: parts FOLDER
 *
 *	want PARTS		weigh_want(); REASON
 *	use PARTS		an interval that sends 1,003 bytes and reads a block past the page cache, under a
 *				new token; REASON TOUCHED UNMEASURED SENT BLOCKS
 *	write PARTS		an interval that writes five pages, which stay in memory; PENDING
 *	pending			PENDING of that
 *	settle			writes them to the device; PENDING BYTES of what came later
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>

#define PAGE 4096

static int ends[2], file, past_cache;
static uint64_t token;
static void *block;

static void use(weigh *w, uint64_t parts)
{
	static char bytes[1003];
	const struct weigh_account *account;
	enum weigh_reason reason = weigh_begin(w, ++token, parts);

	SAME(write(ends[0], bytes, sizeof(bytes)), sizeof(bytes));
	SAME(pread(past_cache, block, PAGE, 0), PAGE);
	weigh_end(w);
	SAME(read(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
	account = weigh_read(w, token);
	printf("%d %" PRIx64 " %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", (int)reason,
	       (uint64_t)account->touched, (uint64_t)account->unmeasured,
	       (uint64_t)account->socket.sent_bytes, (uint64_t)account->block.transferred_bytes / PAGE);
}

int main(int count, char **arguments)
{
	static char pages[5 * PAGE];
	char line[64], path[4096];
	weigh *w = measured();

	CHECK(count == 2);
	snprintf(path, sizeof(path), "%s/parts-%d", arguments[1], (int)getpid());
	CHECK(!posix_memalign(&block, PAGE, PAGE));
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	/* So that the file system has nothing of its own to write afterwards. */
	memset(pages, 1, sizeof(pages));
	SAME(write(file, pages, sizeof(pages)), sizeof(pages));
	CHECK(!fsync(file));
	past_cache = open(path, O_RDONLY | O_DIRECT);
	CHECK(past_cache >= 0 && !unlink(path));
	while (fgets(line, sizeof(line), stdin)) {
		char *parts = strchr(line, ' ');
		uint64_t wanted = parts ? strtoull(parts, 0, 16) : 0;

		switch (line[0] == 'w' ? line[1] : line[0]) {
		case 'a':
			printf("%d\n", (int)weigh_want(w, wanted));
			break;
		case 'u':
			use(w, wanted);
			break;
		case 'r':
			CHECK(!weigh_begin(w, ++token, wanted));
			SAME(pwrite(file, pages, sizeof(pages), 0), sizeof(pages));
			weigh_end(w);
			printf("%" PRIu64 "\n", (uint64_t)weigh_read(w, token)->later.pending);
			break;
		case 'p':
			printf("%" PRIu64 "\n", (uint64_t)weigh_read(w, token)->later.pending);
			break;
		case 's':
			CHECK(!fsync(file));
			printf("%" PRIu64 " %" PRIu64 "\n", (uint64_t)weigh_read(w, token)->later.pending,
			       (uint64_t)weigh_read(w, token)->later.block_bytes);
			break;
		}
		fflush(stdout);
	}
	return 0;
}
