/* threads N BYTES
 *
 * Starts N threads; each maps BYTES/N of private memory (the last one also the rest), writes to
 * each page once and waits for all others; then all of them end, then the program.
 *
 * Truth: filled_bytes, peak_rss_bytes (resident size when all is filled), threads_total and
 * threads_peak (the main thread included), processes_total. */
#include "common.h"

#include <pthread.h>

static uint64_t n, bytes;
static pthread_barrier_t all_full, may_end;

static uint64_t share_of(uint64_t i)
{
	return i == n - 1 ? bytes - bytes / n * (n - 1) : bytes / n;
}

static void *fill_share(void *index)
{
	uint64_t share = share_of((uintptr_t)index);
	touch_pages(map_pages(share, MAP_PRIVATE), share);
	pthread_barrier_wait(&all_full);
	pthread_barrier_wait(&may_end);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: threads N BYTES");
	n = number(argv[1], "N");
	bytes = number(argv[2], "BYTES");
	if (n == 0)
		die("N must be at least 1");
	pthread_barrier_init(&all_full, NULL, n + 1);
	pthread_barrier_init(&may_end, NULL, n + 1);
	pthread_t *threads = calloc(n, sizeof *threads);
	uint64_t filled = 0;
	for (uint64_t i = 0; i < n; i++) {
		errno = pthread_create(&threads[i], NULL, fill_share, (void *)(uintptr_t)i);
		if (errno)
			die("pthread_create");
		filled += whole_pages(share_of(i));
	}
	pthread_barrier_wait(&all_full);
	truth("filled_bytes", filled);
	truth("peak_rss_bytes", mapped_bytes("\nRss:"));
	truth("threads_total", n + 1);
	truth("threads_peak", n + 1);
	truth("processes_total", 1);
	pthread_barrier_wait(&may_end);
	for (uint64_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	truth_tell();
	return 0;
}
