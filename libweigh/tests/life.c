/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Forks, execs, threads that end in all ways, more tokens than there are.
 *
 * usage: life
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int ends[2];
static char zeros[4096];

static void send_under(weigh *w, uint64_t token, size_t bytes)
{
	CHECK(!weigh_begin(w, token, WEIGH_ALL));
	SAME(write(ends[0], zeros, bytes), bytes);
	weigh_end(w);
	SAME(read(ends[1], zeros, sizeof(zeros)), bytes);
}

static void child_succeeds(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	SAME(status, 0);
}

static void forks(weigh *w, char *self)
{
	const struct weigh_account *account;
	pid_t child;

	send_under(w, 1, 101);
	CHECK(!weigh_begin(w, 1, WEIGH_ALL));
	child = fork();
	if (!child) {
		/* The interval that is open is the parent's. */
		SAME(write(ends[0], zeros, 999), 999);
		SAME(read(ends[1], zeros, sizeof(zeros)), 999);
		SAME(weigh_begin(w, 1, WEIGH_ALL), WEIGH_FORKED);
		SAME(weigh_end(w), WEIGH_FORKED);
		SAME(weigh_watch(w, 1), WEIGH_FORKED);
		CHECK(!weigh_read(w, 1));
		CHECK(weigh_why(w));
		weigh_close(w);
		w = measured();
		CHECK(!weigh_read(w, 1));
		send_under(w, 1, 53);
		SAME(weigh_read(w, 1)->socket.sent_bytes, 53);
		exit(0);
	}
	child_succeeds(child);
	SAME(write(ends[0], zeros, 7), 7);
	weigh_end(w);
	account = weigh_read(w, 1);
	SAME(account->socket.sent_bytes, 108);
	SAME(account->calls, 2);
	SAME(read(ends[1], zeros, sizeof(zeros)), 7);
	/* An exec while an interval is open: the program that comes begins with nothing. */
	child = fork();
	if (!child) {
		w = measured();
		CHECK(!weigh_begin(w, 1, WEIGH_ALL));
		execl(self, self, "again", (char *)0);
		_exit(3);
	}
	child_succeeds(child);
	SAME(account->socket.sent_bytes, 108);
}

static void *ends_in_a_call(void *way)
{
	weigh *w = measured();
	char byte;

	CHECK(!weigh_begin(w, 2, WEIGH_ALL));
	if (!way)
		return 0;
	if (way == (void *)1)
		pthread_exit(0);
	if (way == (void *)2)
		for (;;)
			CHECK(read(ends[0], &byte, 1) >= 0);
	syscall(SYS_exit, 0);
	return 0;
}

static void threads_end(void)
{
	pthread_t thread;

	for (intptr_t round = 0; round < 30; round++) {
		intptr_t way = round % 3;

		CHECK(!pthread_create(&thread, 0, ends_in_a_call, (void *)way));
		if (way == 2) {
			usleep(2000);
			CHECK(!pthread_cancel(thread));
		}
		CHECK(!pthread_join(thread, 0));
	}
}

/* A thread that ends without a word leaves its slot, until no other is free. */
static void *ends_without_a_word(void *argument)
{
	(void)argument;
	measured();
	syscall(SYS_exit, 0);
	return 0;
}

static void *sends_nine(void *argument)
{
	(void)argument;
	send_under(measured(), 4, 9);
	return 0;
}

static void *opens_and_closes(void *argument)
{
	weigh *w = measured();
	char bytes[1];
	int own[2];

	(void)argument;
	CHECK(weigh_open() == w);
	weigh_close(w);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, own));
	CHECK(!weigh_begin(w, 3, WEIGH_ALL));
	CHECK(write(own[0], "x", 1) == 1);
	weigh_end(w);
	CHECK(read(own[1], bytes, 1) == 1);
	weigh_close(w);
	close(own[0]);
	close(own[1]);
	return 0;
}

static void two_thousand_threads(weigh *w)
{
	enum { AT_ONCE = 100, TIMES = 20 };
	static pthread_t threads[AT_ONCE];

	for (int i = 0; i < TIMES; i++) {
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_create(&threads[j], 0, opens_and_closes, 0));
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_join(threads[j], 0));
	}
	SAME(weigh_read(w, 3)->calls, AT_ONCE * TIMES);
	SAME(weigh_read(w, 3)->socket.sent_bytes, AT_ONCE * TIMES);
}

