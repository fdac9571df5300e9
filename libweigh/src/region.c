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
static uint64_t begin_time(struct region_thread *t, struct open_call *call)
{
	uint8_t flags = weigh_name_flags[call->node[NODE_AT_NAME]];

	if (flags & NAME_OFF)
		call->special |= IS_OFF | IS_UNTIMED;
	else if (flags & NAME_BOUND)
		weigh_bound_begin(t, call);
	if (call->node[NODE_AT_BRAKED])
		call->special |= is_timed(t) ? IS_SAMPLED : IS_UNTIMED;
	return call->special & IS_UNTIMED ? 0 : ticks_now();
}

/* It has no frame: the outermost of those has the time of all. */
static void begin_deep(struct region_thread *t)
{
	profile_add(PROFILE_AT_FRAMES_LOST, 1);
	if (!t->deeper++) {
		store(&node_numbered(t->other)[NODE_AT_KIND], PROFILE_REGION);
		t->last->special |= HAS_DEEPER;
		t->deep_inside = 0;
		t->deep_begun = ticks_now();
	}
	store(&t->record[THREAD_AT_DEPTH], PROFILE_FRAMES + t->deeper);
}

INLINE void open_call(struct open_call *call, const struct child *child, uint64_t name)
{
	call->node = child->node;
	call->number = call->frame[FRAME_AT_NODE] = child->number;
	call->name = name;
	call->inside = call->frame[FRAME_AT_INSIDE] = 0;
}

INLINE void call_is_open(struct region_thread *t, struct open_call *call, uint64_t begun)
{
	call->begun = call->frame[FRAME_AT_BEGUN] = begun;
	weigh_here.top = call;
	store(&t->record[THREAD_AT_DEPTH], depth_of(t, call));
	thread_leave(t);
}

/* The long way: whatever may be. */
static __attribute__((noinline)) void push(struct region_thread *t, uint64_t name, uint64_t kind, uint64_t iteration)
{
	struct open_call *call = weigh_here.top + 1;

	if (call > t->last) {
		begin_deep(t);
		thread_leave(t);
		return;
	}
	open_call(call, child_of(t, innermost(t), kind, name), name);
	call->special = kind == PROFILE_PHASE ? IS_PHASE : 0;
	call->iteration = iteration;
	call_is_open(t, call, begin_time(t, call));
}

/* The short way calls nothing, so that nothing has to be saved for it. */
INLINE void push_quickly(struct region_thread *t, uint64_t name)
{
	struct open_call *outer = weigh_here.top, *call = outer + 1;
	uint64_t key = child_key(outer->number, PROFILE_REGION, name);
	const struct child *child = child_entry(t, key);

	if (UNLIKELY(child->key != key || child->is_special || call > t->last ||
		     atomic_load_explicit(&weigh_regions.goes_long_way, memory_order_relaxed)))
		return push(t, name, PROFILE_REGION, 0);
	open_call(call, child, name);
	call->special = 0;
	call_is_open(t, call, counter_now());
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
		return push_quickly(t, name);
	if (weigh_regions_active)
		begin_slowly(name, PROFILE_REGION, 0);
}

EXPORT void weigh_phase_begin(weigh_name name, uint64_t iteration)
{
	struct region_thread *t = thread_enter();

	if (LIKELY(t != 0))
		return push(t, name, PROFILE_PHASE, iteration);
	if (weigh_regions_active)
		begin_slowly(name, PROFILE_PHASE, iteration);
}

/* From so many calls on a short region without others inside is not timed each time. */
static void consider_brake(struct region_thread *t, uint64_t number, uint64_t *node, const uint64_t *version)
{
	uint64_t key = child_key(node[NODE_AT_PARENT], PROFILE_REGION, node[NODE_AT_NAME]);
	double mean = (double)version[VERSION_AT_INCLUSIVE] / (double)version[VERSION_AT_TIMED];

	if (weigh_regions.private->has_children[number] || node[NODE_AT_KIND] != PROFILE_REGION)
		return;
	if (mean >= (double)weigh_clock_ticks((double)PROFILE_BRAKE_NS))
		return;
	node[NODE_AT_BRAKED] = version[VERSION_AT_CALLS];
	if (child_entry(t, key)->key == key)
		child_entry(t, key)->is_special = 1;
}

