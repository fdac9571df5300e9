/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What of nothing was measured has not settled: it is not known. Nobody waits for it in vain, whether there is an
 * agent or not.
 *
 * usage: unmeasured		says `alone` when it has looked without an agent; goes on with an agent after a line
 */
#include "check.h"
#include <poll.h>
#include <sys/socket.h>

static int told;

static void settled(uint64_t token, const struct weigh_account *account, void *data)
{
	(void)data;
	SAME(token, 5);
	CHECK(account);
	told++;
}

static enum weigh_reason send_one(weigh *w, uint64_t token, uint64_t wanted)
{
	enum weigh_reason reason = weigh_begin(w, token, wanted);
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	SAME(write(ends[0], "x", 1), 1);
	weigh_end(w);
	close(ends[0]);
	close(ends[1]);
	return reason;
}

int main(void)
{
	weigh *w = weigh_open();
	struct pollfd wait = { .events = POLLIN };
	char line[16];

	/* Nobody has heard of it, nobody measured it, it was given back. */
	SAME(weigh_settled(w, 4), -1);
	SAME(send_one(w, 5, WEIGH_ALL), WEIGH_NO_SERVER);
	SAME(send_one(w, 6, bit(WEIGH_SOCKET)), WEIGH_NO_SERVER);
	SAME(weigh_settled(w, 5), -1);
	SAME(weigh_settled(w, 6), -1);
	SAME(weigh_watch(w, 5), WEIGH_NO_SERVER);
	SAME(weigh_descriptor(w), -1);
	SAME(weigh_dispatch(w, settled, 0), 0);
	SAME(weigh_release(w, 6), WEIGH_NO_SERVER);
	SAME(weigh_settled(w, 6), -1);
	puts("alone");
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
	for (int i = 0; i < 100 && send_one(w, 7, bit(WEIGH_SOCKET)); i++)
		usleep(100000);
	SAME(send_one(w, 6, bit(WEIGH_SOCKET)), WEIGH_MEASURED);
	SAME(weigh_settled(w, 6), 1);
	/* A part of it is enough. */
	SAME(send_one(w, 8, bit(WEIGH_SOCKET) | bit(WEIGH_KERNEL)), WEIGH_MEASURED);
	SAME(weigh_settled(w, 8), 1);
	/* So is a part that was looked into and saw nothing. */
	for (uint64_t token = 10; token < 30; token++) {
		SAME(weigh_begin(w, token, bit(WEIGH_SOCKET)), WEIGH_MEASURED);
		weigh_end(w);
		SAME(weigh_settled(w, token), 1);
	}
	/* And what is seen without being wanted. */
	SAME(weigh_begin(w, 30, 0), WEIGH_MEASURED);
	usleep(1000);
	weigh_end(w);
	CHECK(weigh_read(w, 30)->touched & bit(WEIGH_SCHED));
	SAME(weigh_settled(w, 30), 1);
	SAME(weigh_settled(w, 5), -1);
	SAME(weigh_watch(w, 5), WEIGH_MEASURED);
	wait.fd = weigh_descriptor(w);
	CHECK(wait.fd >= 0);
	CHECK(poll(&wait, 1, 5000) == 1);
	SAME(weigh_dispatch(w, settled, 0), 1);
	SAME(told, 1);
	SAME(weigh_settled(w, 5), -1);
	/* What was given back leaves nothing to who gets the account next. */
	SAME(weigh_release(w, 6), WEIGH_MEASURED);
	SAME(weigh_settled(w, 6), -1);
	SAME(weigh_begin(w, 6, bit(WEIGH_KERNEL)), WEIGH_MEASURED);
	weigh_end(w);
	/* The scheduler and interrupts are seen whatever is wanted. */
	CHECK(weigh_read(w, 6)->touched || weigh_settled(w, 6) == -1);
	puts("served");
	return 0;
}
