/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * NVTX v3: a program's first call loads the library that $NVTX_INJECTION64_PATH names, and calls
 * InitializeInjectionNvtx2(), which puts functions into the program's tables.
 *
 * Push and pop are regions, start and end are ranges, a mark is an event. A name in a domain is `domain:name`.
 */
#include "tools.h"

#include <stdlib.h>

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5, MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };

/* As NVTX has it: what it gives out by number. */
struct export_callbacks {
	size_t size;
	int (*get_table)(int module, void ***table, unsigned *size);
};

/* An event's attributes, the same in version 2 and 3. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
		uint32_t u32;
		int32_t i32;
		float f32;
	} payload;
	int32_t message_type;
	union {
		const char *ascii;
		const wchar_t *wide;
		const struct text *registered;
	} message;
};

/* What is handed to the program as a domain, and as a registered string. */
struct domain {
	char *name;
};
struct text {
	weigh_name name;
};

/* Without a tool a push returns this: nobody keeps the depth. */
enum { NO_DEPTH = -2 };

static const struct domain no_domain;
static const struct domain *domain_of(const struct domain *domain)
{
	return domain ? domain : &no_domain;
}

static weigh_name name_of(const struct domain *domain, const struct attributes *of)
{
	char room[256];

	if (!of)
		return tools_name_in(domain->name, NULL);
	switch (of->message_type) {
	case MESSAGE_ASCII:
		return tools_name_in(domain->name, of->message.ascii);
	case MESSAGE_WIDE:
		return tools_name_in(domain->name, tools_narrow(room, sizeof room, of->message.wide));
	case MESSAGE_REGISTERED:
		return of->message.registered ? of->message.registered->name : tools_name_in(domain->name, NULL);
	default:
		return tools_name_in(domain->name, NULL);
	}
}

static double payload_of(const struct attributes *of)
{
	switch (of ? of->payload_type : 0) {
	case 1:
		return (double)of->payload.u64;
	case 2:
		return (double)of->payload.i64;
	case 3:
		return of->payload.f64;
	case 4:
		return of->payload.u32;
	case 5:
		return of->payload.i32;
	case 6:
		return (double)of->payload.f32;
	default:
		return 1;
	}
}

static void domain_mark(const struct domain *domain, const struct attributes *of)
{
	if (tools_active())
		tools_api.weigh_event_tell(name_of(domain_of(domain), of), payload_of(of));
}

static uint64_t domain_start(const struct domain *domain, const struct attributes *of)
{
	return tools_active() ? tools_api.weigh_range_begin(name_of(domain_of(domain), of)) : 0;
}

static void range_end(uint64_t range)
{
	if (tools_active())
		tools_api.weigh_range_end(range);
}

static void domain_end(const struct domain *domain, uint64_t range)
{
	(void)domain;
	range_end(range);
}

static int domain_push(const struct domain *domain, const struct attributes *of)
{
	domain = domain_of(domain);
	if (tools_active())
		tools_begin(domain, name_of(domain, of));
	return NO_DEPTH;
}

static int domain_pop(const struct domain *domain)
{
	if (tools_active())
		tools_end(domain_of(domain), "NVTX pop without push");
	return NO_DEPTH;
}

static void mark(const struct attributes *of)
{
	domain_mark(NULL, of);
}

static uint64_t start(const struct attributes *of)
{
	return domain_start(NULL, of);
}

static int push(const struct attributes *of)
{
	return domain_push(NULL, of);
}

static int pop(void)
{
	return domain_pop(NULL);
}

/* The same of texts without attributes. */
#define OF_TEXT(type, field, of) ((struct attributes){ .message_type = type, .message.field = of })

static void mark_ascii(const char *text)
{
	domain_mark(NULL, &OF_TEXT(MESSAGE_ASCII, ascii, text));
}

static void mark_wide(const wchar_t *text)
{
	domain_mark(NULL, &OF_TEXT(MESSAGE_WIDE, wide, text));
}

static uint64_t start_ascii(const char *text)
{
	return domain_start(NULL, &OF_TEXT(MESSAGE_ASCII, ascii, text));
}

static uint64_t start_wide(const wchar_t *text)
{
	return domain_start(NULL, &OF_TEXT(MESSAGE_WIDE, wide, text));
}

static int push_ascii(const char *text)
{
	return domain_push(NULL, &OF_TEXT(MESSAGE_ASCII, ascii, text));
}

static int push_wide(const wchar_t *text)
{
	return domain_push(NULL, &OF_TEXT(MESSAGE_WIDE, wide, text));
}

/* Domains and strings live as long as the program: it may use them after it has destroyed them. */
static struct domain *create(const char *name)
{
	int kept = errno;
	struct domain *domain = calloc(1, sizeof *domain);

	if (domain && name)
		domain->name = strdup(name);
	errno = kept;
	return domain;
}

static struct domain *create_wide(const wchar_t *name)
{
	char room[256];

	return create(tools_narrow(room, sizeof room, name));
}

static struct text *enroll(const struct domain *domain, const char *text)
{
	int kept = errno;
	struct text *made = malloc(sizeof *made);

	if (made)
		made->name = tools_name_in(domain_of(domain)->name, text);
	errno = kept;
	return made;
}

static struct text *enroll_wide(const struct domain *domain, const wchar_t *text)
{
	char room[256];

	return enroll(domain, tools_narrow(room, sizeof room, text));
}

struct entry {
	unsigned number;
	void *function;
};

static const struct entry core[] = {
	{ 1, mark },	  { 2, mark_ascii }, { 3, mark_wide }, { 4, start },	  { 5, start_ascii }, { 6, start_wide },
	{ 7, range_end }, { 8, push },	     { 9, push_ascii }, { 10, push_wide }, { 11, pop },
};
static const struct entry core2[] = {
	{ 1, domain_mark }, { 2, domain_start }, { 3, domain_end },   { 4, domain_push },   { 5, domain_pop },
	{ 10, enroll },	    { 11, enroll_wide }, { 12, create }, { 13, create_wide },
};

static bool fill(const struct export_callbacks *callbacks, int module, const struct entry *entries, size_t count)
{
	void **table = NULL;
	unsigned size = 0;

	if (!callbacks->get_table(module, &table, &size) || !table)
		return false;
	/* An entry points to where the program has its function. */
	for (size_t i = 0; i < count; i++)
		if (entries[i].number < size && table[entries[i].number])
			*(void **)table[entries[i].number] = entries[i].function;
	return true;
}

TOOL int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t));
TOOL int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t))
{
	const struct export_callbacks *callbacks = get_export_table ? get_export_table(TABLE_CALLBACKS) : NULL;

	if (!callbacks || callbacks->size < sizeof *callbacks || !tools_listen("nvtx"))
		return 0;
	return fill(callbacks, MODULE_CORE, core, sizeof core / sizeof *core) &&
	       fill(callbacks, MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
}
