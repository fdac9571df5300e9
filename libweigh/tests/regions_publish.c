/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is published is of one moment: counters that are equal at each publish are equal to a reader, always.
 *
 * usage: regions_publish [THREADS]
 */
#include "profile.h"
#include <signal.h>
#include <sys/wait.h>
#include <weigh_region.h>

#define MOST_THREADS 8
#define READS 500

static pthread_barrier_t barrier;
static volatile bool goes_on = true;

/* Each thread's two counters are equal whenever the first one publishes. */
static void *counts(void *number)
{
	for (uint64_t i = 1; goes_on; i++) {
		weigh_count("one", (int64_t)(i % 97));
		weigh_count("other", (int64_t)(i % 97));
		pthread_barrier_wait(&barrier);
		if (!number)
			weigh_publish();
		pthread_barrier_wait(&barrier);
	}
	return 0;
}

static void run_program(int threads)
{
	pthread_t thread;

	if (threads < 2) {
		for (uint64_t i = 1;; i++) {
			weigh_count("one", (int64_t)(i % 97));
			weigh_count("other", (int64_t)(i % 97));
			weigh_publish();
		}
	}
	pthread_barrier_init(&barrier, 0, (unsigned)threads);
	for (intptr_t i = 1; i < threads; i++)
		CHECK(!pthread_create(&thread, 0, counts, (void *)i));
	counts(0);
}

/* The two counters of each thread at one publish; whether they could be read. */
static bool read_once(const struct profile *p, uint64_t *last, int *unequal)
{
	uint64_t epoch = epoch_after_barrier(p), one[VERSION_LENGTH], other[VERSION_LENGTH];
	uint64_t before = *last;

	for (uint64_t i = 0; i < used(p, PROFILE_THREADS); i++) {
		uint64_t root = record(p, PROFILE_THREADS, i, THREAD_LENGTH)[THREAD_AT_ROOT];
		uint64_t a = child_node(p, root, PROFILE_COUNTER, "one"), b = child_node(p, root, PROFILE_COUNTER, "other");

		if (a == NOTHING || b == NOTHING || !node_at_publish(node_at(p, a), epoch, one) ||
		    !node_at_publish(node_at(p, b), epoch, other))
			continue;
		*unequal += one[VERSION_AT_CALLS] != other[VERSION_AT_CALLS] ||
			    one[VERSION_AT_INCLUSIVE] != other[VERSION_AT_INCLUSIVE];
		if (one[VERSION_AT_CALLS] > *last)
			*last = one[VERSION_AT_CALLS];
	}
	return *last > before;
}

int main(int count, char **arguments)
{
	int listener = listener_of_this(arguments), threads = count > 1 ? atoi(arguments[1]) : 1, unequal = 0, reads = 0;
	uint64_t last = 0, until = monotonic_ns() + 180000000000;
	struct profile p;
	pid_t child = fork();

	CHECK(threads <= MOST_THREADS);
	if (!child) {
		run_program(threads);
		_exit(0);
	}
	while (!receive_profile(listener, &p))
		usleep(1000);
	/* What is new is counted: a reader that is too slow, or too fast, has looked at nothing. */
	while (reads < READS && monotonic_ns() < until)
		reads += read_once(&p, &last, &unequal);
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, 0, 0) == child);
	SAME(unequal, 0);
	CHECK(reads >= 100);
	return 0;
}
