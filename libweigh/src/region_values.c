/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counters, gauges, events; ranges; regions that were measured elsewhere.
 */
#include "region.h"
#include <string.h>

static __attribute__((noinline)) struct region_thread *enter_slowly(void)
{
	struct region_thread *t = weigh_thread_enter_slowly();

	if (!t)
		weigh_profile_lose();
	return t;
}

INLINE struct region_thread *enter(void)
{
	struct region_thread *t = thread_enter();

	return LIKELY(t != 0) || !weigh_regions_active ? t : enter_slowly();
}

INLINE void add_number(uint64_t *version, int64_t number)
{
	uint64_t calls = version[VERSION_AT_CALLS];

	version[VERSION_AT_INCLUSIVE] += (uint64_t)number;
	version[VERSION_AT_EXCLUSIVE] = (uint64_t)number;
	if (number < (int64_t)version[VERSION_AT_MIN] || !calls)
		version[VERSION_AT_MIN] = (uint64_t)number;
	if (number > (int64_t)version[VERSION_AT_MAX] || !calls)
		version[VERSION_AT_MAX] = (uint64_t)number;
	version[VERSION_AT_CALLS] = version[VERSION_AT_TIMED] = calls + 1;
}

/* The long way: whatever may be. */
static __attribute__((noinline)) void add_long(struct region_thread *t, weigh_name name, int64_t number)
{
	uint64_t *node = child_of(t, t->root, PROFILE_COUNTER, name)->node;

	add_number(node_write(node), number);
	node_written(node);
	thread_leave(t);
}

static __attribute__((noinline)) void add_slowly(weigh_name name, int64_t number)
{
	struct region_thread *t = enter_slowly();

	if (t)
		add_long(t, name, number);
}

/* As begin and end: the short way calls nothing. */
EXPORT void weigh_counter_add(weigh_name name, int64_t number)
{
	struct region_thread *t = thread_enter();
	uint64_t key, *node, *version, sequence, epoch;
	const struct child *child;

	if (UNLIKELY(!t)) {
		if (weigh_regions_active)
			add_slowly(name, number);
		return;
	}
	key = child_key(t->root, PROFILE_COUNTER, name);
	child = child_entry(t, key);
	if (UNLIKELY(child->key != key))
		return add_long(t, name, number);
	node = child->node;
	sequence = node[NODE_AT_SEQUENCE];
	version = node_write_quickly(node, sequence, &epoch);
	if (LIKELY(version != 0))
		add_number(version, number);
	store(&node[NODE_AT_SEQUENCE], (sequence | 1) + 1);
	if (UNLIKELY(!version))
		return add_long(t, name, number);
	thread_leave(t);
}

static double get(const uint64_t *word)
{
	double value;

	memcpy(&value, word, sizeof(value));
	return value;
}

static void set(uint64_t *word, double value)
{
	memcpy(word, &value, sizeof(value));
}

static void add_value(uint64_t *node, double value)
{
	uint64_t *version = node_write(node), calls = version[VERSION_AT_CALLS];

	set(&version[VERSION_AT_INCLUSIVE], get(&version[VERSION_AT_INCLUSIVE]) + value);
	set(&version[VERSION_AT_EXCLUSIVE], value);
	if (!calls || value < get(&version[VERSION_AT_MIN]))
		set(&version[VERSION_AT_MIN], value);
	if (!calls || value > get(&version[VERSION_AT_MAX]))
		set(&version[VERSION_AT_MAX], value);
	version[VERSION_AT_CALLS] = version[VERSION_AT_TIMED] = calls + 1;
	node_written(node);
}

EXPORT void weigh_gauge_set(weigh_name name, double value)
{
	struct region_thread *t = enter();

	if (!t)
		return;
	add_value(child_of(t, t->root, PROFILE_GAUGE, name)->node, value);
	thread_leave(t);
}

