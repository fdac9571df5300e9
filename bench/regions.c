/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What regions of libweigh cost. In each round each thing is done so often, alternating with two reads of the clock.
 * Prints a line for each round and thing: its name, nanoseconds; of begin and end those beyond the two reads.
 *
 * usage: regions listener|nobody [ROUNDS]
 */
#include "../libweigh/tests/profile.h"
#include <weigh_region.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#define READ_CLOCK() __rdtsc()
#else
#define READ_CLOCK() monotonic_ns()
#endif

/* So few that another process seldom comes in between. */
#define EACH 1600

static volatile uint64_t sink;
static bool uses_counter = true;

static uint64_t read_clock(void)
{
	return uses_counter ? READ_CLOCK() : monotonic_ns();
}

#define NS_EACH(what)                                                 \
	({                                                            \
		uint64_t begun_ = monotonic_ns();                     \
		for (int i_ = 0; i_ < EACH; i_++) {                   \
			what;                                         \
		}                                                     \
		(double)(monotonic_ns() - begun_) / EACH;             \
	})

static double two_reads(void)
{
	if (uses_counter)
		return NS_EACH(sink = READ_CLOCK(); sink = READ_CLOCK());
	return NS_EACH(sink = read_clock(); sink = read_clock());
}

static void tell(const char *name, double ns)
{
	printf("%s\t%.3f\n", name, ns);
}

/* Below the calls from which on a region is braked each has a name of its own. */
static void round_of_all(int number)
{
	weigh_name name, deep[8];
	struct weigh_control control;
	char text[32];
	double reads = two_reads();

	snprintf(text, sizeof(text), "round %d", number);
	name = weigh_region_name(text);
	for (int i = 0; i < 8; i++) {
		snprintf(text, sizeof(text), "depth %d", i);
		deep[i] = weigh_region_name(text);
	}
	weigh_region_begin(name);
	weigh_region_end(name);
	tell("two reads of the clock", reads);
	tell("begin and end", NS_EACH(weigh_region_begin(name); weigh_region_end(name)) - (weigh_regions_active ? reads : 0));
	if (!weigh_regions_active)
		tell("begin and end, by macro", NS_EACH(WEIGH_REGION("by macro")));
	tell("eight nested, each", NS_EACH({
					   if (i_ % 16 < 8)
						   weigh_region_begin(deep[i_ % 8]);
					   else
						   weigh_region_end(0);
				   }) * 2 - (weigh_regions_active ? reads : 0));
	tell("counter add", NS_EACH(weigh_counter_add(name, 1)));
	tell("poll", NS_EACH(sink = (uint64_t)weigh_poll_control(&control)));
	tell("publish", NS_EACH(weigh_publish()));
	tell("region after a publish", NS_EACH({
		     weigh_publish();
		     weigh_region_begin(name);
		     weigh_region_end(name);
	     }));
}

int main(int count, char **arguments)
{
	int rounds = count > 2 ? atoi(arguments[2]) : 101, listener = -1;
	struct profile p;

	CHECK(count > 1);
	if (!strcmp(arguments[1], "listener")) {
		listener = listener_of_this(arguments);
		weigh_region_name("first");
		CHECK(receive_profile(listener, &p));
		uses_counter = head(&p, PROFILE_AT_CLOCK) == PROFILE_COUNTER_OF_CPU;
	}
	for (int i = 0; i < rounds; i++)
		round_of_all(i);
	return 0;
}
