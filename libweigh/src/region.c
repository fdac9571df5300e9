/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Begin and end of regions and phases.
 */
#include "region.h"
#include <string.h>

/* One call in so many of a braked region is timed, by chance: what comes each so many calls must not be met always. */
static bool is_timed(struct region_thread *t)
{
	t->random = t->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return t->random >> 32 < (1ULL << 32) / PROFILE_BRAKED_TIMED;
}

/* When a call begins; 0: it is not timed. */
static uint64_t begin_time(struct region_thread *t, uint64_t depth, uint64_t *node, uint64_t name)
{
	uint8_t flags = weigh_name_flags[weigh_name_checked(name)];

	if (flags & NAME_OFF) {
		t->off |= 1ULL << depth;
		return 0;
	}
	if (flags & NAME_BOUND)
		weigh_bound_begin(t, depth, node);
	return !node[NODE_AT_BRAKED] || is_timed(t) ? ticks_now() : 0;
}

/* It has no frame: the outermost of those has the time of all. */
static void begin_deep(struct region_thread *t, uint64_t depth)
{
	profile_add(PROFILE_AT_FRAMES_LOST, 1);
	if (depth == PROFILE_FRAMES) {
		store(&node_numbered(t->other)[NODE_AT_KIND], PROFILE_REGION);
		t->deep_inside = 0;
		t->deep_begun = ticks_now();
	}
	store(&t->record[THREAD_AT_DEPTH], depth + 1);
}

/* The long way: whatever may be. */
static __attribute__((noinline)) void push(struct region_thread *t, uint64_t name, uint64_t kind, uint64_t iteration)
{
	uint64_t *record = t->record, depth = record[THREAD_AT_DEPTH], *frame;
	const struct child *child;

	if (depth >= PROFILE_FRAMES) {
		begin_deep(t, depth);
	} else {
		frame = frame_numbered(record, depth);
		child = child_of(t, innermost(t), kind, name);
		frame[FRAME_AT_NODE] = child->number;
		frame[FRAME_AT_INSIDE] = 0;
		t->iterations[depth] = iteration;
		frame[FRAME_AT_BEGUN] = begin_time(t, depth, child->node, name);
		store(&record[THREAD_AT_DEPTH], depth + 1);
	}
	thread_leave(t);
}

/* The short way calls nothing, so that nothing has to be saved for it. */
INLINE void push_quickly(struct region_thread *t, uint64_t name, uint64_t kind, uint64_t iteration)
{
	uint64_t *record = t->record, depth = record[THREAD_AT_DEPTH], *frame = frame_numbered(record, depth), key;
	const struct child *child;

	if (UNLIKELY(depth >= PROFILE_FRAMES))
		return push(t, name, kind, iteration);
	key = child_key(depth ? frame[(int)FRAME_AT_NODE - FRAME_LENGTH] : t->root, kind, name);
	child = child_entry(t, key);
	if (UNLIKELY(child->key != key || child->node[NODE_AT_BRAKED] ||
		     atomic_load_explicit(&weigh_regions.goes_long_way, memory_order_relaxed)))
		return push(t, name, kind, iteration);
	frame[FRAME_AT_NODE] = child->number;
	frame[FRAME_AT_INSIDE] = 0;
	if (kind == PROFILE_PHASE)
		t->iterations[depth] = iteration;
	frame[FRAME_AT_BEGUN] = counter_now();
	store(&record[THREAD_AT_DEPTH], depth + 1);
	thread_leave(t);
}

static __attribute__((noinline)) void begin_slowly(uint64_t name, uint64_t kind, uint64_t iteration)
{
	struct region_thread *t = weigh_thread_enter_slowly();

	if (t) {
		push(t, name, kind, iteration);
		return;
	}
	t = weigh_here.thread;
	if (t->record) {
		t->skipped++;
		weigh_profile_lose();
	} else if (!weigh_here.is_inside) {
		weigh_lost_begin();
	}
}

