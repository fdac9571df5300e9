/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Phases that each use something else, in exact, odd numbers.
 *
 * usage: regions_phases FILE ROUNDS
 *	each round has a phase "store", which writes 41 times 997 bytes to FILE and sleeps 0.4 s meanwhile, a phase "burn",
 *	which uses a CPU for 0.4 s and has a region of 40,001 calls in it, and a phase "blink" of a millisecond
 */
#include "check.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include <weigh_region.h>

enum { PIECES = 41, PIECE = 997, CALLS = 40001 };

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void rest(long ms)
{
	struct timespec pause = {.tv_nsec = ms * 1000000};

	while (nanosleep(&pause, &pause))
		;
}

static void store(int fd, uint64_t round)
{
	static char piece[PIECE];

	WEIGH_PHASE("store", round);
	for (int i = 0; i < PIECES; i++) {
		WEIGH_REGION("write");
		SAME(write(fd, piece, sizeof(piece)), sizeof(piece));
		rest(400 / PIECES);
	}
	weigh_count("bytes", PIECES * PIECE);
}

static void burn(uint64_t round)
{
	double end = now() + 0.4;

	WEIGH_PHASE("burn", round);
	WEIGH_BEGIN("kernel <b>");
	for (int i = 0; i < CALLS; i++) {
		WEIGH_REGION("hot");
	}
	WEIGH_END("kernel <b>");
	WEIGH_REGION("spin");
	while (now() < end)
		;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 2 ? strtoull(argv[2], 0, 10) : 0;
	int fd = argc > 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

	if (fd < 0)
		return 2;
	weigh_metadata("input", "</script><img src=x onerror=alert(1)>");
	for (uint64_t round = 0; round < rounds; round++) {
		WEIGH_REGION("round");
		store(fd, round);
		burn(round);
		WEIGH_BEGIN("between");
		rest(50);
		WEIGH_END("between");
		{
			WEIGH_PHASE("blink", round);
			rest(1);
		}
		weigh_gauge("residual", 1.0 / (double)(round + 1));
		weigh_publish();
	}
	return 0;
}