/* As many as there are slots, so that the next thread must get that of a dead one. */
static void slots_of_the_dead(void)
{
	pthread_attr_t small;
	pthread_t thread;
	weigh *w;

	pthread_attr_init(&small);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	CHECK(!pthread_attr_setstacksize(&small, 65536));
	/* Few at a time: what such a thread leaves of the C library's is never given back. */
	for (int i = 0; i < WEIGH_THREADS; i++) {
		CHECK(!pthread_create(&thread, &small, ends_without_a_word, 0));
		if (i % 50 == 0)
			usleep(20000);
	}
	usleep(300000);
	CHECK(!pthread_create(&thread, 0, sends_nine, 0));
	CHECK(!pthread_join(thread, 0));
	w = measured();
	SAME(weigh_read(w, 4)->socket.sent_bytes, 9);
	weigh_close(w);
}

static void tokens_run_out(weigh *w)
{
	uint64_t token, taken = 0;

	for (token = 10000; !weigh_begin(w, token, WEIGH_ALL); token++) {
		weigh_end(w);
		taken++;
	}
	CHECK(taken > 900 && taken <= WEIGH_ACCOUNTS);
	SAME(weigh_begin(w, token, WEIGH_ALL), WEIGH_NO_ACCOUNT);
	SAME(weigh_refused(w), 2);
	SAME(weigh_end(w), WEIGH_NOT_OPEN);
	CHECK(!weigh_read(w, token));
	SAME(weigh_release(w, token), WEIGH_NO_TOKEN);
	SAME(weigh_release(w, 10007), WEIGH_MEASURED);
	send_under(w, token, 31);
	SAME(weigh_read(w, token)->socket.sent_bytes, 31);
	SAME(weigh_read(w, token)->calls, 1);
	for (uint64_t used = 10000; used <= token; used++)
		SAME(weigh_release(w, used), used == 10007 ? WEIGH_NO_TOKEN : WEIGH_MEASURED);
	/* A token for each request, many times over. */
	for (uint64_t request = 1; request < 100000; request++) {
		CHECK(!weigh_begin(w, request << 20, bit(WEIGH_BLOCK)));
		weigh_end(w);
		SAME(weigh_read(w, request << 20)->calls, 1);
		CHECK(!weigh_release(w, request << 20));
	}
}

static void misuse(weigh *w)
{
	SAME(weigh_end(w), WEIGH_NOT_OPEN);
	CHECK(!weigh_begin(w, 5, WEIGH_ALL));
	SAME(weigh_begin(w, 6, WEIGH_ALL), WEIGH_BUSY);
	SAME(weigh_end(w), WEIGH_MEASURED);
	CHECK(!weigh_read(w, 6));
	SAME(weigh_settled(w, 6), -1);
	SAME(weigh_watch(w, 6), WEIGH_NO_TOKEN);
	CHECK(weigh_open() == w);
	weigh_close(w);
	CHECK(!weigh_why(w));
	weigh_close(w);
	SAME(weigh_begin(w, 5, WEIGH_ALL), WEIGH_CLOSED);
	CHECK(weigh_why(w));
	CHECK(weigh_open() == w);
	CHECK(!strcmp(weigh_text((enum weigh_reason)12345), "unknown"));
}

/* A daemon closes all that is open; what it opens then must not be taken for the agent. */
static void closes_everything(weigh *w)
{
	int file;

	CHECK(!close_range(3, ~0U, 0));
	while ((file = open("/dev/zero", O_RDWR)) < 20)
		CHECK(file >= 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	sleep(2);
	weigh_begin(w, 7, WEIGH_ALL);
	weigh_end(w);
	CHECK(!weigh_why(w));
	send_under(w, 8, 19);
	SAME(weigh_read(w, 8)->socket.sent_bytes, 19);
	for (int i = 3; i < 20; i++)
		CHECK(read(i, zeros, 1) == 1);
}

int main(int count, char **arguments)
{
	weigh *w;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	w = measured();
	if (count == 2) {
		send_under(w, 1, 3);
		SAME(weigh_read(w, 1)->socket.sent_bytes, 3);
		SAME(weigh_read(w, 1)->calls, 1);
		return 0;
	}
	misuse(w);
	forks(w, arguments[0]);
	threads_end();
	two_thousand_threads(w);
	slots_of_the_dead();
	tokens_run_out(w);
	closes_everything(w);
	return 0;
}
