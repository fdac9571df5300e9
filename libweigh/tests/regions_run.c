/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions in exact, odd numbers, for who measures them.
 *
 * usage: regions_run count          3 solves with 41 steps each, 17 phases, equal counters at each publish
 *        regions_run publish SECONDS counters that are equal at each publish, some thousand times a second
 *        regions_run killed         7 steps in a region that is open when it kills itself
 *        regions_run control           publishes nothing by itself; says on standard output what it is sent, until the key "end"
 *        regions_run deaf              never asks, until it is killed
 *        regions_run two            the same step in two threads, 5 and 8 times
 *        regions_run five           regions in one another by chance, and deeper than there are frames, in five threads
 *        regions_run exec PROGRAM [ARGUMENT]... 7 steps in a region that is open when it executes a program
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>
#include <weigh_region.h>

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void spin(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		;
}

static void steps(int count)
{
	for (int i = 0; i < count; i++) {
		WEIGH_REGION("step");
		spin(20e-6);
	}
}

static void count_all(void)
{
	weigh_metadata("input", "case-7.nml");
	for (int i = 0; i < 3; i++) {
		WEIGH_REGION("solve");
		steps(41);
	}
	for (uint64_t i = 0; i < 17; i++) {
		WEIGH_PHASE("iteration", 100 + i);
		weigh_count("cells", 4096 + (int64_t)i);
		weigh_count("faces", 4096 + (int64_t)i);
		weigh_gauge("residual", 1.0 / (double)(i + 1));
		weigh_publish();
	}
	weigh_event_value("restart", 2.5);
	/* Not ended by itself. */
	WEIGH_BEGIN("around");
	WEIGH_BEGIN("left open");
	WEIGH_END("around");
}

static void publish(double seconds)
{
	double end = now() + seconds;

	for (int64_t i = 1; now() < end; i++) {
		weigh_count("cells", i % 97);
		weigh_count("faces", i % 97);
		weigh_publish();
		spin(100e-6);
	}
}

static void kill_itself(void)
{
	WEIGH_BEGIN("open");
	steps(7);
	spin(0.02);
	raise(SIGKILL);
}

static void execute(char **program)
{
	WEIGH_BEGIN("open");
	steps(7);
	execv(program[0], program);
	CHECK(!"executed");
}

static void controlled(void)
{
	struct weigh_control got = { 0 };

	printf("begun\n");
	for (;;) {
		WEIGH_BEGIN("quiet step");
		WEIGH_END("quiet step");
		WEIGH_BEGIN("loud step");
		WEIGH_END("loud step");
		usleep(1000);
		while (weigh_poll_control(&got)) {
			printf("%d %g [%s] [%s]\n", (int)got.kind, got.number, got.key, got.text);
			fflush(stdout);
			if (!strcmp(got.key, "end"))
				return;
		}
	}
}

static void never_ask(void)
{
	WEIGH_BEGIN("deaf");
	for (;;)
		usleep(10000);
}

static void *some_steps(void *count)
{
	steps((int)(intptr_t)count);
	return 0;
}

static void two_threads(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], 0, some_steps, (void *)(intptr_t)(i ? 8 : 5)));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], 0));
}

static unsigned chance(uint64_t *state, unsigned most)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(*state >> 33) % most;
}

static void by_chance(uint64_t *state, int depth)
{
	static const char *const names[] = { "north", "east", "south", "west" };
	bool is_phase = chance(state, 5) == 0;
	weigh_name name = weigh_region_name(is_phase ? "turn" : names[chance(state, 4)]);

	if (is_phase)
		weigh_phase_begin(name, (uint64_t)depth);
	else
		weigh_region_begin(name);
	spin(1e-6 * chance(state, 30));
	for (unsigned i = chance(state, 4); i && depth < 6; i--)
		by_chance(state, depth + 1);
	if (chance(state, 20))
		weigh_region_end(name);
	/* Else it ends with the one around. */
}

static void deep(int depth)
{
	WEIGH_REGION("deep");
	spin(5e-6);
	if (depth)
		deep(depth - 1);
	spin(5e-6);
}

static void *all_by_chance(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;

	for (int i = 0; i < 100; i++) {
		by_chance(&state, 0);
		spin(1e-6 * chance(&state, 50));
	}
	deep(80);
	return 0;
}

static void five_threads(void)
{
	pthread_t threads[5];

	for (int i = 0; i < 5; i++)
		CHECK(!pthread_create(&threads[i], 0, all_by_chance, (void *)(uintptr_t)(2 * i + 7)));
	for (int i = 0; i < 5; i++)
		CHECK(!pthread_join(threads[i], 0));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "count"))
		count_all();
	else if (argc > 2 && !strcmp(argv[1], "publish"))
		publish(atof(argv[2]));
	else if (argc > 1 && !strcmp(argv[1], "killed"))
		kill_itself();
	else if (argc > 1 && !strcmp(argv[1], "control"))
		controlled();
	else if (argc > 1 && !strcmp(argv[1], "deaf"))
		never_ask();
	else if (argc > 1 && !strcmp(argv[1], "two"))
		two_threads();
	else if (argc > 1 && !strcmp(argv[1], "five"))
		five_threads();
	else if (argc > 2 && !strcmp(argv[1], "exec"))
		execute(argv + 2);
	else
		return 2;
	return 0;
}