static void write_event(struct region_thread *t, uint64_t name, double value)
{
	uint64_t *used = &weigh_regions.words[PROFILE_AT_USED + PROFILE_EVENTS];
	uint64_t number = __atomic_fetch_add(used, 1, __ATOMIC_RELAXED);
	uint64_t *record = record_numbered(PROFILE_EVENTS, number, EVENT_LENGTH);

	__atomic_store_n(&record[EVENT_AT_STAMP], 0, __ATOMIC_RELAXED);
	WRITTEN_BEFORE();
	record[EVENT_AT_NAME] = name;
	record[EVENT_AT_THREAD] = t->number;
	record[EVENT_AT_AT] = ticks_now();
	set(&record[EVENT_AT_VALUE], value);
	record[EVENT_AT_EPOCH] = __atomic_load_n(&weigh_regions.words[PROFILE_AT_EPOCH], __ATOMIC_RELAXED);
	store(&record[EVENT_AT_STAMP], number + 1);
}

EXPORT void weigh_event_tell(weigh_name name, double value)
{
	struct region_thread *t = enter();
	uint64_t *node;

	if (!t)
		return;
	node = child_of(t, t->root, PROFILE_EVENT, name)->node;
	add_value(node, value);
	write_event(t, node[NODE_AT_NAME], value);
	thread_leave(t);
}

/* Adds calls that were measured: ticks, of which so many are the region's own. */
static void add_calls(uint64_t *node, uint64_t calls, uint64_t ticks, uint64_t own, uint64_t min, uint64_t max)
{
	uint64_t *version = node_write(node);

	if (min < version[VERSION_AT_MIN])
		version[VERSION_AT_MIN] = min;
	if (max > version[VERSION_AT_MAX])
		version[VERSION_AT_MAX] = max;
	version[VERSION_AT_CALLS] += calls;
	version[VERSION_AT_TIMED] += calls;
	version[VERSION_AT_INCLUSIVE] += ticks;
	version[VERSION_AT_EXCLUSIVE] += own;
	node_written(node);
}

EXPORT void weigh_region_add(weigh_name name, uint64_t calls, uint64_t total_ns, uint64_t min_ns, uint64_t max_ns)
{
	struct region_thread *t = enter();
	uint64_t ticks;

	if (!t)
		return;
	ticks = weigh_clock_ticks((double)total_ns);
	add_calls(child_of(t, innermost(t), PROFILE_REGION, name)->node, calls, ticks, ticks,
		  weigh_clock_ticks((double)min_ns), weigh_clock_ticks((double)max_ns));
	if (t->deeper)
		t->deep_inside += ticks;
	else
		call_inside(weigh_here.top, ticks);
	thread_leave(t);
}

/* Goes on in children, so that a range of the parent's is none of theirs. */
static _Atomic uint64_t range_serial;

static struct range *free_range(uint64_t serial)
{
	for (uint64_t i = 0; i < MOST_RANGES; i++) {
		struct range *range = &weigh_regions.private->ranges[(serial + i) % MOST_RANGES];
		uint64_t none = 0;

		if (!atomic_load_explicit(&range->id, memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&range->id, &none, 1))
			return range;
	}
	return 0;
}

EXPORT uint64_t weigh_range_begin(weigh_name name)
{
	struct region_thread *t = enter();
	struct range *range;
	uint64_t serial, id;

	if (!t)
		return 0;
	serial = atomic_fetch_add(&range_serial, 1) + 1;
	range = free_range(serial);
	if (!range) {
		profile_add(PROFILE_AT_FRAMES_LOST, 1);
		thread_leave(t);
		return 0;
	}
	id = serial * MOST_RANGES + (uint64_t)(range - weigh_regions.private->ranges);
	range->name = name;
	range->begun = ticks_now();
	atomic_store(&range->id, id);
	thread_leave(t);
	return id;
}

/* An end of what is no range, or was ended before. */
static void end_no_range(struct region_thread *t)
{
	uint64_t *node = node_numbered(t->other);

	store(&node[NODE_AT_KIND], PROFILE_REGION);
	node[NODE_AT_UNBALANCED]++;
}

EXPORT void weigh_range_end(uint64_t id)
{
	struct region_thread *t = enter();
	struct range *range;
	uint64_t name, begun, elapsed, expected = id;

	if (!t)
		return;
	range = &weigh_regions.private->ranges[id % MOST_RANGES];
	name = range->name;
	begun = range->begun;
	if (id < MOST_RANGES || !atomic_compare_exchange_strong(&range->id, &expected, 0)) {
		end_no_range(t);
	} else {
		elapsed = ticks_now() - begun;
		add_calls(child_of(t, t->root, PROFILE_RANGE, name)->node, 1, elapsed, 0, elapsed, elapsed);
	}
	thread_leave(t);
}
