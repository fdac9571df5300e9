/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests, each under a token of its own, 100000 and on, given back at its end: three calls each. Those
 * whose number leaves 7 when it is divided by 20 compute for 5 ms after the first. With a file: each
 * writes to it before its calls, and those few have it on the device instead of computing.
 *
 * usage: requests COUNT [FILE]
 */
#include "check.h"
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void compute(uint64_t ns)
{
	struct timespec begun, now;

	/* Without a call: the clock is read in the program itself. */
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((uint64_t)(now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < ns);
}

#define LINE 4099

int main(int argc, char **argv)
{
	static char line[LINE];
	weigh *w = measured();
	int file = -1;

	CHECK(argc == 2 || argc == 3);
	if (argc == 3)
		CHECK((file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) >= 0);
	for (uint64_t i = 0, count = strtoull(argv[1], 0, 10); i < count; i++) {
		CHECK(!weigh_begin(w, 100000 + i, WEIGH_ALL));
		if (file >= 0)
			SAME(write(file, line, sizeof line), LINE);
		CHECK(syscall(SYS_getppid) > 0);
		if (i % 20 == 7 && file >= 0)
			CHECK(!fsync(file));
		else if (i % 20 == 7)
			compute(5000000);
		CHECK(syscall(SYS_getppid) > 0);
		CHECK(syscall(SYS_getppid) > 0);
		weigh_end(w);
		SAME(weigh_read(w, 100000 + i)->calls, 1);
		CHECK(!weigh_release(w, 100000 + i));
	}
	return 0;
}