INLINE bool may_be_braked(uint64_t calls)
{
	return calls == PROFILE_BRAKE_CALLS || !(calls & 0xffff);
}

/* Whether to consider it: at first, and then seldom, for that takes a while. */
INLINE bool is_often(const uint64_t *node, uint64_t calls)
{
	return may_be_braked(calls) && calls >= PROFILE_BRAKE_CALLS && !node[NODE_AT_BRAKED];
}

/* Adds a timed call to a version; how many calls there are then. */
INLINE uint64_t add_call(uint64_t *version, uint64_t elapsed, uint64_t inside)
{
	uint64_t calls = version[VERSION_AT_CALLS] + 1;

	version[VERSION_AT_CALLS] = calls;
	version[VERSION_AT_INCLUSIVE] += elapsed;
	version[VERSION_AT_EXCLUSIVE] += elapsed > inside ? elapsed - inside : 0;
	version[VERSION_AT_MIN] = elapsed < version[VERSION_AT_MIN] ? elapsed : version[VERSION_AT_MIN];
	version[VERSION_AT_MAX] = elapsed > version[VERSION_AT_MAX] ? elapsed : version[VERSION_AT_MAX];
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
static void add_timed(struct region_thread *t, uint64_t number, uint64_t *node, uint64_t elapsed, uint64_t inside)
{
	uint64_t *version = node_write(node), before = version[VERSION_AT_EXCLUSIVE];
	uint64_t calls = add_call(version, elapsed, inside);

	if (node[NODE_AT_BRAKED]) {
		version[VERSION_AT_EXCLUSIVE] = before;
		add_square(version, elapsed);
	}
	if (is_often(node, calls))
		consider_brake(t, number, node, version);
	node_written(node);
}

static void count_call(uint64_t *node)
{
	node_write(node)[VERSION_AT_CALLS]++;
	node_written(node);
}

static void write_phase(struct region_thread *t, const struct open_call *call, uint64_t now)
{
	uint64_t *used = &weigh_regions.words[PROFILE_AT_USED + PROFILE_PHASES];
	uint64_t number = __atomic_fetch_add(used, 1, __ATOMIC_RELAXED);
	uint64_t *record = record_numbered(PROFILE_PHASES, number, PHASE_LENGTH);

	__atomic_store_n(&record[PHASE_AT_STAMP], 0, __ATOMIC_RELAXED);
	WRITTEN_BEFORE();
	record[PHASE_AT_NAME] = call->node[NODE_AT_NAME];
	record[PHASE_AT_THREAD] = t->number;
	record[PHASE_AT_ITERATION] = call->iteration;
	record[PHASE_AT_BEGUN] = call->begun;
	record[PHASE_AT_ENDED] = now;
	record[PHASE_AT_EPOCH] = __atomic_load_n(&weigh_regions.words[PROFILE_AT_EPOCH], __ATOMIC_RELAXED);
	store(&record[PHASE_AT_STAMP], number + 1);
}

INLINE void call_is_closed(struct region_thread *t, struct open_call *call)
{
	weigh_here.top = call - 1;
	store(&t->record[THREAD_AT_DEPTH], depth_of(t, call) - 1);
}

/* Ends a call that has no time of its own: what was inside of it is inside of the one around it. */
static void end_untimed(struct region_thread *t, struct open_call *call)
{
	call_inside(call - 1, call->inside);
	call_is_closed(t, call);
	if (!(call->special & IS_OFF))
		count_call(call->node);
}

/* Ends a timed call. */
static void end_timed(struct region_thread *t, struct open_call *call, uint64_t now)
{
	uint64_t elapsed = now > call->begun ? now - call->begun : 0;

	call_inside(call - 1, elapsed);
	call_is_closed(t, call);
	add_timed(t, call->number, call->node, elapsed, call->inside);
	if (call->special & IS_PHASE) {
		write_phase(t, call, now);
		weigh_publish_phase(call->node[NODE_AT_NAME]);
	}
	if (now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed))
		weigh_publish_attend(now);
}

