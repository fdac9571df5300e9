/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a client sends to the program; metadata, which the program says of itself.
 */
#include "region.h"
#include <errno.h>
#include <string.h>

#define CONTROL_KEY_BYTES 64
#define CONTROL_TEXT_BYTES 168

static uint64_t nothing;
EXPORT const uint64_t *weigh_control_written = &nothing;
EXPORT uint64_t weigh_control_seen;
static _Atomic uint32_t taking;

/* The first poll of a child finds something, and the profile. */
void weigh_control_forget(void)
{
	atomic_store(&taking, 0);
	weigh_control_seen = 0;
	weigh_control_written = weigh_regions.words ? &weigh_regions.words[PROFILE_AT_CONTROL_WRITTEN] : &nothing;
}

static bool copy(struct weigh_control *control, const uint64_t *record, uint64_t number)
{
	if (load(&record[CONTROL_AT_STAMP]) != number + 1)
		return false;
	control->kind = record[CONTROL_AT_KIND];
	memcpy(&control->number, &record[CONTROL_AT_NUMBER], sizeof(control->number));
	memcpy(control->key, &record[CONTROL_AT_KEY], CONTROL_KEY_BYTES);
	memcpy(control->text, &record[CONTROL_AT_TEXT], CONTROL_TEXT_BYTES);
	control->key[CONTROL_KEY_BYTES] = control->text[CONTROL_TEXT_BYTES] = 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&record[CONTROL_AT_STAMP], __ATOMIC_RELAXED) == number + 1;
}

/* The next one. What was overwritten before it was read is passed over. */
static bool take(struct weigh_control *control)
{
	uint64_t *words = weigh_regions.words, records = weigh_regions.records[PROFILE_CONTROL];
	uint64_t written = load(&words[PROFILE_AT_CONTROL_WRITTEN]), number = weigh_control_seen;

	if (number == written)
		return false;
	if (written - number > records)
		number = written - records;
	if (!copy(control, record_numbered(PROFILE_CONTROL, number, CONTROL_LENGTH), number))
		return false;
	__atomic_store_n(&weigh_control_seen, number + 1, __ATOMIC_RELAXED);
	store(&words[PROFILE_AT_CONTROL_READ], number + 1);
	return true;
}

/* Patterns that were sent last, the oldest first: for names that are yet to come. */
#define PATTERNS 16
static struct pattern {
	char text[CONTROL_KEY_BYTES + 1];
	bool is_off;
} patterns[PATTERNS];
static int patterns_count;

static void switch_name(uint64_t name, bool is_off)
{
	uint8_t before = weigh_name_flags[name], after = is_off ? before | NAME_OFF : before & ~NAME_OFF;

	weigh_name_flags[name] = after;
	if (!before != !after)
		atomic_fetch_add(&weigh_regions.goes_long_way, after ? 1 : -1);
}

/* `*` stands for anything. */
bool weigh_control_matches(const char *pattern, const char *text, uint64_t bytes)
{
	const char *star = 0;
	uint64_t at = 0, resumed = 0;

	while (at < bytes) {
		if (*pattern == '*') {
			star = ++pattern;
			resumed = at;
		} else if (*pattern && *pattern == text[at]) {
			pattern++;
			at++;
		} else if (star) {
			pattern = star;
			at = ++resumed;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* A name is new. The lock is held, or nobody else is there. */
void weigh_control_name(uint64_t name, const char *text, uint64_t bytes)
{
	for (int i = 0; i < patterns_count; i++) {
		if (weigh_control_matches(patterns[i].text, text, bytes))
			switch_name(name, patterns[i].is_off);
	}
}

static void keep_pattern(const char *text, bool is_off)
{
	if (patterns_count == PATTERNS)
		memmove(patterns, patterns + 1, --patterns_count * sizeof(*patterns));
	strcpy(patterns[patterns_count].text, text);
	patterns[patterns_count++].is_off = is_off;
}

static void switch_pattern(const char *pattern, bool is_off)
{
	uint64_t bytes;
	const char *text;

	for (uint64_t i = OTHER_NAME; (text = weigh_name_text(i, &bytes)); i++) {
		if (weigh_control_matches(pattern, text, bytes))
			switch_name(i, is_off);
	}
	keep_pattern(pattern, is_off);
}

static void switch_all(bool is_off)
{
	for (uint64_t i = OTHER_NAME; i < PROFILE_NAMES_RECORDS; i++)
		switch_name(i, is_off);
	patterns_count = 0;
}

static void switch_regions(const char *name, bool is_off)
{
	bool is_pattern = strchr(name, '*');
	uint64_t one = *name && !is_pattern ? weigh_region_name(name) : OTHER_NAME;

	weigh_names_lock();
	if (is_pattern)
		switch_pattern(name, is_off);
	else if (*name)
		switch_name(one, is_off);
	else
		switch_all(is_off);
	weigh_names_unlock();
}

static void carry_out(const struct weigh_control *control)
{
	switch (control->kind) {
	case WEIGH_CONTROL_PUBLISH:
		weigh_publish();
		break;
	case WEIGH_CONTROL_REGIONS_ON:
	case WEIGH_CONTROL_REGIONS_OFF:
		switch_regions(control->key, control->kind == WEIGH_CONTROL_REGIONS_OFF);
		break;
	case WEIGH_CONTROL_RATE:
		weigh_publish_by_time(control->number);
		break;
	}
}

EXPORT int weigh_poll_control_(struct weigh_control *control)
{
	uint32_t no = 0;
	bool is_one;

	if (!weigh_regions_active || !weigh_profile_prepare())
		return 0;
	if (!atomic_compare_exchange_strong(&taking, &no, 1))
		return 0;
	is_one = take(control);
	atomic_store(&taking, 0);
	if (is_one)
		carry_out(control);
	return is_one;
}

static uint64_t *record_of_key(uint64_t key)
{
	uint64_t used = load(&weigh_regions.words[PROFILE_AT_USED + PROFILE_METADATA]), number;

	for (uint64_t i = 0; i < used; i++) {
		uint64_t *record = record_numbered(PROFILE_METADATA, i, METADATA_LENGTH);

		if (record[METADATA_AT_KEY] == key)
			return record;
	}
	number = weigh_profile_take(PROFILE_METADATA);
	return number == NO_NUMBER ? 0 : record_numbered(PROFILE_METADATA, number, METADATA_LENGTH);
}

static void write_metadata(uint64_t key, const char *value)
{
	size_t bytes = strnlen(value, PROFILE_MOST_TEXT);
	uint64_t *record = record_of_key(key), text = record ? weigh_text_write(value, bytes) : NO_NUMBER;

	if (text == NO_NUMBER) {
		profile_add(PROFILE_AT_NAMES_LOST, 1);
		return;
	}
	__atomic_store_n(&record[METADATA_AT_SEQUENCE], record[METADATA_AT_SEQUENCE] + 1, __ATOMIC_RELAXED);
	WRITTEN_BEFORE();
	record[METADATA_AT_KEY] = key;
	record[METADATA_AT_TEXT] = text;
	record[METADATA_AT_BYTES] = bytes;
	store(&record[METADATA_AT_SEQUENCE], record[METADATA_AT_SEQUENCE] + 1);
}

EXPORT void weigh_metadata(const char *key, const char *value)
{
	int before = errno;
	weigh_name name;

	if (!weigh_regions_active || !key || !value)
		return;
	name = weigh_region_name(key);
	if (!name || !has_profile())
		return;
	weigh_names_lock();
	write_metadata(weigh_name_checked(name), value);
	weigh_names_unlock();
	errno = before;
}
