/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * JSON, as streams of `weigh trace` answer: looked up where it lies, without a copy and without memory. A text that
 * is none gives nothing, and is never read beyond its end, which is a 0.
 */
#include "trace.h"
#include <string.h>

/* Objects in objects: those of streams have five. */
#define MOST_DEEP 32

static const char *skip_space(const char *at)
{
	while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
		at++;
	return at;
}

static const char *past_string(const char *at)
{
	if (*at != '"')
		return 0;
	for (at++; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		if (!*at)
			return 0;
	}
	return at + 1;
}

/* Behind a value; NULL if it is none. */
const char *weigh_json_past(const char *at)
{
	int deep = 0;

	do {
		at = skip_space(at);
		if (*at == '{' || *at == '[') {
			if (++deep > MOST_DEEP)
				return 0;
			at++;
		} else if (*at == '}' || *at == ']') {
			deep--;
			at++;
		} else if (*at == '"') {
			at = past_string(at);
			if (!at)
				return 0;
		} else if (*at == ',' || *at == ':') {
			if (!deep)
				return 0;
			at++;
		} else {
			const char *begin = at;

			while (*at && !strchr(",:]}\"[{ \n\t\r", *at))
				at++;
			if (at == begin)
				return 0;
		}
	} while (deep > 0);
	return deep ? 0 : at;
}

const char *weigh_json_member(const char *object, const char *name)
{
	const char *at = object ? skip_space(object) : "";

	if (*at != '{')
		return 0;
	at = skip_space(at + 1);
	while (*at == '"') {
		const char *key = at, *value;

		at = past_string(at);
		if (!at)
			return 0;
		at = skip_space(at);
		if (*at != ':')
			return 0;
		value = skip_space(at + 1);
		if (weigh_json_is(key, name))
			return value;
		at = weigh_json_past(value);
		if (!at)
			return 0;
		at = skip_space(at);
		if (*at != ',')
			return 0;
		at = skip_space(at + 1);
	}
	return 0;
}

const char *weigh_json_first(const char *array)
{
	const char *at = array ? skip_space(array) : "";

	if (*at != '[')
		return 0;
	at = skip_space(at + 1);
	return *at && *at != ']' ? at : 0;
}

const char *weigh_json_next(const char *element)
{
	const char *at = weigh_json_past(element);

	if (!at)
		return 0;
	at = skip_space(at);
	if (*at != ',')
		return 0;
	at = skip_space(at + 1);
	return *at ? at : 0;
}

bool weigh_json_number(const char *value, uint64_t *number)
{
	uint64_t found = 0;

	if (!value || *value < '0' || *value > '9')
		return false;
	for (; *value >= '0' && *value <= '9'; value++) {
		if (__builtin_mul_overflow(found, 10, &found) ||
		    __builtin_add_overflow(found, (uint64_t)(*value - '0'), &found))
			return false;
	}
	*number = found;
	return true;
}

/* One character of a string, which may be written as an escape; what is beyond ASCII so is a question mark. */
static char character(const char **at)
{
	static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
	char code;

	if (**at != '\\')
		return *(*at)++;
	code = *++*at;
	if (!code)
		return 0;
	++*at;
	if (code == 'u') {
		for (int digit = 0; digit < 4 && **at && **at != '"'; digit++)
			++*at;
		return '?';
	}
	for (const char *escape = escapes; *escape; escape += 2) {
		if (*escape == code)
			return escape[1];
	}
	return '?';
}

bool weigh_json_is(const char *value, const char *text)
{
	if (!value || *value != '"')
		return false;
	for (value++; *value && *value != '"';) {
		if (character(&value) != *text || !*text)
			return false;
		text++;
	}
	return !*text && *value == '"';
}

/* How long a string is; as much of it as there is room for is put there, with its end. */
size_t weigh_json_copy(const char *value, char *to, size_t room)
{
	size_t length = 0;

	if (room)
		*to = 0;
	if (!value || *value != '"')
		return 0;
	for (value++; *value && *value != '"'; length++) {
		char found = character(&value);

		if (length + 1 < room) {
			to[length] = found;
			to[length + 1] = 0;
		}
	}
	return length;
}
