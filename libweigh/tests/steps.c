/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * For each line of its input: sends 1,001 bytes under token 9, in two threads, and prints
 * `REASON CALLS SENT` of the first's interval and the account. The account's address must not change.
 *
 * usage: steps
 */
#include "check.h"
#include <sys/socket.h>

static int ends[2];
static pthread_barrier_t begun, ended;

static enum weigh_reason step(weigh *w)
{
	static _Thread_local char bytes[1001];
	enum weigh_reason reason = weigh_begin(w, 9, WEIGH_ALL);

	SAME(write(ends[0], bytes, sizeof(bytes)), sizeof(bytes));
	weigh_end(w);
	SAME(read(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
	return reason;
}

static void *second(void *argument)
{
	weigh *w = weigh_open();

	(void)argument;
	for (;;) {
		pthread_barrier_wait(&begun);
		step(w);
		pthread_barrier_wait(&ended);
	}
	return 0;
}

int main(void)
{
	const struct weigh_account *account = 0;
	weigh *w = weigh_open();
	pthread_t thread;
	char line[16];

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	CHECK(!pthread_barrier_init(&begun, 0, 2) && !pthread_barrier_init(&ended, 0, 2));
	CHECK(!pthread_create(&thread, 0, second, 0));
	while (fgets(line, sizeof(line), stdin)) {
		enum weigh_reason reason = step(w);
		const struct weigh_account *now;

		pthread_barrier_wait(&begun);
		pthread_barrier_wait(&ended);
		now = weigh_read(w, 9);
		CHECK(now && (!account || now == account));
		account = now;
		printf("%d %" PRIu64 " %" PRIu64 "\n", (int)reason, (uint64_t)account->calls,
		       (uint64_t)account->socket.sent_bytes);
		fflush(stdout);
	}
	return 0;
}
