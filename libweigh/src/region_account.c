/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Accounts of calls that are bound to regions: each node has one of its own, so that it is one thread's in one place of its call
 * tree. A thread has one interval open at a time: while a bound region is inside of another, the account is the inner
 * one's. The profile has a copy of each account, made when a call of the region ends, and when the program does.
 */
#include "region.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "region", in the upper bytes of a token. */
#define TOKENS 0x726567696f6e0000ULL
#define NUMBERS (COSTS_LENGTH - COSTS_AT_NUMBERS)

_Static_assert(sizeof(struct weigh_account) == NUMBERS * sizeof(uint64_t), "an account, word by word");

static uint64_t wanted[PROFILE_NAMES_RECORDS];
/* Of all names together: what one wants is not to be taken from another. */
static uint64_t wanted_by_all;

static uint64_t *record_of(const uint64_t *node)
{
	uint64_t link = node[NODE_AT_COSTS];

	if (!link || link == NO_NUMBER)
		return 0;
	return weigh_regions.section[PROFILE_COSTS] + (link - 1) * COSTS_LENGTH;
}

/* Gives a node its record; that there is no room is noted, too. */
static void take_record(const struct open_call *call)
{
	uint64_t number = weigh_profile_take(PROFILE_COSTS), *node = call->node, *record;

	if (number == NO_NUMBER) {
		store(&node[NODE_AT_COSTS], NO_NUMBER);
		return;
	}
	record = weigh_regions.section[PROFILE_COSTS] + number * COSTS_LENGTH;
	record[COSTS_AT_NODE] = call->number;
	record[COSTS_AT_TOKEN] = TOKENS + number;
	store(&node[NODE_AT_COSTS], number + 1);
}

static void open_interval(struct region_thread *t, const struct open_call *call)
{
	uint64_t *record = record_of(call->node), parts = wanted[call->node[NODE_AT_NAME]];
	enum weigh_reason reason;

	if (!record)
		return;
	record[COSTS_AT_WANTED] |= parts;
	reason = weigh_begin(t->account, record[COSTS_AT_TOKEN], parts);
	if (reason)
		record[COSTS_AT_REASON] = reason;
}

/* Copies the account into the profile. Its numbers only grow: two who copy it at once do no harm. */
static void keep(uint64_t *record)
{
	const WEIGH_U64 *account = (const WEIGH_U64 *)weigh_find(record[COSTS_AT_TOKEN]);
	uint64_t sequence = record[COSTS_AT_SEQUENCE] | 1;

	if (!account)
		return;
	__atomic_store_n(&record[COSTS_AT_SEQUENCE], sequence, __ATOMIC_RELAXED);
	WRITTEN_BEFORE();
	for (int i = 0; i < NUMBERS; i++)
		record[COSTS_AT_NUMBERS + i] = __atomic_load_n(&account[i], __ATOMIC_RELAXED);
	store(&record[COSTS_AT_SEQUENCE], sequence + 1);
}

/* What has come since calls of the regions ended last. */
void weigh_bound_keep_all(void)
{
	uint64_t used = load(&weigh_regions.words[PROFILE_AT_USED + PROFILE_COSTS]);

	for (uint64_t i = 0; i < used; i++)
		keep(weigh_regions.section[PROFILE_COSTS] + i * COSTS_LENGTH);
}

/* The innermost call below this one that has an account. */
static struct open_call *bound_around(struct region_thread *t, struct open_call *call)
{
	while (call > t->open && !(call->special & IS_BOUND))
		call--;
	return call > t->open ? call : 0;
}

/* The call is not open yet. */
void weigh_bound_begin(struct region_thread *t, struct open_call *call)
{
	int before = errno;

	if (!t->account)
		t->account = weigh_open();
	if (bound_around(t, call - 1))
		weigh_end(t->account);
	if (!call->node[NODE_AT_COSTS])
		take_record(call);
	call->special |= IS_BOUND;
	open_interval(t, call);
	errno = before;
}

void weigh_bound_end(struct region_thread *t, struct open_call *call)
{
	struct open_call *around = bound_around(t, call - 1);
	uint64_t *record = record_of(call->node);
	int before = errno;

	weigh_end(t->account);
	if (record)
		keep(record);
	if (around)
		open_interval(t, around);
	errno = before;
}

/* Where a thread may have the name in its cache, begins go the long way all of them. The lock is held. */
static void bind(uint64_t name, uint64_t parts)
{
	uint8_t before = weigh_name_flags[name];

	wanted[name] = parts;
	wanted_by_all |= parts;
	__atomic_store_n(&weigh_name_flags[name], before | NAME_BOUND, __ATOMIC_SEQ_CST);
	if (!before && weigh_name_is_used(name))
		atomic_fetch_add(&weigh_regions.goes_long_way, 1);
}

EXPORT int weigh_region_account(weigh_name name, uint64_t parts)
{
	enum weigh_reason reason;
	weigh *w;

	if (!weigh_regions_active || !weigh_profile_prepare())
		return WEIGH_NO_SERVER;
	if (weigh_name_checked(name) != name)
		return WEIGH_NO_TOKEN;
	w = weigh_open();
	weigh_names_lock();
	wanted_by_all |= parts;
	weigh_names_unlock();
	reason = weigh_want(w, wanted_by_all);
	if (!reason)
		reason = weigh_reason_now(w);
	weigh_names_lock();
	bind(name, parts);
	weigh_names_unlock();
	return (int)reason;
}

/* What `weigh run` asks for: patterns with commas between, each a text of its own from the first use on. */
static char patterns[1024];
static size_t patterns_bytes;

static void read_patterns(void)
{
	const char *variable = secure_getenv(PROFILE_COSTS_VARIABLE);

	patterns_bytes = 1;
	if (!variable || strlen(variable) >= sizeof(patterns))
		return;
	patterns_bytes = strlen(variable) + 1;
	memcpy(patterns, variable, patterns_bytes);
	for (char *at = patterns; (at = strchr(at, ','));)
		*at++ = 0;
}

/* A name is new. The lock is held, or nobody else is there. */
void weigh_bound_name(uint64_t name, const char *text, uint64_t bytes)
{
	if (!patterns_bytes)
		read_patterns();
	for (size_t at = 0; at < patterns_bytes; at += strlen(patterns + at) + 1) {
		if (patterns[at] && weigh_control_matches(patterns + at, text, bytes))
			bind(name, WEIGH_ALL);
	}
}
