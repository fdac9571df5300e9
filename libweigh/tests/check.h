/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* For programs that test libweigh: each ends with 1 and says where if something is not as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weigh.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* An emulated machine's disk may be done before its processor goes on: nobody waits for it there. */
static inline int disk_takes_time(void)
{
	return !getenv("WEIGH_TEST_SCALE");
}

#define SAME(found, expected)                                                                      \
	do {                                                                                       \
		uint64_t found_ = (uint64_t)(found), expected_ = (uint64_t)(expected);             \
		if (found_ != expected_) {                                                         \
			fprintf(stderr, "%s:%d: %s is %" PRIu64 ", expected %" PRIu64 "\n",        \
				__FILE__, __LINE__, #found, found_, expected_);                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A handle that is measured. */
static inline weigh *measured(void)
{
	weigh *w = weigh_open();

	if (weigh_why(w)) {
		fprintf(stderr, "not measured: %s\n", weigh_why(w));
		exit(1);
	}
	return w;
}

static inline uint64_t bit(unsigned subsystem)
{
	return 1ULL << subsystem;
}

#endif
