/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Odd amounts under several tokens from several threads; each account must have them to the byte.
 *
 * usage: exact FOLDER ROUNDS [follows|job]
 */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define THREADS 7
#define ALL_OF_THEM 1000 /* the token that all threads share */
#define BLOCK 4096
#define FETCHED (3 * BLOCK)
#define FETCHES 11
#define MOST_ATTEMPTS 50

static int rounds;
static int file;

static void connect_pair(int pair[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&address, &length));
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(pair[0], (struct sockaddr *)&address, sizeof(address)));
	pair[1] = accept(listener, 0, 0);
	CHECK(pair[1] >= 0);
	close(listener);
	/* Small writes are not to wait for each other. */
	for (int i = 0; i < 2; i++)
		CHECK(!setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)));
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void take(int socket, size_t bytes)
{
	char buffer[8192];

	while (bytes) {
		ssize_t got = read(socket, buffer, bytes < sizeof(buffer) ? bytes : sizeof(buffer));

		CHECK(got > 0);
		bytes -= (size_t)got;
	}
}

/* Sends under its own token, receives under all threads', and something else under none. */
static void *talk(void *argument)
{
	uint64_t number = (uint64_t)(uintptr_t)argument;
	size_t bytes = 1009 + 2 * number;
	static char zeros[8192];
	weigh *w = measured();
	int pair[2];

	connect_pair(pair);
	for (int i = 0; i < rounds; i++) {
		SAME(WEIGH_CALL(w, number, WEIGH_ALL, write(pair[0], zeros, bytes)), bytes);
		SAME(weigh_begin(w, ALL_OF_THEM, bit(WEIGH_SOCKET)), WEIGH_MEASURED);
		take(pair[1], bytes);
		SAME(weigh_end(w), WEIGH_MEASURED);
		SAME(write(pair[0], zeros, 501), 501);
		take(pair[1], 501);
		CHECK(weigh_next(w, number + 100, WEIGH_ALL) == WEIGH_MEASURED);
		SAME(write(pair[1], zeros, 77), 77);
		CHECK(weigh_next_n(w, number + 200, WEIGH_ALL, 2) == WEIGH_MEASURED);
		SAME(write(pair[1], zeros, 33), 33);
		SAME(write(pair[1], zeros, 34), 34);
		CHECK(weigh_read(w, number + 200));
		take(pair[0], 77 + 33 + 34);
	}
	SAME(weigh_read(w, number)->socket.sent_bytes, bytes * (size_t)rounds);
	SAME(weigh_read(w, number)->socket.received_bytes, 0);
	SAME(weigh_read(w, number)->calls, rounds);
	SAME(weigh_read(w, number + 100)->socket.sent_bytes, 77 * rounds);
	SAME(weigh_read(w, number + 100)->calls, rounds);
	SAME(weigh_read(w, number + 200)->socket.sent_bytes, 67 * rounds);
	SAME(weigh_read(w, number + 200)->calls, 2 * rounds);
	SAME(weigh_read(w, number + 200)->socket.received_bytes, 0);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* How often this thread gave up the processor because it had to wait. */
static long waits_so_far(void)
{
	struct rusage used;

	CHECK(!getrusage(RUSAGE_THREAD, &used));
	return used.ru_nvcsw;
}

/*
 * Past the page cache, so that what is read is what the device brought. Says how many requests are missing: a kernel may
 * pass over programs in an interrupt that comes while another one runs. Then the request stays pending: it is missing
 * where it should be, and nowhere else. Work and timers that the kernel began for a request may pend beside it.
 */
static size_t missing_of_fetched(weigh *w, uint64_t token, char *buffer)
{
	const struct weigh_account *account;
	size_t done = 0, missed;
	long waits = 0;

	for (int i = 0; i < FETCHES; i++) {
		CHECK(weigh_begin(w, token, bit(WEIGH_BLOCK)) == WEIGH_MEASURED);
		waits -= waits_so_far();
		SAME(pread(file, buffer, FETCHED, (off_t)done), FETCHED);
		waits += waits_so_far();
		weigh_end(w);
		done += FETCHED;
	}
	account = weigh_read(w, token);
	CHECK(account->block.requests <= FETCHES);
	missed = FETCHES - account->block.requests;
	SAME(account->block.transferred_bytes, done - missed * FETCHED);
	CHECK(account->later.pending >= missed);
	SAME(account->socket.sent_bytes, 0);
	CHECK(account->block.device_ns > 0 || missed == FETCHES);
	/* A fast device may be done each time before the thread gives up the processor. */
	CHECK(account->parts[WEIGH_BLOCK].waiting_ns > 0 || !waits || !disk_takes_time());
	CHECK(!missed || !weigh_settled(w, token));
	CHECK(account->later.pending || weigh_settled(w, token));
	return missed;
}

/* How often the kernel passes over a program depends on what else runs on the machine: it is not always often. */
static void *fetch(void *argument)
{
	weigh *w = measured();
	uint64_t token = 500;
	char *buffer;

	(void)argument;
	CHECK(!posix_memalign((void **)&buffer, BLOCK, FETCHED));
	while (missing_of_fetched(w, token, buffer) > 2)
		CHECK(++token < 500 + MOST_ATTEMPTS);
	free(buffer);
	return 0;
}

/* What is asked for is all that is counted, but for what all others' time depends on. */
static void only_what_is_wanted(weigh *w)
{
	char byte = 0;
	int ends[2];

	CHECK(!pipe(ends));
	CHECK(!weigh_begin(w, 600, bit(WEIGH_BLOCK)));
	for (int i = 0; i < 100; i++)
		CHECK(write(ends[1], &byte, 1) == 1);
	weigh_end(w);
	CHECK(!(weigh_read(w, 600)->touched & bit(WEIGH_MEMORY)));
	SAME(weigh_read(w, 600)->memory.pages, 0);
	CHECK(!weigh_begin(w, 601, bit(WEIGH_MEMORY)));
	for (int i = 0; i < 10000; i++)
		CHECK(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1);
	weigh_end(w);
	CHECK(weigh_read(w, 601)->touched & bit(WEIGH_MEMORY));
}

static uint64_t sum_of_parts(const struct weigh_account *account)
{
	uint64_t sum = account->sched.run_queue_ns;

	for (int i = 0; i < WEIGH_SUBSYSTEMS; i++)
		sum += account->parts[i].time_ns + account->parts[i].waiting_ns;
	return sum;
}

/* Where calls are followed: nothing before it, nothing after it, and all of its time. */
static void just_the_next(weigh *w)
{
	struct timespec pause = { .tv_nsec = 3000000 };
	char bytes[100] = { 0 };
	uint64_t began;
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	for (int i = 0; i < 31; i++) {
		CHECK(!weigh_next(w, 700, WEIGH_ALL));
		SAME(write(ends[0], bytes, 50), 50);
		SAME(write(ends[0], bytes, 29), 29);
		SAME(read(ends[1], bytes, 79), 79);
	}
	SAME(weigh_read(w, 700)->calls, 31);
	SAME(weigh_read(w, 700)->socket.sent_bytes, 31 * 50);
	SAME(weigh_read(w, 700)->socket.received_bytes, 0);
	SAME(weigh_read(w, 700)->parts[WEIGH_SOCKET].entries, 31);
	SAME(sum_of_parts(weigh_read(w, 700)), weigh_read(w, 700)->time_ns);
	/* Three of four. To read a clock may be a call, too, where the kernel does not trust the processor's. */
	began = now();
	CHECK(!weigh_next_n(w, 701, WEIGH_ALL, 3));
	for (int i = 0; i < 4; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
	SAME(weigh_read(w, 701)->calls, 3);
	CHECK(weigh_read(w, 701)->time_ns >= 9000000);
	CHECK(weigh_read(w, 701)->time_ns < now() - began);
	/* A virtual machine may be stopped once where the timer runs already and the thread does, too. */
	CHECK(weigh_read(w, 701)->parts[WEIGH_SCHED].waiting_ns >= 5900000);
	SAME(sum_of_parts(weigh_read(w, 701)), weigh_read(w, 701)->time_ns);
	/* What was asked for and not made is not made up for. */
	CHECK(!weigh_next_n(w, 702, WEIGH_ALL, 5));
	SAME(write(ends[0], bytes, 11), 11);
	CHECK(!weigh_begin(w, 703, WEIGH_ALL));
	SAME(write(ends[0], bytes, 13), 13);
	weigh_end(w);
	SAME(weigh_read(w, 702)->calls, 1);
	SAME(weigh_read(w, 702)->socket.sent_bytes, 11);
	SAME(weigh_read(w, 703)->socket.sent_bytes, 13);
	CHECK(weigh_read(w, 703)->parts[WEIGH_KERNEL].time_ns > 0);
	close(ends[0]);
	close(ends[1]);
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS + 1];
	uint64_t received = 0;
	char path[4096];
	weigh *w;

	CHECK(count == 3 || count == 4);
	rounds = atoi(arguments[2]);
	snprintf(path, sizeof(path), "%s/exact-%d", arguments[1], (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	for (int i = 0; i < 40; i++) {
		static char bytes[BLOCK];

		memset(bytes, i + 1, sizeof(bytes));
		SAME(write(file, bytes, sizeof(bytes)), sizeof(bytes));
	}
	CHECK(!fsync(file));
	close(file);
	file = open(path, O_RDONLY | O_DIRECT);
	CHECK(file >= 0);
	w = measured();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], 0, talk, (void *)(i + 1)));
	CHECK(!pthread_create(&threads[THREADS], 0, fetch, 0));
	for (int i = 0; i <= THREADS; i++)
		CHECK(!pthread_join(threads[i], 0));
	for (uint64_t i = 1; i <= THREADS; i++)
		received += (1009 + 2 * i) * (uint64_t)rounds;
	SAME(weigh_read(w, ALL_OF_THEM)->socket.received_bytes, received);
	SAME(weigh_read(w, ALL_OF_THEM)->calls, THREADS * rounds);
	SAME(weigh_follows(w), count == 4);
	if (count == 4)
		just_the_next(w);
	/* Of a job that weigh follows all is counted. */
	if (count == 3 || strcmp(arguments[3], "job"))
		only_what_is_wanted(w);
	unlink(path);
	return 0;
}
