/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The rings of a stream, read where they lie. What a ring holds is believed only as far as it can be checked: a
 * record is one if it has its position's stamp, an event that was described, and the size of that event's records.
 */
#include "trace.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char *element(const weigh_trace *t, uint64_t ring)
{
	return t->rings + ring * (WEIGH_RING_LINE + t->ring_bytes + WEIGH_RING_SLOP);
}

static uint64_t head(const weigh_trace *t, uint64_t ring)
{
	const struct weigh_ring_line *line = (const void *)element(t, ring);

	return load(&line->head);
}

/* The kernel maps an array whole or not at all; of other memory nobody must be able to take a part away. */
static bool keeps_its_size(int rings)
{
	char name[32], target[64] = "";
	int seals = fcntl(rings, F_GET_SEALS);

	if (seals >= 0)
		return seals & F_SEAL_SHRINK;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", rings);
	return readlink(name, target, sizeof(target) - 1) > 0 && !strcmp(target, "anon_inode:bpf-map");
}

bool weigh_trace_map(weigh_trace *t, int rings)
{
	const struct weigh_ring_line *line;
	uint64_t count, bytes;
	void *mapping;

	if (!keeps_its_size(rings))
		return false;
	mapping = mmap(0, WEIGH_RING_LINE, PROT_READ, MAP_SHARED, rings, 0);
	if (mapping == MAP_FAILED)
		return false;
	line = mapping;
	count = line->magic == WEIGH_RING_MAGIC ? line->rings : 0;
	bytes = line->bytes;
	t->ring_key = line->key;
	munmap(mapping, WEIGH_RING_LINE);
	if (!count || count > WEIGH_RING_MOST_RINGS || bytes < WEIGH_RING_LEAST_BYTES ||
	    bytes > WEIGH_RING_MOST_BYTES || (bytes & (bytes - 1)))
		return false;
	t->bytes = count * (WEIGH_RING_LINE + bytes + WEIGH_RING_SLOP);
	if (fcntl(rings, F_GET_SEALS) >= 0 && (uint64_t)lseek(rings, 0, SEEK_END) < t->bytes)
		return false;
	mapping = mmap(0, t->bytes, PROT_READ, MAP_SHARED, rings, 0);
	if (mapping == MAP_FAILED)
		return false;
	t->rings = mapping;
	t->ring_count = count;
	t->ring_bytes = bytes;
	return true;
}

enum found { FOUND, PENDING, OVERTAKEN, UNKNOWN_EVENT, BROKEN };

/* A record, and what it said of itself while it was whole. */
struct record {
	const struct weigh_event *begin;
	uint32_t event, size;
};

/* What is at a position; if it is a record, which. */
static enum found look(const weigh_trace *t, uint64_t ring, uint64_t at, struct record *found)
{
	uint64_t there = head(t, ring) - at;
	const unsigned char *stamp = element(t, ring) + WEIGH_RING_LINE + (at & (t->ring_bytes - 1));
	const struct weigh_event *event = (const void *)(stamp + WEIGH_RING_STAMP);
	uint32_t number, size;

	if (!there)
		return PENDING;
	if (at % WEIGH_RING_ALIGNMENT || there > UINT64_MAX / 2)
		return BROKEN;
	if (there > t->ring_bytes)
		return OVERTAKEN;
	if (load((const uint64_t *)stamp) != at + 1 + t->ring_key)
		return PENDING;
	number = load(&event->event);
	size = load(&event->size);
	/* What has been written over meanwhile says nothing. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (head(t, ring) - at > WEIGH_RING_KEPT(t->ring_bytes))
		return OVERTAKEN;
	if (number >= MAX_EVENTS || !t->sizes[number])
		return UNKNOWN_EVENT;
	/* It ends where the content of its last field does. */
	if (size < sizeof(*event) || size > t->sizes[number])
		return BROKEN;
	*found = (struct record){ event, number, size };
	return FOUND;
}

static uint64_t behind(uint64_t at, uint32_t size)
{
	uint64_t bytes = WEIGH_RING_STAMP + (uint64_t)size;

	return at + (bytes + WEIGH_RING_ALIGNMENT - 1) / WEIGH_RING_ALIGNMENT * WEIGH_RING_ALIGNMENT;
}

/* Finds out what is next in a ring, if that is not known. */
static void find(weigh_trace *t, uint64_t ring)
{
	struct place *place = &t->places[ring];
	struct record record;
	enum found found;

	if (place->is_known)
		return;
	found = look(t, ring, place->position, &record);
	/* An event that was added since the last description. */
	if (found == UNKNOWN_EVENT)
		found = weigh_trace_describe(t) ? look(t, ring, place->position, &record) : BROKEN;
	if (found == FOUND) {
		place->time = load(&record.begin->time_ns);
		place->size = record.size;
		place->is_known = true;
	} else if (found != PENDING) {
		place->is_overtaken = true;
	}
}

