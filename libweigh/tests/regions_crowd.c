/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions in great numbers: names, places, threads, calls; and what their times add up to.
 *
 * usage: regions_crowd names|places|threads|braked|sums
 */
#include "profile.h"
#include <weigh_region.h>

static struct profile p;

static void many_names(void)
{
	char text[32];
	uint64_t node;
	weigh_name name;

	for (int i = 0; i < 10000; i++) {
		sprintf(text, "name number %d", i);
		name = weigh_region_name(text);
		CHECK(name > 1);
		SAME(weigh_region_name(text), name);
		weigh_region_begin(name);
		weigh_region_end(name);
	}
	for (int i = 0; i < 10000; i += 271) {
		sprintf(text, "name number %d", i);
		node = child_node(&p, this_thread(&p)[THREAD_AT_ROOT], PROFILE_REGION, text);
		SAME(calls_of(&p, node), 1);
	}
	SAME(head(&p, PROFILE_AT_NAMES_LOST), 0);
	for (int i = 0; i < 10000; i++) {
		sprintf(text, "another name %d", i);
		name = weigh_region_name(text);
		weigh_region_begin(name);
		weigh_region_end(name);
	}
	CHECK(head(&p, PROFILE_AT_NAMES_LOST) > 3000);
	SAME(used(&p, PROFILE_NAMES), PROFILE_NAMES_RECORDS);
	SAME(calls_of(&p, REGION(&p, "(other)")) + sum_of_name(&p, "another name 5", PROFILE_REGION, VERSION_AT_CALLS),
	     head(&p, PROFILE_AT_NAMES_LOST) + 1);
}

static void *calls_nine(void *unused)
{
	(void)unused;
	for (int i = 0; i < 9; i++) {
		WEIGH_REGION("of a thread");
		weigh_count("of threads", 7);
	}
	return 0;
}

static void many_threads(void)
{
	enum { AT_ONCE = 50, TIMES = 40 };
	pthread_t threads[AT_ONCE];

	for (int i = 0; i < TIMES; i++) {
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_create(&threads[j], 0, calls_nine, 0));
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_join(threads[j], 0));
	}
	SAME(sum_of_name(&p, "of a thread", PROFILE_REGION, VERSION_AT_CALLS), 9 * AT_ONCE * TIMES);
	SAME(sum_of_name(&p, "of threads", PROFILE_COUNTER, VERSION_AT_INCLUSIVE), 63 * AT_ONCE * TIMES);
	SAME(used(&p, PROFILE_THREADS), AT_ONCE * TIMES + 1);
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 0);
	for (int i = 0; i < 60; i++) {
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_create(&threads[j], 0, calls_nine, 0));
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_join(threads[j], 0));
	}
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 2001 + 3000 - PROFILE_THREADS_RECORDS);
	SAME(sum_of_name(&p, "of a thread", PROFILE_REGION, VERSION_AT_CALLS) + head(&p, PROFILE_AT_OTHER_CALLS),
	     9 * 5000 + 9 * (2001 + 3000 - PROFILE_THREADS_RECORDS));
}

/* More places in the call tree than there are: what finds none is (other), and its time is in nobody else's. */
static void many_places(void)
{
	enum { OUTER = 250, INNER = 200 };
	weigh_name names[OUTER];
	char text[32];
	uint64_t calls;

	for (int i = 0; i < OUTER; i++) {
		sprintf(text, "place %d", i);
		names[i] = weigh_region_name(text);
	}
	for (int i = 0; i < OUTER; i++) {
		weigh_region_begin(names[i]);
		for (int j = 0; j < INNER; j++) {
			weigh_region_begin(names[j]);
			weigh_region_end(names[j]);
		}
		weigh_region_end(names[i]);
	}
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
	SAME(used(&p, PROFILE_NODES), PROFILE_NODES_RECORDS);
	/* Two nodes are the thread's, one is of the first region. */
	calls = calls_of(&p, REGION(&p, "(other)"));
	SAME(calls, OUTER * (1 + INNER) - (PROFILE_NODES_RECORDS - 3));
	SAME(head(&p, PROFILE_AT_NODES_LOST), calls);
	SAME(unbalanced_of(&p, REGION(&p, "(other)")), 0);
	/* Another thread finds no room. */
	pthread_t other;
	CHECK(!pthread_create(&other, 0, calls_nine, 0));
	CHECK(!pthread_join(other, 0));
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 1);
}

