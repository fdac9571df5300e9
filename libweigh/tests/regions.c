/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions: each thing that a program can do with them, rightly or not, and what its profile says then.
 *
 * usage: regions
 */
#include "profile.h"
#include <weigh_region.h>

static struct profile p;

static void nested(void)
{
	for (int i = 0; i < 3; i++) {
		WEIGH_REGION("outer");
		for (int j = 0; j < 4; j++) {
			WEIGH_BEGIN("inner");
			spin(100000);
			WEIGH_END("inner");
		}
		spin(100000);
	}
	uint64_t outer = REGION(&p, "outer"), inner = REGION(&p, "outer", "inner");

	SAME(calls_of(&p, outer), 3);
	SAME(calls_of(&p, inner), 12);
	SAME(number_of(&p, inner, VERSION_AT_TIMED), 12);
	SAME(number_of(&p, inner, VERSION_AT_INCLUSIVE), number_of(&p, inner, VERSION_AT_EXCLUSIVE));
	SAME(number_of(&p, outer, VERSION_AT_INCLUSIVE),
	     number_of(&p, outer, VERSION_AT_EXCLUSIVE) + number_of(&p, inner, VERSION_AT_INCLUSIVE));
	CHECK(number_of(&p, inner, VERSION_AT_MIN) * 12 <= number_of(&p, inner, VERSION_AT_INCLUSIVE));
	CHECK(number_of(&p, inner, VERSION_AT_MAX) * 12 >= number_of(&p, inner, VERSION_AT_INCLUSIVE));
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
}

static void recursive(int depth)
{
	WEIGH_REGION("recursive");
	if (depth > 1)
		recursive(depth - 1);
}

static void recursion(void)
{
	uint64_t node = this_thread(&p)[THREAD_AT_ROOT];
	uint64_t lost = head(&p, PROFILE_AT_FRAMES_LOST);

	recursive(PROFILE_FRAMES + 6);
	for (int i = 0; i < PROFILE_FRAMES; i++) {
		node = child_node(&p, node, PROFILE_REGION, "recursive");
		SAME(calls_of(&p, node), 1);
	}
	SAME(child_node(&p, node, PROFILE_REGION, "recursive"), NOTHING);
	SAME(head(&p, PROFILE_AT_FRAMES_LOST), lost + 6);
	node = REGION(&p, "(other)");
	SAME(calls_of(&p, node), 6);
	SAME(number_of(&p, node, VERSION_AT_TIMED), 1);
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
}

static void unbalanced(void)
{
	WEIGH_BEGIN("around");
	WEIGH_BEGIN("left open");
	WEIGH_BEGIN("left open too");
	WEIGH_END("around");
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
	SAME(unbalanced_of(&p, REGION(&p, "around")), 0);
	SAME(unbalanced_of(&p, REGION(&p, "around", "left open")), 1);
	SAME(unbalanced_of(&p, REGION(&p, "around", "left open", "left open too")), 1);
	SAME(calls_of(&p, REGION(&p, "around", "left open", "left open too")), 1);
	/* An end of another name ends nothing. */
	WEIGH_BEGIN("begun");
	WEIGH_END("renamed");
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 1);
	SAME(unbalanced_of(&p, REGION(&p, "begun", "renamed")), 1);
	SAME(calls_of(&p, REGION(&p, "begun", "renamed")), 0);
	weigh_region_end(0);
	SAME(calls_of(&p, REGION(&p, "begun")), 1);
	weigh_region_end(0);
	SAME(unbalanced_of(&p, REGION(&p, "(other)")), 1);
	WEIGH_END("never begun");
	SAME(unbalanced_of(&p, REGION(&p, "never begun")), 1);
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
}

int main(int count, char **arguments)
{
	int listener = listener_of_this(arguments);

	(void)count;
	CHECK(weigh_regions_active);
	SAME(receive_profile(listener, &p), false);
	CHECK(!weigh_regions_why());
	CHECK(receive_profile(listener, &p));
	SAME(p.pid, getpid());
	WEIGH_BEGIN("first");
	WEIGH_END("first");
	nested();
	recursion();
	unbalanced();
	return 0;
}
