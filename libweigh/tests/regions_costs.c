/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions with an account of their system calls, in exact, odd numbers. Says on standard output how often the kernel counts
 * that the thread has left the CPU to wait: "waits NUMBER".
 *
 * usage: regions_costs all     bytes and waits in regions beside and inside one another, and in two threads
 *        regions_costs killed  4 calls of 97 bytes, and one more of 1000 that is open when it kills itself
 */
#include "check.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <weigh_region.h>

static char bytes[4096];

static void send_bytes(const int *ends, size_t count)
{
	SAME(write(ends[0], bytes, count), count);
	SAME(read(ends[1], bytes, sizeof(bytes)), count);
}

static void send_in_region(const int *ends, int calls, size_t count)
{
	for (int i = 0; i < calls; i++) {
		WEIGH_REGION("send");
		send_bytes(ends, count);
	}
}

static void in_one_another(const int *ends)
{
	for (int i = 0; i < 5; i++) {
		WEIGH_REGION("outer");
		send_bytes(ends, 101);
		WEIGH_BEGIN("inner");
		send_bytes(ends, 53);
		WEIGH_END("inner");
		WEIGH_REGION("without");
		send_bytes(ends, 11);
	}
}

static long waits_so_far(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw;
}

static void wait_some(void)
{
	long before;

	WEIGH_BEGIN("wait");
	before = waits_so_far();
	for (int i = 0; i < 3; i++)
		usleep(3000);
	printf("waits %ld\n", waits_so_far() - before);
	WEIGH_END("wait");
}

static void *of_a_thread(void *calls)
{
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	send_in_region(ends, (int)(intptr_t)calls, 101);
	return 0;
}

static void in_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], 0, of_a_thread, (void *)(intptr_t)(i ? 8 : 5)));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], 0));
}

static void kill_itself(const int *ends)
{
	send_in_region(ends, 4, 97);
	WEIGH_BEGIN("send");
	send_bytes(ends, 1000);
	raise(SIGKILL);
}

int main(int argc, char **argv)
{
	static const char *const bound[] = { "send", "outer", "inner", "wait" };
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	for (size_t i = 0; i < sizeof(bound) / sizeof(*bound); i++)
		weigh_region_account(weigh_region_name(bound[i]), WEIGH_ALL);
	if (argc > 1 && !strcmp(argv[1], "killed"))
		kill_itself(ends);
	send_in_region(ends, 7, 411);
	in_one_another(ends);
	wait_some();
	in_threads();
	return 0;
}
