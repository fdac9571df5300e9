/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads that begin, measure and end at the same time, none before the others: made with the compiler's sanitizers it
 * shows what they have not agreed on. Works with an agent and without.
 *
 * usage: together
 */
#include "check.h"
#include <pthread.h>
#include <string.h>

#define THREADS 8
#define ROUNDS 20

static void *measures(void *number)
{
	for (uint64_t round = 0; round < ROUNDS; round++) {
		weigh *w = weigh_open();
		uint64_t token = (uint64_t)(uintptr_t)number + round % 3;

		if (!weigh_begin(w, token, WEIGH_ALL))
			weigh_end(w);
		CHECK(weigh_why(w) || weigh_read(w, token));
		weigh_close(w);
	}
	return 0;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		SAME(pthread_create(&threads[i], 0, measures, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++)
		SAME(pthread_join(threads[i], 0), 0);
	return 0;
}