static void braked(void)
{
	uint64_t node, calls = 1000000, timed;

	for (uint64_t i = 0; i < calls; i++) {
		WEIGH_REGION("short");
	}
	node = REGION(&p, "short");
	SAME(calls_of(&p, node), calls);
	SAME(node_at(&p, node)[NODE_AT_BRAKED], PROFILE_BRAKE_CALLS);
	timed = number_of(&p, node, VERSION_AT_TIMED) - PROFILE_BRAKE_CALLS;
	CHECK(timed > (calls - PROFILE_BRAKE_CALLS) / 72 && timed < (calls - PROFILE_BRAKE_CALLS) / 56);
	CHECK(number_of(&p, node, VERSION_AT_SQUARES) != 0);
	/* It has none inside: the rest is what calls took that were timed since. */
	CHECK(number_of(&p, node, VERSION_AT_EXCLUSIVE) < number_of(&p, node, VERSION_AT_INCLUSIVE));
	for (uint64_t i = 0; i < 2 * PROFILE_BRAKE_CALLS; i++) {
		WEIGH_REGION("with another inside");
		WEIGH_REGION("short inside");
	}
	SAME(node_at(&p, REGION(&p, "with another inside"))[NODE_AT_BRAKED], 0);
	CHECK(node_at(&p, REGION(&p, "with another inside", "short inside"))[NODE_AT_BRAKED]);
}

/* Over all regions of the thread; of the outermost ones if `root` is its root. */
static uint64_t sum_below(uint64_t root, unsigned word)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < used(&p, PROFILE_NODES); i++) {
		const uint64_t *node = node_at(&p, i);

		if (node[NODE_AT_KIND] == PROFILE_REGION && (root == NOTHING || node[NODE_AT_PARENT] == root))
			sum += number_of(&p, i, word);
	}
	return sum;
}

#define ROUNDS 200

/*
 * What regions have for themselves is what the outermost ones have, to the tick; and that is the time between two reads of
 * another clock around them, but for the few rounds in which the thread loses its CPU in between.
 */
static void sums(void)
{
	uint64_t root = this_thread(&p)[THREAD_AT_ROOT], ns[ROUNDS], ticks[ROUNDS], total = 0;
	int apart = 0;
	double tick;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begun = monotonic_ns();

		WEIGH_BEGIN("a");
		spin(10000);
		WEIGH_BEGIN("b");
		spin(20000);
		WEIGH_BEGIN("c");
		WEIGH_END("c");
		WEIGH_END("b");
		WEIGH_END("a");
		ns[i] = monotonic_ns() - begun;
		ticks[i] = sum_below(root, VERSION_AT_INCLUSIVE) - total;
		total += ticks[i];
	}
	usleep(100000);
	weigh_publish();
	SAME(sum_below(NOTHING, VERSION_AT_EXCLUSIVE), total);
	/* A counter of 62.5 MHz has 16 ns. */
	tick = ns_of(&p, 1);
	for (int i = 1; i < ROUNDS; i++) {
		CHECK(ns_of(&p, ticks[i]) >= 30000.0 - tick && ns_of(&p, ticks[i]) <= (double)ns[i] + tick + 20);
		apart += ns_of(&p, ticks[i]) < (double)ns[i] - 2000;
	}
	CHECK(apart < ROUNDS / 4);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "names", many_names }, { "places", many_places }, { "threads", many_threads },
		{ "braked", braked },	 { "sums", sums },
	};
	int listener = listener_of_this(arguments);

	CHECK(count == 2);
	WEIGH_BEGIN("first");
	WEIGH_END("first");
	CHECK(receive_profile(listener, &p));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			return 0;
		}
	}
	return 2;
}
