/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ranges that a program knows by a number of its convention's, and may end on another thread: those that are open, in a
 * table that is looked through from the number's hash on.
 */
#include "tools.h"

#include <pthread.h>

enum { OPEN = 1024 };
static struct open_range {
	const void *owner;
	struct tools_id id;
	uint64_t range;
} opened[OPEN];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned hash_of(const void *owner, struct tools_id id)
{
	uint64_t hash = (uintptr_t)owner * 31 + id.d1 * 0x9E3779B97F4A7C15ULL + id.d2 * 7 + id.d3;

	return (unsigned)(hash ^ hash >> 29) % OPEN;
}

static bool is_same(const struct open_range *range, const void *owner, struct tools_id id)
{
	return range->owner == owner && range->id.d1 == id.d1 && range->id.d2 == id.d2 && range->id.d3 == id.d3;
}

/* The open range of an owner and number, or with `is_new` a free place for it. */
static struct open_range *find(const void *owner, struct tools_id id, bool is_new)
{
	unsigned start = hash_of(owner, id);

	for (unsigned i = 0; i < OPEN; i++) {
		struct open_range *at = &opened[(start + i) % OPEN];
		if (is_new ? !at->range : at->range && is_same(at, owner, id))
			return at;
	}
	return NULL;
}

void tools_range_begin(const void *owner, struct tools_id id, weigh_name name)
{
	uint64_t range = tools_api.weigh_range_begin(name);

	pthread_mutex_lock(&lock);
	struct open_range *at = range ? find(owner, id, true) : NULL;
	if (at)
		*at = (struct open_range){ owner, id, range };
	pthread_mutex_unlock(&lock);
}

void tools_range_end(const void *owner, struct tools_id id)
{
	uint64_t range = 0;

	pthread_mutex_lock(&lock);
	struct open_range *at = find(owner, id, false);
	if (at) {
		range = at->range;
		at->range = 0;
	}
	pthread_mutex_unlock(&lock);
	tools_api.weigh_range_end(range);
}
