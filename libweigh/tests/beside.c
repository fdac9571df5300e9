/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sleeps three times for 30 ms, the second time in an interval: for a weigh that follows its calls meanwhile.
 *
 * usage: beside
 */
#include "check.h"

int main(void)
{
	struct timespec pause = { 0, 30000000 };
	weigh *w = measured();

	for (int i = 0; i < 3; i++) {
		if (i == 1)
			CHECK(!weigh_begin(w, 17, bit(WEIGH_SCHED)));
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
		if (i == 1)
			weigh_end(w);
	}
	CHECK(weigh_read(w, 17)->parts[WEIGH_SCHED].waiting_ns >= 20000000);
	CHECK(weigh_read(w, 17)->time_ns >= 30000000);
	return 0;
}
