/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A region with an account of its system calls; another one with an account inside of it; and the same in two threads.
 *
 * usage: regions_account
 */
#include "profile.h"
#include <weigh_region.h>

static int ends[2];
static char zeros[4096];

static void send_bytes(size_t bytes)
{
	SAME(write(ends[0], zeros, bytes), bytes);
	SAME(read(ends[1], zeros, sizeof(zeros)), bytes);
}

/* Each thread has an account of its own, though both are in the region at once. */
static void *of_a_thread(void *profile)
{
	int own[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, own));
	for (int i = 0; i < 9; i++) {
		WEIGH_REGION("outer");
		SAME(write(own[0], zeros, 17), 17);
		usleep(1000);
	}
	SAME(account_of(profile, REGION(profile, "outer"))->socket.sent_bytes, 9 * 17);
	return 0;
}

int main(int count, char **arguments)
{
	int listener = listener_of_this(arguments);
	pthread_t thread;
	struct profile p;

	(void)count;
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	SAME(weigh_region_account(weigh_region_name("outer"), WEIGH_ALL), 0);
	SAME(weigh_region_account(weigh_region_name("inner"), WEIGH_ALL), 0);
	CHECK(receive_profile(listener, &p));
	send_bytes(7);
	CHECK(!pthread_create(&thread, 0, of_a_thread, &p));
	for (int i = 0; i < 5; i++) {
		WEIGH_REGION("outer");
		send_bytes(101);
		WEIGH_BEGIN("inner");
		send_bytes(53);
		WEIGH_END("inner");
		WEIGH_REGION("without");
		send_bytes(11);
	}
	SAME(account_of(&p, REGION(&p, "outer"))->socket.sent_bytes, 5 * 112);
	SAME(account_of(&p, REGION(&p, "outer", "inner"))->socket.sent_bytes, 5 * 53);
	SAME(account_of(&p, REGION(&p, "outer", "inner"))->calls, 5);
	SAME(calls_of(&p, REGION(&p, "outer", "without")), 5);
	SAME(node_at(&p, REGION(&p, "outer", "without"))[NODE_AT_COSTS], 0);
	CHECK(!pthread_join(thread, 0));
	return 0;
}
