/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Publishing: by the program, by time, by phases.
 */
#include "region.h"

#define REFRESH_NS 1e8
/* Some of that, until it is known how long a tick is. */
#define FIRST_TICKS 1000000

/* Ticks of 0.1 s, and of the time between publishes; 0: not by time. */
static _Atomic uint64_t refresh_ticks, refresh_at, every_ticks, publish_at;
static _Atomic uint64_t every_ends, every_phase, ends;

/* Nothing of a parent's goes on in its child but what it has said of when to publish. */
void weigh_publish_forget(void)
{
	atomic_store(&refresh_ticks, FIRST_TICKS);
	atomic_store(&refresh_at, 0);
	atomic_store(&publish_at, 0);
	atomic_store(&ends, 0);
}

/* Writes the later pair if 0.1 s has passed since it was written. */
static void refresh(uint64_t now)
{
	uint64_t at = atomic_load_explicit(&refresh_at, memory_order_relaxed);

	if (now < at || !atomic_compare_exchange_strong(&refresh_at, &at, UINT64_MAX))
		return;
	if (weigh_clock_is_known()) {
		weigh_clock_refresh();
		atomic_store(&refresh_ticks, weigh_clock_ticks(REFRESH_NS));
	}
	atomic_store(&refresh_at, now + atomic_load(&refresh_ticks));
}

INLINE void publish(void)
{
	__atomic_fetch_add(&weigh_regions.words[PROFILE_AT_EPOCH], 1, __ATOMIC_RELEASE);
}

EXPORT void weigh_publish(void)
{
	if (!weigh_regions_active)
		return;
	if (UNLIKELY(!has_profile()) && !weigh_profile_prepare())
		return;
	publish();
	refresh(ticks_now());
}

/* What is to be done when so much time has passed: the later pair, and a publish. */
void weigh_publish_attend(uint64_t now)
{
	uint64_t every = atomic_load(&every_ticks), at = atomic_load(&publish_at), next;

	refresh(now);
	if (every && now >= at && atomic_compare_exchange_strong(&publish_at, &at, now + every))
		publish();
	next = now + atomic_load(&refresh_ticks);
	if (every && atomic_load(&publish_at) < next)
		next = atomic_load(&publish_at);
	atomic_store(&weigh_regions.attend_at, next);
}

/* A phase has ended. */
void weigh_publish_phase(uint64_t name)
{
	uint64_t every = atomic_load_explicit(&every_ends, memory_order_relaxed);
	uint64_t phase = atomic_load_explicit(&every_phase, memory_order_relaxed);

	if (!every || (phase && phase != name))
		return;
	if (!((atomic_fetch_add(&ends, 1) + 1) % every))
		publish();
}

/* Publishes each so many seconds from now on; 0: not by time. */
void weigh_publish_by_time(double seconds)
{
	uint64_t ticks = seconds > 0 ? weigh_clock_ticks(seconds * 1e9) : 0;

	atomic_store(&publish_at, ticks_now() + ticks);
	atomic_store(&every_ticks, ticks);
	atomic_store(&weigh_regions.attend_at, 0);
}

EXPORT void weigh_publish_every(double seconds, weigh_name phase, uint64_t iterations)
{
	if (!weigh_regions_active || !weigh_profile_prepare())
		return;
	atomic_store(&every_phase, phase);
	atomic_store(&every_ends, iterations);
	atomic_store(&ends, 0);
	weigh_publish_by_time(seconds);
}