/* The oldest record of those that are there. */
const struct weigh_event *weigh_trace_take(weigh_trace *t)
{
	struct place *oldest = 0;
	struct record record;
	bool is_overtaken = false;

	for (uint64_t ring = 0; ring < t->ring_count; ring++) {
		struct place *place = &t->places[ring];

		find(t, ring);
		is_overtaken |= place->is_overtaken;
		if (place->is_known && (!oldest || place->time < oldest->time))
			oldest = place;
	}
	if (is_overtaken)
		weigh_trace_account(t);
	if (!oldest || !oldest->is_known)
		return 0;
	t->given = oldest - t->places;
	if (look(t, (uint64_t)t->given, oldest->position, &record) != FOUND) {
		oldest->is_known = false;
		t->given = -1;
		return 0;
	}
	t->given_event = record.event;
	t->was_whole = false;
	return record.begin;
}

/* What was given out has been read: it counts as seen if it was whole until now. */
void weigh_trace_let_go(weigh_trace *t)
{
	struct place *place;
	uint64_t moved;

	if (t->given < 0)
		return;
	place = &t->places[t->given];
	/* A reader that has asked, and was told that it was whole, has read it before. */
	if (t->was_whole || weigh_trace_intact(t)) {
		t->seen[t->given_event]++;
		moved = behind(place->position, place->size) - place->position;
		place->position += moved;
		if (t->told) {
			store(&t->told->position, t->told->position + moved);
			store(&t->told->seen, t->told->seen + 1);
		}
	}
	place->is_known = false;
	t->given = -1;
}

EXPORT size_t weigh_trace_copy(weigh_trace *t, void *to, size_t room)
{
	const struct weigh_event *record;
	size_t size;

	if (t->given < 0)
		return 0;
	/* What the record says itself may have been written over. */
	size = t->places[t->given].size;
	record = (const void *)(element(t, (uint64_t)t->given) + WEIGH_RING_LINE +
				(t->places[t->given].position & (t->ring_bytes - 1)) + WEIGH_RING_STAMP);
	memcpy(to, record, size < room ? size : room);
	return weigh_trace_intact(t) ? size : 0;
}

EXPORT int weigh_trace_intact(weigh_trace *t)
{
	bool is_whole;

	if (t->given < 0)
		return 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	is_whole = head(t, (uint64_t)t->given) - t->places[t->given].position <= WEIGH_RING_KEPT(t->ring_bytes);
	t->was_whole |= is_whole;
	return is_whole;
}

/* Adds to each event how many of its records lie from one position to another; false if they cannot be read. */
static bool walk(const weigh_trace *t, uint64_t ring, uint64_t from, uint64_t to, uint64_t *counts, uint64_t one)
{
	struct record record;

	while (from < to) {
		if (look(t, ring, from, &record) != FOUND)
			return false;
		counts[record.event] += one;
		from = behind(from, record.size);
	}
	return from == to;
}

/*
 * What was lost, by event: what the stream has seen since this reader came, less what the reader has seen, less what
 * it has before it still. Where the stream is behind the reader, the same the other way round.
 */
static bool account(weigh_trace *t)
{
	uint64_t lost[MAX_EVENTS];

	if (!t->has_final && weigh_trace_where(t) && !t->has_final)
		return false;
	for (int event = 0; event < MAX_EVENTS; event++)
		lost[event] = t->seen_now[event] - t->seen_first[event] - t->seen[event];
	for (uint64_t ring = 0; ring < t->ring_count; ring++) {
		struct place *place = &t->places[ring];
		uint64_t at = place->position, stream = t->positions[ring];

		place->is_overtaken |= head(t, ring) - at > WEIGH_RING_KEPT(t->ring_bytes);
		/* Nothing overtakes the stream: where the reader was overtaken, the stream is ahead of it, or it has not yet
		 * come to what cannot be read. */
		if (place->is_overtaken && stream < at)
			return false;
		if (place->is_overtaken)
			continue;
		if (!walk(t, ring, at, stream, lost, (uint64_t)-1) || !walk(t, ring, stream, at, lost, 1))
			return false;
	}
	for (uint64_t ring = 0; ring < t->ring_count; ring++) {
		struct place *place = &t->places[ring];

		if (!place->is_overtaken)
			continue;
		if (t->told)
			store(&t->told->position,
			      t->told->position + t->positions[ring] - place->position);
		place->position = t->positions[ring];
		place->is_known = place->is_overtaken = false;
	}
	memcpy(t->lost, lost, sizeof(lost));
	return true;
}

/* How often it is tried before a ring that runs on is left for the next time. */
#define TRIES 4

void weigh_trace_account(weigh_trace *t)
{
	uint64_t all = 0;
	bool is_done = false;

	for (int i = 0; i < TRIES && !is_done && (!t->has_ended || t->has_final); i++)
		is_done = account(t);
	for (uint64_t ring = 0; ring < t->ring_count && !is_done && t->has_ended; ring++) {
		struct place *place = &t->places[ring];

		if (!place->is_overtaken && head(t, ring) - place->position <= t->ring_bytes)
			continue;
		/* Nobody can say any more of which events they were. */
		t->unknown++;
		place->position = head(t, ring);
		place->is_known = place->is_overtaken = false;
	}
	for (int event = 0; event < MAX_EVENTS; event++)
		all += t->lost[event];
	if (t->told)
		store(&t->told->lost, all);
}