/* Ends the innermost call; the ticks at its end are `now`, 0: they are read if they are needed. */
static void end_call(struct region_thread *t, struct open_call *call, uint64_t now)
{
	if (call->special & IS_UNTIMED)
		end_untimed(t, call);
	else
		end_timed(t, call, now ? now : ticks_now());
	if (call->special & IS_BOUND)
		weigh_bound_end(t, call);
}

/* Ends the innermost of the calls that have no frame. */
static void end_deep(struct region_thread *t, uint64_t now)
{
	uint64_t *node = node_numbered(t->other), elapsed;

	store(&t->record[THREAD_AT_DEPTH], PROFILE_FRAMES + --t->deeper);
	if (t->deeper) {
		count_call(node);
		return;
	}
	t->last->special &= ~(uint64_t)HAS_DEEPER;
	elapsed = now > t->deep_begun ? now - t->deep_begun : 0;
	call_inside(t->last, elapsed);
	add_timed(t, t->other, node, elapsed, t->deep_inside);
}

/* Ends all that lies inside of this call, which nobody has ended. */
void weigh_region_end_all(struct region_thread *t, struct open_call *outer, uint64_t now)
{
	while (t->deeper) {
		node_numbered(t->other)[NODE_AT_UNBALANCED]++;
		end_deep(t, now);
	}
	for (struct open_call *call; (call = weigh_here.top) > outer;) {
		call->node[NODE_AT_UNBALANCED]++;
		end_call(t, call, now);
	}
}

static bool is_of_name(const struct open_call *call, uint64_t name)
{
	return !name || call->name == name || call->node[NODE_AT_NAME] == name;
}

/* Nothing of that name is open: the end is counted at its node. */
static void end_nothing(struct region_thread *t, uint64_t name)
{
	child_of(t, innermost(t), PROFILE_REGION, name)->node[NODE_AT_UNBALANCED]++;
}

/* An end of a call that is not the innermost one, or of none. */
static void pop_other(struct region_thread *t, uint64_t name, uint64_t now)
{
	struct open_call *call = weigh_here.top;

	while (call > t->open && !is_of_name(call, name))
		call--;
	if (call == t->open) {
		end_nothing(t, name);
		return;
	}
	weigh_region_end_all(t, call, now);
	end_call(t, call, now);
}

/* The long way: whatever may be. */
static __attribute__((noinline)) void pop(struct region_thread *t, uint64_t name, uint64_t now)
{
	struct open_call *call = weigh_here.top;

	if (t->deeper)
		end_deep(t, ticks_now());
	else if (call > t->open && is_of_name(call, name))
		end_call(t, call, now);
	else
		pop_other(t, name, ticks_now());
	thread_leave(t);
}

/* What is seldom to be done behind an end. */
static __attribute__((noinline)) void end_rest(struct region_thread *t, struct open_call *call, uint64_t now)
{
	uint64_t *version = node_write(call->node);

	if (is_often(call->node, version[VERSION_AT_CALLS]))
		consider_brake(t, call->number, call->node, version);
	node_written(call->node);
	if (now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed))
		weigh_publish_attend(now);
	thread_leave(t);
}

/* The short way calls nothing, so that nothing has to be saved for it. */
INLINE void pop_quickly(struct region_thread *t, uint64_t name)
{
	struct open_call *call = weigh_here.top;
	uint64_t *node = call->node, *version, now, elapsed, calls, sequence, epoch;

	if (UNLIKELY(call->special || (name && call->name != name) ||
		     atomic_load_explicit(&weigh_regions.goes_long_way, memory_order_relaxed)))
		return pop(t, name, 0);
	sequence = node[NODE_AT_SEQUENCE];
	now = counter_now();
	elapsed = now > call->begun ? now - call->begun : 0;
	version = node_write_quickly(node, sequence, &epoch);
	if (UNLIKELY(!version)) {
		store(&node[NODE_AT_SEQUENCE], (sequence | 1) + 1);
		return pop(t, name, now);
	}
	call_inside(call - 1, elapsed);
	call_is_closed(t, call);
	calls = add_call(version, elapsed, call->inside);
	store(&node[NODE_AT_SEQUENCE], (sequence | 1) + 1);
	if (UNLIKELY(now >= atomic_load_explicit(&weigh_regions.attend_at, memory_order_relaxed) ||
		     may_be_braked(calls)))
		return end_rest(t, call, now);
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
