/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests of io_uring that threads of the kernel do: their completion, and what they write, is accounted to the
 * interval in which they were handed in.
 *
 * usage: uring FOLDER
 */
#include "check.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define REQUESTS 7
#define BYTES 12345
#define STRIDE 16384
#define PAGES 4 /* of one request */
#define TOKEN 23

static void *map(int ring, size_t bytes, off_t which)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, which);

	CHECK(at != MAP_FAILED);
	return at;
}

int main(int count, char **arguments)
{
	uint64_t wanted = bit(WEIGH_URING) | bit(WEIGH_PAGECACHE) | bit(WEIGH_BLOCK);
	struct io_uring_params p = { 0 };
	const struct weigh_account *account;
	struct io_uring_sqe *requests;
	static char bytes[BYTES];
	uint32_t *places;
	char path[4096];
	char *queue;
	int file, ring;
	weigh *w;

	CHECK(count == 2);
	snprintf(path, sizeof(path), "%s/uring-%d", arguments[1], (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	ring = (int)syscall(SYS_io_uring_setup, 8, &p);
	CHECK(ring >= 0);
	queue = map(ring, p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	requests = map(ring, p.sq_entries * sizeof(*requests), IORING_OFF_SQES);
	places = (uint32_t *)(void *)(queue + p.sq_off.array);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		requests[i] = (struct io_uring_sqe){
			.opcode = IORING_OP_WRITE,
			.flags = IOSQE_ASYNC,
			.fd = file,
			.addr = (uint64_t)(uintptr_t)bytes,
			.len = BYTES,
			.off = (uint64_t)i * STRIDE,
		};
		places[i] = i;
	}
	atomic_store((_Atomic uint32_t *)(void *)(queue + p.sq_off.tail), REQUESTS);
	w = measured();
	CHECK(!weigh_begin(w, TOKEN, wanted));
	SAME(syscall(SYS_io_uring_enter, ring, REQUESTS, 0, 0, NULL, 0), REQUESTS);
	weigh_end(w);
	SAME(syscall(SYS_io_uring_enter, ring, 0, REQUESTS, IORING_ENTER_GETEVENTS, NULL, 0), 0);
	CHECK(!fsync(file));
	account = weigh_read(w, TOKEN);
	for (int i = 0; i < 3000 && !weigh_settled(w, TOKEN); i++)
		usleep(10000);
	SAME(weigh_settled(w, TOKEN), 1);
	SAME(account->uring.submitted, REQUESTS);
	SAME(account->uring.completed + account->later.uring_requests, REQUESTS);
	SAME(account->block.written_bytes + account->later.block_written_bytes, REQUESTS * PAGES * 4096);
	SAME(account->later.lost, 0);
	CHECK(!unlink(path));
	weigh_close(w);
	return 0;
}
