/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the parts of libweigh know of each other that read a stream of `weigh trace`. */
#ifndef WEIGH_TRACE_H
#define WEIGH_TRACE_H

#include "internal.h"
#include "ring.h"

/* No answer is longer: texts of all events and fields fit. Memory that is not touched costs nothing. */
#define TEXT_BYTES ((size_t)1 << 20)
/* Events of a stream, those that were removed counted as well. */
#define MAX_EVENTS 1024
/* No buffer has a longer name. */
#define MAX_NAME 256
/* Seconds that an answer may take: the kernel checks programs meanwhile. */
#define PATIENCE 60

/* A ring, and where this reader is in it. */
struct place {
	uint64_t position;
	uint64_t time; /* of the record there, if `is_known` */
	uint32_t size; /* its bytes */
	bool is_known;
	bool is_overtaken;
};

/* What the reader tells the stream of itself; the stream reads it when somebody wants to know. */
struct told {
	uint64_t position, seen, lost;
};

struct weigh_trace {
	int connection, eventfd, poll;
	const unsigned char *rings;
	uint64_t ring_count, ring_bytes, ring_key, bytes;
	struct place *places;
	struct told *told;
	/* Of each event: bytes of a record at most, what was seen by this reader, and lost. */
	uint32_t sizes[MAX_EVENTS];
	uint64_t seen[MAX_EVENTS], lost[MAX_EVENTS];
	/* What the stream had seen, and not got, when this reader came; and what it says now. */
	uint64_t seen_first[MAX_EVENTS], seen_now[MAX_EVENTS];
	uint64_t missing_first[MAX_EVENTS], missing_now[MAX_EVENTS];
	uint64_t *positions; /* of the stream, as it said last */
	/* The event that was given out: its ring, or none. */
	int64_t given;
	uint32_t given_event;
	bool was_whole;
	uint64_t unknown; /* lost after the stream has ended: nobody knows of which events */
	bool has_ended, has_final; /* what it said last of itself is the end of it */
	char *text; /* the last answer */
	size_t rest_at, rest; /* bytes behind it that were heard together with it */
	char *description;
	size_t mapped;
};

/* trace_text.c: a value of JSON inside of a text; none: NULL. */
const char *weigh_json_member(const char *object, const char *name);
const char *weigh_json_first(const char *array);
const char *weigh_json_next(const char *element);
const char *weigh_json_past(const char *value);
bool weigh_json_number(const char *value, uint64_t *number);
bool weigh_json_is(const char *value, const char *text);
size_t weigh_json_copy(const char *value, char *to, size_t room);

/* trace_talk.c */
enum weigh_reason weigh_trace_dial(weigh_trace *t, const char *path);
enum weigh_reason weigh_trace_ask(weigh_trace *t, const char *request, int *with, size_t room);
void weigh_trace_end(weigh_trace *t);
enum weigh_reason weigh_trace_where(weigh_trace *t);
bool weigh_trace_take_where(weigh_trace *t, const char *where);
bool weigh_trace_take_description(weigh_trace *t, const char *description);
bool weigh_trace_describe(weigh_trace *t);

/* trace_rings.c */
bool weigh_trace_map(weigh_trace *t, int rings);
const struct weigh_event *weigh_trace_take(weigh_trace *t);
void weigh_trace_let_go(weigh_trace *t);
void weigh_trace_account(weigh_trace *t);

#endif
