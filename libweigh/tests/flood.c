/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that floods the agent, and one that asks it for what it may.
 *
 * usage: flood CONNECTIONS THREADS    with so many idle threads, asks over so many connections for a thread that it has
 *                                     not, for its own accounts, to be told and for other parts, until its input ends; says
 *                                     `ready` first, and in the end how many answers it had
 *        flood ask TIMES              comes and asks for a page and for a thread so many times: says how many microseconds
 *                                     that took at most, half of the times and 999 of 1,000 times
 *        flood open TIMES            opens libweigh in so many new processes, and in a second thread of each: says how
 *                                     many microseconds weigh_open() took at most, half of the times and 999 of 1,000
 *                                     times: of processes, then of threads
 *        flood keep TIMES             comes, keeps its page, and leaves, so many times: says the reason of each answer, and
 *                                     ends with its input
 */
#include "check.h"
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include "../src/page.h"

#define STACK 16384
#define NO_THREAD 4000000

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int agent = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strncpy(address.sun_path, getenv(WEIGH_AGENT_VARIABLE), sizeof(address.sun_path) - 1);
	CHECK(agent >= 0 && !connect(agent, (struct sockaddr *)&address, sizeof(address)));
	return agent;
}

static void say(int agent, uint64_t kind, uint64_t number, uint64_t value)
{
	struct weigh_request request = { WEIGH_LAYOUT, kind, number, value };

	CHECK(send(agent, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request));
}

/* Descriptors that come along are dropped. */
static int answer(int agent)
{
	struct weigh_reply reply;

	CHECK(recv(agent, &reply, sizeof(reply), 0) == sizeof(reply));
	return (int)reply.reason;
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

static void make_threads(int count)
{
	pthread_attr_t small;
	pthread_t thread;

	CHECK(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, STACK));
	while (count--)
		CHECK(!pthread_create(&thread, &small, idle, 0));
}

static int is_over(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

static void ask_one(int agent, unsigned long round)
{
	switch (round % 4) {
	case 0:
		say(agent, WEIGH_ASK_WANT, 0, round);
		break;
	case 1:
		say(agent, WEIGH_ASK_PEER, (uint64_t)getpid(), 0);
		break;
	case 2:
		say(agent, WEIGH_ASK_WATCH, 0, 0);
		break;
	default:
		say(agent, WEIGH_ASK_JOIN, NO_THREAD, 0);
	}
}

static int flood(int connections, int threads)
{
	struct rlimit many = { 4096, 4096 };
	unsigned long answers = 0;
	int *agents = calloc((size_t)connections, sizeof(int));

	setrlimit(RLIMIT_NOFILE, &many);
	make_threads(threads);
	for (int i = 0; i < connections; i++) {
		agents[i] = dial();
		say(agents[i], WEIGH_ASK_ENTER, 0, 0);
		SAME(answer(agents[i]), WEIGH_MEASURED);
	}
	puts("ready");
	fflush(stdout);
	while (!is_over()) {
		for (int i = 0; i < connections; i++)
			ask_one(agents[i], answers + (unsigned long)i);
		for (int i = 0; i < connections; i++)
			answer(agents[i]);
		answers += (unsigned long)connections;
	}
	printf("%lu\n", answers);
	return 0;
}

static long microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int by_size(const void *a, const void *b)
{
	return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

#define AT_ONCE 200

static long *numbers(size_t count)
{
	long *all = calloc(count, sizeof(long));

	CHECK(all);
	return all;
}

/* A user's programs may not. */
static void come_no_faster(size_t times)
{
	if (times > AT_ONCE)
		usleep(25000);
}

static void say_times(long *took, size_t times)
{
	qsort(took, times, sizeof(long), by_size);
	printf("%ld %ld ", took[times / 2], took[times - 1 - times / 1000]);
}

static int ask(size_t times)
{
	long *took = numbers(times);

	for (size_t i = 0; i < times; i++) {
		long began = microseconds();
		int agent = dial();

		say(agent, WEIGH_ASK_ENTER, 0, 0);
		SAME(answer(agent), WEIGH_MEASURED);
		say(agent, WEIGH_ASK_JOIN, (uint64_t)getpid(), 0);
		SAME(answer(agent), WEIGH_MEASURED);
		took[i] = microseconds() - began;
		close(agent);
		come_no_faster(times);
	}
	say_times(took, times);
	puts("");
	return 0;
}

static void *time_open(void *unused)
{
	static long took[2];
	static int count;
	long began = microseconds();
	weigh *w = weigh_open();

	took[count] = microseconds() - began;
	if (weigh_why(w))
		fprintf(stderr, "not measured: %s\n", weigh_why(w));
	CHECK(!weigh_why(w));
	count++;
	(void)unused;
	return took;
}

/* In a process that has not known libweigh: what it took there, and in another thread. */
static void open_in_child(int to)
{
	pthread_t other;
	void *took = time_open(0);

	CHECK(!pthread_create(&other, 0, time_open, 0) && !pthread_join(other, 0));
	CHECK(write(to, took, 2 * sizeof(long)) == 2 * sizeof(long));
	_exit(0);
}

static int open_times(size_t times)
{
	long *took[2] = { numbers(times), numbers(times) }, both[2];
	int pipes[2], status;

	CHECK(!pipe(pipes));
	for (size_t i = 0; i < times; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child)
			open_in_child(pipes[1]);
		CHECK(waitpid(child, &status, 0) == child && !status);
		CHECK(read(pipes[0], both, sizeof(both)) == sizeof(both));
		took[0][i] = both[0];
		took[1][i] = both[1];
		/* Others of this user may just have come. */
		come_no_faster(AT_ONCE + 1);
	}
	say_times(took[0], times);
	say_times(took[1], times);
	puts("");
	return 0;
}

/* What comes along stays open. */
static int enter_and_keep(void)
{
	struct weigh_request request = { WEIGH_LAYOUT, WEIGH_ASK_ENTER, 0, 0 };
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct weigh_reply reply;
	struct iovec part = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int agent = dial();
	ssize_t length;

	/* A client that is turned away finds nothing to listen, and then the answer. */
	send(agent, &request, sizeof(request), MSG_NOSIGNAL);
	while ((length = recvmsg(agent, &message, 0)) < 0 && errno == ECONNRESET)
		;
	CHECK(length == sizeof(reply));
	close(agent);
	return (int)reply.reason;
}

static int keep(int times)
{
	while (times--)
		printf("%d%c", enter_and_keep(), times ? ' ' : '\n');
	fflush(stdout);
	getchar();
	return 0;
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	if (!strcmp(arguments[1], "ask"))
		return ask(strtoul(arguments[2], 0, 10));
	if (!strcmp(arguments[1], "open"))
		return open_times(strtoul(arguments[2], 0, 10));
	if (!strcmp(arguments[1], "keep"))
		return keep(atoi(arguments[2]));
	return flood(atoi(arguments[1]), atoi(arguments[2]));
}