EXPORT void weigh_region_begin(weigh_name name)
{
	struct region_thread *t = thread_enter();

	if (LIKELY(t != 0))
		return push_quickly(t, name, PROFILE_REGION, 0);
	if (weigh_regions_active)
		begin_slowly(name, PROFILE_REGION, 0);
}

EXPORT void weigh_phase_begin(weigh_name name, uint64_t iteration)
{
	struct region_thread *t = thread_enter();

	if (LIKELY(t != 0))
		return push_quickly(t, name, PROFILE_PHASE, iteration);
	if (weigh_regions_active)
		begin_slowly(name, PROFILE_PHASE, iteration);
}

/* From so many calls on a short region without others inside is not timed each time. */
static void consider_brake(uint64_t number, uint64_t *node, const uint64_t *version)
{
	double mean = (double)version[VERSION_AT_INCLUSIVE] / (double)version[VERSION_AT_TIMED];

	if (weigh_regions.private->has_children[number] || node[NODE_AT_KIND] != PROFILE_REGION)
		return;
	if (mean < (double)weigh_clock_ticks((double)PROFILE_BRAKE_NS))
		node[NODE_AT_BRAKED] = version[VERSION_AT_CALLS];
}

/* Whether to consider it: at first, and then seldom, for that takes a while. */
INLINE bool is_often(const uint64_t *node, uint64_t calls)
{
	return calls >= PROFILE_BRAKE_CALLS && !node[NODE_AT_BRAKED] &&
	       (calls == PROFILE_BRAKE_CALLS || !(calls % (PROFILE_BRAKE_CALLS / 2)));
}

/* Adds a timed call to a version; how many calls there are then. */
INLINE uint64_t add_call(uint64_t *version, uint64_t elapsed, uint64_t inside)
{
	uint64_t calls = version[VERSION_AT_CALLS] + 1;

	version[VERSION_AT_CALLS] = calls;
	version[VERSION_AT_INCLUSIVE] += elapsed;
	version[VERSION_AT_EXCLUSIVE] += elapsed > inside ? elapsed - inside : 0;
	if (elapsed < version[VERSION_AT_MIN] || !version[VERSION_AT_TIMED])
		version[VERSION_AT_MIN] = elapsed;
	if (elapsed > version[VERSION_AT_MAX])
		version[VERSION_AT_MAX] = elapsed;
	version[VERSION_AT_TIMED]++;
	return calls;
}

static void add_square(uint64_t *version, uint64_t elapsed)
{
	double squares;

	memcpy(&squares, &version[VERSION_AT_SQUARES], sizeof(squares));
	squares += (double)elapsed * (double)elapsed;
	memcpy(&version[VERSION_AT_SQUARES], &squares, sizeof(squares));
}

/* The same of a node. */
static void add_timed(uint64_t number, uint64_t *node, uint64_t elapsed, uint64_t inside)
{
	uint64_t *version = node_write(node), calls = add_call(version, elapsed, inside);

	if (node[NODE_AT_BRAKED])
		add_square(version, elapsed);
	if (is_often(node, calls))
		consider_brake(number, node, version);
	node_written(node);
}

static void count_call(uint64_t *node)
{
	node_write(node)[VERSION_AT_CALLS]++;
	node_written(node);
}

static void write_phase(struct region_thread *t, uint64_t depth, const uint64_t *node, uint64_t now)
{
	uint64_t *used = &weigh_regions.words[PROFILE_AT_USED + PROFILE_PHASES];
	uint64_t number = __atomic_fetch_add(used, 1, __ATOMIC_RELAXED);
	uint64_t *record = record_numbered(PROFILE_PHASES, number, PHASE_LENGTH);

	__atomic_store_n(&record[PHASE_AT_STAMP], 0, __ATOMIC_RELAXED);
	WRITTEN_BEFORE();
	record[PHASE_AT_NAME] = node[NODE_AT_NAME];
	record[PHASE_AT_THREAD] = t->number;
	record[PHASE_AT_ITERATION] = t->iterations[depth];
	record[PHASE_AT_BEGUN] = frame_numbered(t->record, depth)[FRAME_AT_BEGUN];
	record[PHASE_AT_ENDED] = now;
	record[PHASE_AT_EPOCH] = __atomic_load_n(&weigh_regions.words[PROFILE_AT_EPOCH], __ATOMIC_RELAXED);
	store(&record[PHASE_AT_STAMP], number + 1);
}

