/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ITT: a program loads the library that $INTEL_LIBITTNOTIFY64 names, and calls __itt_api_init(), which puts functions
 * into the program's list.
 *
 * Tasks and events are regions; overlapped tasks, frames and regions of ITT are ranges; counters are counters; markers,
 * pauses and resumes are events. A name in a domain is `domain:name`. All else is off, as without a tool: LLVM's OpenMP runtime
 * goes wrong where it finds some functions without others. Frames that were measured elsewhere (submitted) are none of
 * ours: that runtime has them for what it tells by OMPT.
 */
#include "tools.h"

#include <pthread.h>
#include <stdlib.h>

struct api_info {
	const char *name;
	void **function;
	void *init_function, *null_function;
	int group;
};

/* What a program hands over, up to the list of its functions. */
struct global {
	unsigned char magic[8];
	unsigned long version_major, version_minor, version_build;
	volatile long api_initialized, mutex_initialized, atomic_counter;
	pthread_mutex_t mutex;
	void *library, *error_handler;
	const char **path;
	struct api_info *functions;
};

static const unsigned char MAGIC[8] = { 0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30 };

/* What a program gets for a domain and a name, as ITT itself makes them: a domain without flags is off. */
struct domain {
	volatile int flags;
	const char *name;
	void *wide_name;
	int extra1;
	void *extra2;
	struct domain *next;
};
struct string_handle {
	const char *text;
	void *wide_text;
	int extra1;
	void *extra2;
	struct string_handle *next;
};
struct counter {
	const char *name;
	void *wide_name;
	const char *domain;
	void *wide_domain;
	int type;
	long index;
	int extra1;
	void *extra2;
	struct counter *next;
};
enum { TYPE_U64 = 1, TYPE_S64, TYPE_U32, TYPE_S32, TYPE_U16, TYPE_S16, TYPE_FLOAT, TYPE_DOUBLE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Who gives out functions gives out domains, names and counters, too: each once, and for good. */
static struct domain *domains;
static struct string_handle *handles;
static struct counter *counters;

static bool is_text(const char *kept, const char *text)
{
	return kept == text || (kept && text && !strcmp(kept, text));
}

static char *copy_of(const char *text)
{
	return text ? strdup(text) : NULL;
}

static struct domain *domain_create(const char *name)
{
	int kept = errno;

	pthread_mutex_lock(&lock);
	struct domain *at = domains;
	while (at && !is_text(at->name, name))
		at = at->next;
	if (!at && (at = calloc(1, sizeof *at))) {
		at->flags = 1;
		at->name = copy_of(name);
		at->next = domains;
		domains = at;
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
	return at;
}

static struct string_handle *string_handle_create(const char *text)
{
	int kept = errno;

	pthread_mutex_lock(&lock);
	struct string_handle *at = handles;
	while (at && !is_text(at->text, text))
		at = at->next;
	if (!at && (at = calloc(1, sizeof *at))) {
		at->text = copy_of(text);
		at->next = handles;
		handles = at;
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
	return at;
}

static struct counter *counter_create_typed(const char *name, const char *domain, int type)
{
	int kept = errno;

