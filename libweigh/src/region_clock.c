/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The clock of a profile: the CPU's counter where it runs evenly and the kernel itself keeps time by it, else
 * CLOCK_MONOTONIC. Two pairs of both say how long a tick is.
 */
#include "region.h"
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* After so long the two clocks are known to a ten-thousandth. */
#define CALIBRATION_NS 200000ULL
#define TRIES 5

#if defined(__x86_64__)

#define KERNEL_CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static bool kernel_uses_tsc(void)
{
	int file = open(KERNEL_CLOCK, O_RDONLY | O_CLOEXEC);
	char text[8] = { 0 };
	ssize_t length = file < 0 ? 0 : read(file, text, sizeof(text) - 1);

	if (file >= 0)
		close(file);
	return length >= 4 && !memcmp(text, "tsc\n", 4);
}

bool weigh_clock_is_counter(void)
{
	unsigned a, b, c, d;
	int may_read = PR_TSC_ENABLE;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1 << 8))
		return false;
	prctl(PR_GET_TSC, &may_read, 0, 0, 0);
	return may_read == PR_TSC_ENABLE && kernel_uses_tsc();
}

#elif defined(__aarch64__)

bool weigh_clock_is_counter(void)
{
	return true;
}

#else

bool weigh_clock_is_counter(void)
{
	return false;
}

#endif

/* Both clocks at one moment: the narrowest of some tries. */
struct clock_pair weigh_clock_pair(void)
{
	struct clock_pair best = { 0 };
	uint64_t narrowest = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = ticks_now(), ns = clock_now(), after = ticks_now();

		if (after - before < narrowest) {
			narrowest = after - before;
			best = (struct clock_pair){ before + narrowest / 2, ns };
		}
	}
	return best;
}

/* Writes the later pair. Where another thread does so that is enough. */
void weigh_clock_refresh(void)
{
	uint64_t *words = weigh_regions.words, *sequence = &words[PROFILE_AT_PAIR_SEQUENCE];
	uint64_t even = __atomic_load_n(sequence, __ATOMIC_RELAXED);
	struct clock_pair now;

	if (even & 1 || !__atomic_compare_exchange_n(sequence, &even, even + 1, false, __ATOMIC_ACQUIRE,
						     __ATOMIC_RELAXED))
		return;
	WRITTEN_BEFORE();
	now = weigh_clock_pair();
	words[PROFILE_AT_LAST_TICKS] = now.ticks;
	words[PROFILE_AT_LAST_NS] = now.ns;
	store(sequence, even + 2);
}

bool weigh_clock_is_known(void)
{
	return !weigh_regions.by_counter ||
	       clock_now() - weigh_regions.words[PROFILE_AT_FIRST_NS] > CALIBRATION_NS;
}

/* So many nanoseconds in ticks, as the clock has run until now. Waits until that is known. */
uint64_t weigh_clock_ticks(double ns)
{
	uint64_t *words = weigh_regions.words;
	struct clock_pair now;

	if (!weigh_regions.by_counter)
		return (uint64_t)ns;
	while (!weigh_clock_is_known())
		;
	now = weigh_clock_pair();
	ns *= (double)(now.ticks - words[PROFILE_AT_FIRST_TICKS]) / (double)(now.ns - words[PROFILE_AT_FIRST_NS]);
	return ns < 1.8e19 ? (uint64_t)ns : UINT64_MAX;
}
