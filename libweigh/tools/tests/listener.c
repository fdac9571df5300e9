/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A libweigh that adds up what it is told, by text: the tests' own witness of what an adapter of a convention says.
 * It is loaded before a program, and writes a line for each name into the folder $LISTENER at the program's end.
 */
#include "../../weigh_region.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOLD __attribute__((visibility("default")))

enum { NAMES = 4096, DEPTH = 512 };
static struct {
	char text[256];
	uint64_t calls, ns, phases, iterations, ranges, samples, events, unbalanced;
	int64_t sum;
	double value;
} names[NAMES];
static uint32_t used = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char metadata[8192];
static uint64_t published, unknown;

static __thread struct {
	weigh_name name;
	uint64_t begun;
} stack[DEPTH];
static __thread unsigned depth;

static struct {
	weigh_name name;
	uint64_t begun;
} ranges[NAMES];
static uint64_t begun_ranges;

TOLD int weigh_regions_active = 1;

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

#define LOCKED(statement)                   \
	do {                                \
		pthread_mutex_lock(&lock);  \
		statement;                  \
		pthread_mutex_unlock(&lock); \
	} while (0)

TOLD weigh_name weigh_region_name_of(const char *text, size_t length)
{
	weigh_name name = 1;

	pthread_mutex_lock(&lock);
	for (; name < used; name++)
		if (strlen(names[name].text) == length && !memcmp(names[name].text, text, length))
			break;
	if (name == used && used < NAMES)
		memcpy(names[used++].text, text, length < 255 ? length : 255);
	pthread_mutex_unlock(&lock);
	return name;
}

TOLD weigh_name weigh_region_name(const char *text)
{
	return weigh_region_name_of(text, strlen(text));
}

TOLD void weigh_region_begin(weigh_name name)
{
	if (depth < DEPTH) {
		stack[depth].name = name;
		stack[depth].begun = now();
	}
	depth++;
}

static void end(uint64_t unbalanced)
{
	depth--;
	if (depth < DEPTH) {
		uint64_t ns = now() - stack[depth].begun;
		weigh_name name = stack[depth].name;
		LOCKED(names[name].calls++; names[name].ns += ns; names[name].unbalanced += unbalanced);
	}
}

TOLD void weigh_region_end(weigh_name name)
{
	unsigned at = depth;

	if (!name)
		name = depth && depth <= DEPTH ? stack[depth - 1].name : 0;
	while (at && (at > DEPTH || stack[at - 1].name != name))
		at--;
	if (!at) {
		LOCKED(names[name].unbalanced++);
		return;
	}
	while (depth > at)
		end(1);
	end(0);
}

TOLD void weigh_phase_begin(weigh_name name, uint64_t iteration)
{
	LOCKED(names[name].phases++; names[name].iterations += iteration);
	weigh_region_begin(name);
}

TOLD void weigh_phase_end(weigh_name name)
{
	weigh_region_end(name);
}

TOLD uint64_t weigh_range_begin(weigh_name name)
{
	uint64_t range = __atomic_add_fetch(&begun_ranges, 1, __ATOMIC_RELAXED);

	ranges[range % NAMES].name = name;
	ranges[range % NAMES].begun = now();
	return range;
}

TOLD void weigh_range_end(uint64_t range)
{
	weigh_name name = ranges[range % NAMES].name;
	uint64_t ns = now() - ranges[range % NAMES].begun;

	if (!range || !name)
		LOCKED(unknown++);
	else
		LOCKED(names[name].ranges++; names[name].ns += ns);
	ranges[range % NAMES].name = 0;
}

TOLD void weigh_counter_add(weigh_name name, int64_t number)
{
	LOCKED(names[name].samples++; names[name].sum += number);
}

TOLD void weigh_gauge_set(weigh_name name, double value)
{
	LOCKED(names[name].samples++; names[name].value = value);
}

TOLD void weigh_event_tell(weigh_name name, double value)
{
	LOCKED(names[name].events++; names[name].value += value);
}

TOLD void weigh_metadata(const char *key, const char *value)
{
	pthread_mutex_lock(&lock);
	size_t at = strlen(metadata);
	snprintf(metadata + at, sizeof metadata - at, "metadata\t%s\t%s\n", key, value);
	pthread_mutex_unlock(&lock);
}

TOLD void weigh_publish(void)
{
	LOCKED(published++);
}

__attribute__((destructor)) static void tell(void)
{
	const char *folder = getenv("LISTENER");
	char path[512];

	snprintf(path, sizeof path, "%s/%d", folder ? folder : "/nowhere", getpid());
	if (used == 1)
		return;
	FILE *to = fopen(path, "w");
	if (!to)
		return;
	for (weigh_name name = 1; name < used; name++)
		fprintf(to, "%s\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%ld\t%g\n", names[name].text, names[name].calls,
			names[name].ns, names[name].phases, names[name].iterations, names[name].ranges,
			names[name].samples, names[name].events, names[name].unbalanced, names[name].sum,
			names[name].value);
	fprintf(to, "%spublished\t%lu\nunknown\t%lu\n", metadata, published, unknown);
	fclose(to);
}
