/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Measures something and waits to be read; or reads it.
 *
 * usage: peer serve          says `ready` when there is something to read, ends with its input
 *        peer read PID       must be able to read it
 *        peer refused PID    must not be
 */
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static int serve(void)
{
	weigh *w = measured();
	char line[16];
	int ends[2];

	CHECK(!pipe(ends));
	for (uint64_t token = 70; token < 73; token++) {
		for (uint64_t i = 0; i < token; i++) {
			CHECK(!weigh_begin(w, token, WEIGH_ALL));
			CHECK(write(ends[1], "x", 1) == 1);
			weigh_end(w);
		}
	}
	CHECK(!weigh_release(w, 71));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		CHECK(!weigh_begin(w, 72, WEIGH_ALL));
		weigh_end(w);
		puts("ready");
		fflush(stdout);
	}
	return 0;
}

static int is_read(pid_t pid)
{
	weigh *w = measured();
	const struct weigh_account *account;
	enum weigh_reason reason;
	uint32_t position = 0;
	int seen = 0;
	weigh_peer *peer = weigh_peer_open(w, pid, &reason);

	SAME(reason, WEIGH_MEASURED);
	CHECK(peer);
	SAME(weigh_peer_read(peer, 70)->calls, 70);
	CHECK(!weigh_peer_read(peer, 71));
	account = weigh_peer_read(peer, 72);
	CHECK(account && account->calls >= 72 && account->time_ns > 0);
	while (weigh_peer_next(peer, &position))
		seen++;
	SAME(seen, 2);
	/* To be read only, whatever is tried. */
	CHECK(mprotect((void *)((uintptr_t)account & ~4095UL), 4096, PROT_READ | PROT_WRITE) == -1 &&
	      errno == EACCES);
	weigh_peer_close(peer);
	CHECK(!weigh_peer_open(w, 1, &reason));
	SAME(reason, WEIGH_NO_PROCESS);
	/* Sixty-four at once, and again when they are closed. */
	for (int round = 0; round < 2; round++) {
		weigh_peer *peers[64];

		for (int i = 0; i < 64; i++)
			CHECK((peers[i] = weigh_peer_open(w, pid, 0)));
		CHECK(!weigh_peer_open(w, pid, &reason));
		SAME(reason, WEIGH_TOO_MANY_PEERS);
		for (int i = 0; i < 64; i++)
			weigh_peer_close(peers[i]);
	}
	return 0;
}

int main(int count, char **arguments)
{
	enum weigh_reason reason;

	CHECK(count >= 2);
	if (!strcmp(arguments[1], "serve"))
		return serve();
	CHECK(count == 3);
	if (!strcmp(arguments[1], "read"))
		return is_read(atoi(arguments[2]));
	CHECK(!weigh_peer_open(measured(), atoi(arguments[2]), &reason));
	SAME(reason, WEIGH_NOT_PERMITTED);
	return 0;
}