/* Ends a call that has no time of its own: what was inside of it is inside of the one around it. */
static void end_untimed(struct region_thread *t, uint64_t depth, uint64_t *node)
{
	uint64_t *frame = frame_numbered(t->record, depth);

	if (depth)
		frame[(int)FRAME_AT_INSIDE - FRAME_LENGTH] += frame[FRAME_AT_INSIDE];
	store(&t->record[THREAD_AT_DEPTH], depth);
	if (!(t->off >> depth & 1))
		count_call(node);
}

/* Ends a timed call. */
static void end_timed(struct region_thread *t, uint64_t depth, uint64_t *node, uint64_t now)
{
	uint64_t *frame = frame_numbered(t->record, depth), begun = frame[FRAME_AT_BEGUN];
	uint64_t elapsed = now > begun ? now - begun : 0;

	if (depth)
		frame[(int)FRAME_AT_INSIDE - FRAME_LENGTH] += elapsed;
	store(&t->record[THREAD_AT_DEPTH], depth);
	add_timed(frame[FRAME_AT_NODE], node, elapsed, frame[FRAME_AT_INSIDE]);
	if (node[NODE_AT_KIND] == PROFILE_PHASE) {
		write_phase(t, depth, node, now);
		weigh_publish_phase(node[NODE_AT_NAME]);
	}
	if (now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed))
		weigh_publish_attend(now);
}

/* Ends the call whose frame has this number; the ticks at its end are `now`, 0: they are read if they are needed. */
static void end_frame(struct region_thread *t, uint64_t depth, uint64_t now)
{
	uint64_t *frame = frame_numbered(t->record, depth), *node = node_numbered(frame[FRAME_AT_NODE]);

	if (frame[FRAME_AT_BEGUN])
		end_timed(t, depth, node, now ? now : ticks_now());
	else
		end_untimed(t, depth, node);
	if (t->bound >> depth & 1)
		weigh_bound_end(t, depth);
	t->off &= ~(1ULL << depth);
	t->bound &= ~(1ULL << depth);
}

/* Ends the innermost of the calls that have no frame. */
static void end_deep(struct region_thread *t, uint64_t depth, uint64_t now)
{
	uint64_t *node = node_numbered(t->other), elapsed;

	store(&t->record[THREAD_AT_DEPTH], depth - 1);
	if (depth - 1 > PROFILE_FRAMES) {
		count_call(node);
		return;
	}
	elapsed = now > t->deep_begun ? now - t->deep_begun : 0;
	frame_numbered(t->record, PROFILE_FRAMES - 1)[FRAME_AT_INSIDE] += elapsed;
	add_timed(t->other, node, elapsed, t->deep_inside);
}

/* Ends all that lies inside of the calls up to this depth, which nobody has ended. */
void weigh_region_end_all(struct region_thread *t, uint64_t depth, uint64_t now)
{
	for (uint64_t open; (open = t->record[THREAD_AT_DEPTH]) > depth;) {
		if (open > PROFILE_FRAMES) {
			node_numbered(t->other)[NODE_AT_UNBALANCED]++;
			end_deep(t, open, now);
			continue;
		}
		node_numbered(frame_numbered(t->record, open - 1)[FRAME_AT_NODE])[NODE_AT_UNBALANCED]++;
		end_frame(t, open - 1, now);
	}
}

static bool is_of_name(struct region_thread *t, uint64_t depth, uint64_t name)
{
	uint64_t number = frame_numbered(t->record, depth)[FRAME_AT_NODE];

	return number == t->other || node_numbered(number)[NODE_AT_NAME] == name;
}

/* Nothing of that name is open: the end is counted at its node. */
static void end_nothing(struct region_thread *t, uint64_t name)
{
	child_of(t, innermost(t), PROFILE_REGION, name)->node[NODE_AT_UNBALANCED]++;
}

