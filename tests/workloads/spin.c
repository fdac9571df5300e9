/* spin MS [THREADS]
 *
 * Burns MS ms of CPU time in each of THREADS threads (default 1: the main thread itself), by the
 * thread's own CPU clock, in user mode but for looking at the clock.
 *
 * Truth: asked_cpu_ns (the least that was burnt), cpu_ns (CLOCK_PROCESS_CPUTIME_ID at the end: all
 * threads, but not what the kernel needs to end the process), user_us and system_us (getrusage),
 * wall_ns (from the start of main), threads_total. */
#include "common.h"

#include <pthread.h>

static uint64_t budget_ns;

static void *burn(void *unused)
{
	volatile uint64_t work = 0;
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + budget_ns;
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 10000; i++)
			work += i;
	return unused;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		die("usage: spin MS [THREADS]");
	budget_ns = number(argv[1], "MS") * 1000000;
	uint64_t n = argc > 2 ? number(argv[2], "THREADS") : 1;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	if (n == 1) {
		burn(NULL);
	} else {
		pthread_t *threads = calloc(n, sizeof *threads);
		for (uint64_t i = 0; i < n; i++) {
			errno = pthread_create(&threads[i], NULL, burn, NULL);
			if (errno)
				die("pthread_create");
		}
		for (uint64_t i = 0; i < n; i++)
			pthread_join(threads[i], NULL);
	}
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	truth("asked_cpu_ns", budget_ns * n);
	truth("user_us", use.ru_utime.tv_sec * 1000000 + use.ru_utime.tv_usec);
	truth("system_us", use.ru_stime.tv_sec * 1000000 + use.ru_stime.tv_usec);
	truth("threads_total", n == 1 ? 1 : n + 1);
	truth("wall_ns", clock_ns(CLOCK_MONOTONIC) - start);
	truth("cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	truth_tell();
	return 0;
}