	pthread_mutex_lock(&lock);
	struct counter *at = counters;
	while (at && !(is_text(at->name, name) && is_text(at->domain, domain) && at->type == type))
		at = at->next;
	if (!at && (at = calloc(1, sizeof *at))) {
		at->name = copy_of(name);
		at->domain = copy_of(domain);
		at->type = type;
		at->next = counters;
		counters = at;
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
	return at;
}

static struct counter *counter_create(const char *name, const char *domain)
{
	return counter_create_typed(name, domain, TYPE_U64);
}

static struct counter *counter_create_v3(const struct domain *domain, const char *name, int type)
{
	return counter_create_typed(name, domain ? domain->name : NULL, type);
}

static weigh_name name_in(const struct domain *domain, const struct string_handle *name)
{
	return tools_name_in(domain ? domain->name : NULL, name ? name->text : NULL);
}

static void task_begin(const struct domain *domain, struct tools_id id, struct tools_id parent, struct string_handle *name)
{
	(void)id, (void)parent;
	if (tools_active())
		tools_begin(domain, name_in(domain, name));
}

static void task_begin_fn(const struct domain *domain, struct tools_id id, struct tools_id parent, void *function)
{
	Dl_info about;
	bool known = dladdr(function, &about) && about.dli_sname;

	(void)id, (void)parent;
	if (tools_active())
		tools_begin(domain, tools_name_in(domain ? domain->name : NULL, known ? about.dli_sname : "function"));
}

static void task_end(const struct domain *domain)
{
	if (tools_active())
		tools_end(domain, "ITT task end without begin");
}

static void task_begin_overlapped(const struct domain *domain, struct tools_id id, struct tools_id parent,
				  struct string_handle *name)
{
	(void)parent;
	if (tools_active())
		tools_range_begin(domain, id, name_in(domain, name));
}

static void task_end_overlapped(const struct domain *domain, struct tools_id id)
{
	if (tools_active())
		tools_range_end(domain, id);
}

static void region_begin(const struct domain *domain, struct tools_id id, struct tools_id parent, struct string_handle *name)
{
	task_begin_overlapped(domain, id, parent, name);
}

/* A frame has no name but its domain's; no number is that of the domain's only one. */
static void frame_begin(const struct domain *domain, const struct tools_id *id)
{
	if (tools_active())
		tools_range_begin(domain, id ? *id : (struct tools_id){ 0 }, tools_name_in(NULL, domain ? domain->name : "frame"));
}

static void frame_end(const struct domain *domain, const struct tools_id *id)
{
	task_end_overlapped(domain, id ? *id : (struct tools_id){ 0 });
}

static void marker(const struct domain *domain, struct tools_id id, struct string_handle *name, int scope)
{
	(void)id, (void)scope;
	if (tools_active())
		tools_api.weigh_event_tell(name_in(domain, name), 1);
}

static weigh_name counter_name(const struct counter *counter)
{
	return tools_name_in(counter->domain, counter->name);
}

static void counter_add(const struct counter *counter, int64_t number)
{
	if (tools_active() && counter)
		tools_api.weigh_counter_add(counter_name(counter), number);
}

static void counter_inc(const struct counter *counter)
{
	counter_add(counter, 1);
}

static void counter_inc_delta(const struct counter *counter, unsigned long long delta)
{
	counter_add(counter, (int64_t)delta);
}

static void counter_dec(const struct counter *counter)
{
	counter_add(counter, -1);
}

static void counter_dec_delta(const struct counter *counter, unsigned long long delta)
{
	counter_add(counter, -(int64_t)delta);
}

static double value_of(int type, const void *value)
{
	switch (type) {
	case TYPE_S64:
		return (double)*(const int64_t *)value;
	case TYPE_U32:
		return *(const uint32_t *)value;
	case TYPE_S32:
		return *(const int32_t *)value;
	case TYPE_U16:
		return *(const uint16_t *)value;
	case TYPE_S16:
		return *(const int16_t *)value;
	case TYPE_FLOAT:
		return (double)*(const float *)value;
	case TYPE_DOUBLE:
		return *(const double *)value;
	default:
		return (double)*(const uint64_t *)value;
	}
}

static void counter_set_value(const struct counter *counter, void *value)
{
	if (tools_active() && counter && value)
		tools_api.weigh_gauge_set(counter_name(counter), value_of(counter->type, value));
}

/* Events: a number each, given out by name. 0 is none. */
static int event_create(const char *name, int length)
{
	return name && length > 0 ? (int)tools_api.weigh_region_name_of(name, (size_t)length) : 0;
}

static int event_start(int event)
{
	if (tools_active() && event > 0)
		tools_begin((const void *)(intptr_t)event, (weigh_name)event);
	return 0;
}

static int event_end(int event)
{
	if (tools_active() && event > 0)
		tools_end((const void *)(intptr_t)event, "ITT event end without start");
	return 0;
}

/* What weigh is told is measured still. */
static void tell_pause(void)
{
	if (tools_active())
		tools_api.weigh_event_tell(tools_api.weigh_region_name("ITT pause"), 1);
}

static void tell_resume(void)
{
	if (tools_active())
		tools_api.weigh_event_tell(tools_api.weigh_region_name("ITT resume"), 1);
}

static const struct {
	const char *name;
	void *function;
} functions[] = {
	{ "__itt_domain_create", domain_create },
	{ "__itt_domain_createA", domain_create },
	{ "__itt_string_handle_create", string_handle_create },
	{ "__itt_string_handle_createA", string_handle_create },
	{ "__itt_counter_create", counter_create },
	{ "__itt_counter_createA", counter_create },
	{ "__itt_counter_create_typed", counter_create_typed },
	{ "__itt_counter_create_typedA", counter_create_typed },
	{ "__itt_counter_create_v3", counter_create_v3 },
	{ "__itt_counter_set_value_v3", counter_set_value },
	{ "__itt_task_begin", task_begin },
	{ "__itt_task_begin_fn", task_begin_fn },
	{ "__itt_task_end", task_end },
	{ "__itt_task_begin_overlapped", task_begin_overlapped },
	{ "__itt_task_end_overlapped", task_end_overlapped },
	{ "__itt_region_begin", region_begin },
	{ "__itt_region_end", task_end_overlapped },
	{ "__itt_frame_begin_v3", frame_begin },
	{ "__itt_frame_end_v3", frame_end },
	{ "__itt_marker", marker },
	{ "__itt_counter_inc", counter_inc },
	{ "__itt_counter_inc_delta", counter_inc_delta },
	{ "__itt_counter_dec", counter_dec },
	{ "__itt_counter_dec_delta", counter_dec_delta },
	{ "__itt_counter_set_value", counter_set_value },
	{ "__itt_event_create", event_create },
	{ "__itt_event_createA", event_create },
	{ "__itt_event_start", event_start },
	{ "__itt_event_end", event_end },
	{ "__itt_pause", tell_pause },
	{ "__itt_resume", tell_resume },
};

static void *function_of(const char *name)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, name))
			return functions[i].function;
	return NULL;
}

TOOL void __itt_api_init(struct global *global, int groups);
TOOL void __itt_api_init(struct global *global, int groups)
{
	(void)groups;
	if (!global || memcmp(global->magic, MAGIC, sizeof MAGIC) || !global->functions || !tools_listen("itt"))
		return;
	for (struct api_info *info = global->functions; info->name; info++) {
		void *function = function_of(info->name);
		if (info->function)
			*info->function = function ? function : info->null_function;
	}
}