/* An end that does not end the innermost frame, or may not. */
static void pop_other(struct region_thread *t, uint64_t name)
{
	uint64_t depth = t->record[THREAD_AT_DEPTH], now = ticks_now(), at = depth;
	uint64_t checked = weigh_name_checked(name);

	if (depth > PROFILE_FRAMES) {
		end_deep(t, depth, now);
		return;
	}
	while (at && name && !is_of_name(t, at - 1, checked))
		at--;
	if (!at) {
		end_nothing(t, name);
		return;
	}
	weigh_region_end_all(t, at, now);
	end_frame(t, at - 1, now);
}

static bool is_innermost(struct region_thread *t, uint64_t depth, uint64_t name)
{
	return depth < PROFILE_FRAMES &&
	       (!name || node_numbered(frame_numbered(t->record, depth)[FRAME_AT_NODE])[NODE_AT_NAME] == name);
}

/* The long way: whatever may be. */
static __attribute__((noinline)) void pop(struct region_thread *t, uint64_t name, uint64_t now)
{
	uint64_t depth = t->record[THREAD_AT_DEPTH] - 1;

	if (is_innermost(t, depth, name))
		end_frame(t, depth, now);
	else
		pop_other(t, name);
	thread_leave(t);
}

/* What is seldom to be done behind an end. */
static __attribute__((noinline)) void end_rest(struct region_thread *t, uint64_t number, uint64_t now)
{
	uint64_t *node = node_numbered(number), *version = node_write(node);

	if (is_often(node, version[VERSION_AT_CALLS]))
		consider_brake(number, node, version);
	node_written(node);
	if (now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed))
		weigh_publish_attend(now);
	thread_leave(t);
}

/* The short way calls nothing, so that nothing has to be saved for it. */
INLINE void pop_quickly(struct region_thread *t, uint64_t name)
{
	uint64_t *record = t->record, depth = record[THREAD_AT_DEPTH] - 1, *frame = frame_numbered(record, depth);
	uint64_t *node, *version, begun, now, elapsed, calls, epoch;

	if (UNLIKELY(depth >= PROFILE_FRAMES || t->bound || t->off))
		return pop(t, name, 0);
	node = node_numbered(frame[FRAME_AT_NODE]);
	begun = frame[FRAME_AT_BEGUN];
	if (UNLIKELY((name && node[NODE_AT_NAME] != name) || node[NODE_AT_KIND] != PROFILE_REGION ||
		     node[NODE_AT_BRAKED] || !begun ||
		     atomic_load_explicit(&weigh_regions.goes_long_way, memory_order_relaxed)))
		return pop(t, name, 0);
	now = counter_now();
	elapsed = now > begun ? now - begun : 0;
	version = node_write_quickly(node, &epoch);
	if (UNLIKELY(!version)) {
		node_written(node);
		return pop(t, name, now);
	}
	if (depth)
		frame[(int)FRAME_AT_INSIDE - FRAME_LENGTH] += elapsed;
	store(&record[THREAD_AT_DEPTH], depth);
	calls = add_call(version, elapsed, frame[FRAME_AT_INSIDE]);
	node_written(node);
	if (UNLIKELY(now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed) ||
		     calls >= PROFILE_BRAKE_CALLS))
		return end_rest(t, frame[FRAME_AT_NODE], now);
	thread_leave(t);
}

static __attribute__((noinline)) void end_slowly(uint64_t name)
{
	struct region_thread *t = weigh_thread_enter_slowly();

	if (t) {
		pop(t, name, 0);
		return;
	}
	t = weigh_here.thread;
	if (t->record) {
		if (t->skipped)
			t->skipped--;
		else
			weigh_profile_lose();
	} else if (!weigh_here.is_inside) {
		weigh_lost_end();
	}
}

EXPORT void weigh_region_end(weigh_name name)
{
	struct region_thread *t = thread_enter();

	if (LIKELY(t != 0))
		return pop_quickly(t, name);
	if (weigh_regions_active)
		end_slowly(name);
}

EXPORT void weigh_phase_end(weigh_name name)
{
	weigh_region_end(name);
}
