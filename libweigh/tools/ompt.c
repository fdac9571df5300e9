/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * OMPT: an OpenMP runtime looks up ompt_start_tool() in the process and in the libraries of $OMP_TOOL_LIBRARIES.
 *
 * A parallel region is a region `omp parallel PLACE` of each thread that is in it; loops, sections, tasks, waits at
 * barriers and for locks are regions inside. PLACE is where the program calls the runtime: a symbol and an offset, or
 * the file and an offset in it, as addr2line has it.
 */
#include "tools.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

union data {
	uint64_t value;
	void *pointer;
};
typedef void (*function)(void);
typedef function (*lookup)(const char *name);
typedef int (*set_callback)(int which, function callback);

struct start_result {
	int (*initialize)(lookup, int device, union data *tool);
	void (*finalize)(union data *tool);
	union data tool;
};

enum { PARALLEL_BEGIN = 3, PARALLEL_END, TASK_CREATE, TASK_SCHEDULE, IMPLICIT_TASK };
enum { SYNC_REGION_WAIT = 16, WORK = 20, MUTEX_ACQUIRE = 26, MUTEX_ACQUIRED = 27 };
enum { SCOPE_BEGIN = 1, SCOPE_END = 2 };
enum { TASK_IMPLICIT = 2, TASK_EXPLICIT = 4 };
enum { STATUS_COMPLETE = 1, STATUS_CANCEL = 3 };

/* Owners of regions that are open. */
static const char parallel, task, wait, work, lock;
static const char ORPHAN[] = "omp end without begin";

/* The names of places, by kind and address; where the table is full they are looked up each time. */
enum { PLACES = 1024, PROBES = 16, MOST_NAME = 256 };
static struct {
	_Atomic uintptr_t key;
	_Atomic weigh_name name;
} places[PLACES];

static weigh_name describe(const char *kind, const void *address)
{
	char text[MOST_NAME];
	Dl_info about;

	if (!address || !dladdr(address, &about) || !about.dli_fname)
		return tools_api.weigh_region_name(kind);
	if (about.dli_sname) {
		snprintf(text, sizeof text, "%s %s+%#tx", kind, about.dli_sname,
			 (const char *)address - (const char *)about.dli_saddr);
	} else {
		const char *file = strrchr(about.dli_fname, '/');
		snprintf(text, sizeof text, "%s %s+%#tx", kind, file ? file + 1 : about.dli_fname,
			 (const char *)address - (const char *)about.dli_fbase);
	}
	return tools_api.weigh_region_name(text);
}

static weigh_name name_at(const char *kind, const void *address)
{
	uintptr_t key = (uintptr_t)kind * 31 ^ (uintptr_t)address;

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned at = (key ^ key >> 12) % PLACES + i;
		uintptr_t found = places[at % PLACES].key;
		weigh_name name = places[at % PLACES].name;
		if (found == key && name)
			return name;
		if (found)
			continue;
		name = describe(kind, address);
		if (__atomic_compare_exchange_n((uintptr_t *)&places[at % PLACES].key, &found, key, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			places[at % PLACES].name = name;
		return name;
	}
	return describe(kind, address);
}

static const char PARALLEL[] = "omp parallel";
static const char TASK[] = "omp task";

static void parallel_begin(union data *encountering, const void *frame, union data *data, unsigned requested, int flags,
			   const void *from)
{
	(void)encountering, (void)frame, (void)requested, (void)flags;
	if (!tools_active())
		return;
	weigh_name name = name_at(PARALLEL, from);
	data->value = name;
	tools_begin(&parallel, name);
}

static void parallel_end(union data *data, union data *encountering, int flags, const void *from)
{
	(void)encountering, (void)flags, (void)from;
	if (tools_active() && data->value)
		tools_end(&parallel, ORPHAN);
}

/* The part of a parallel region that a thread does which did not begin it. */
static void implicit_task(int endpoint, union data *data, union data *of, unsigned threads, unsigned index, int flags)
{
	(void)threads;
	if (!(flags & TASK_IMPLICIT) || !index || !tools_active())
		return;
	if (endpoint == SCOPE_BEGIN && data && data->value) {
		tools_begin(&parallel, (weigh_name)data->value);
		of->value = UINT64_MAX;
	} else if (endpoint == SCOPE_END && of->value == UINT64_MAX) {
		of->value = 0;
		tools_end(&parallel, ORPHAN);
	}
}

/* A task's data are its name, and 1 bit more once it has begun. */
static void task_create(union data *encountering, const void *frame, union data *made, int flags, int dependences,
			const void *from)
{
	(void)encountering, (void)frame, (void)dependences;
	if (flags & TASK_EXPLICIT && tools_active())
		made->value = (uint64_t)name_at(TASK, from) << 1;
}

static bool is_explicit(const union data *data)
{
	return data && data->value && data->value != UINT64_MAX;
}

static void task_schedule(union data *prior, int status, union data *next)
{
	if (!tools_active())
		return;
	if ((status == STATUS_COMPLETE || status == STATUS_CANCEL) && is_explicit(prior) && prior->value & 1) {
		prior->value = 0;
		tools_end(&task, ORPHAN);
	}
	if (is_explicit(next) && !(next->value & 1)) {
		next->value |= 1;
		tools_begin(&task, (weigh_name)(next->value >> 1));
	}
}

static void tell_scope(const void *owner, int endpoint, const char *kind, const void *from)
{
	if (!tools_active())
		return;
	if (endpoint == SCOPE_BEGIN)
		tools_begin(owner, name_at(kind, from));
	else if (endpoint == SCOPE_END)
		tools_end(owner, ORPHAN);
}

static void sync_region_wait(int kind, int endpoint, union data *region, union data *of, const void *from)
{
	static const char *const kinds[] = { "omp wait", "omp barrier wait", "omp implicit barrier wait",
					     "omp barrier wait", "omp barrier wait", "omp taskwait", "omp taskgroup wait",
					     "omp reduction wait", "omp implicit barrier wait",
					     "omp implicit barrier wait", "omp barrier wait" };

	(void)region, (void)of, (void)from;
	tell_scope(&wait, endpoint, kinds[kind > 0 && kind <= 10 ? kind : 0], NULL);
}

static void work_scope(int kind, int endpoint, union data *region, union data *of, uint64_t count, const void *from)
{
	static const char *const kinds[] = { "omp work", "omp loop", "omp sections", "omp single", "omp single (others)",
					     "omp workshare", "omp distribute", "omp taskloop" };

	(void)region, (void)of, (void)count;
	tell_scope(&work, endpoint, kinds[kind > 0 && kind <= 7 ? kind : kind >= 10 && kind <= 14 ? 1 : 0],
		   endpoint == SCOPE_BEGIN ? from : NULL);
}

enum { MUTEX_LOCK = 1, MUTEX_NEST_LOCK = 3, MUTEX_CRITICAL = 5, MUTEX_ORDERED = 7 };

/* Others may be given up, which no runtime tells. */
static const char *kind_of_mutex(int kind)
{
	switch (kind) {
	case MUTEX_LOCK:
	case MUTEX_NEST_LOCK:
		return "omp lock wait";
	case MUTEX_CRITICAL:
		return "omp critical wait";
	case MUTEX_ORDERED:
		return "omp ordered wait";
	default:
		return NULL;
	}
}

static void mutex_acquire(int kind, unsigned hint, unsigned how, uint64_t number, const void *from)
{
	const char *name = kind_of_mutex(kind);

	(void)hint, (void)how, (void)number, (void)from;
	if (name)
		tell_scope(&lock, SCOPE_BEGIN, name, NULL);
}

static void mutex_acquired(int kind, uint64_t number, const void *from)
{
	(void)number, (void)from;
	if (kind_of_mutex(kind))
		tell_scope(&lock, SCOPE_END, NULL, NULL);
}

static int initialize(lookup look, int device, union data *tool)
{
	set_callback set = (set_callback)look("ompt_set_callback");

	(void)device, (void)tool;
	if (!set)
		return 0;
	set(PARALLEL_BEGIN, (function)parallel_begin);
	set(PARALLEL_END, (function)parallel_end);
	set(TASK_CREATE, (function)task_create);
	set(TASK_SCHEDULE, (function)task_schedule);
	set(IMPLICIT_TASK, (function)implicit_task);
	set(SYNC_REGION_WAIT, (function)sync_region_wait);
	set(WORK, (function)work_scope);
	set(MUTEX_ACQUIRE, (function)mutex_acquire);
	set(MUTEX_ACQUIRED, (function)mutex_acquired);
	return 1;
}

static void finalize(union data *tool)
{
	(void)tool;
}

TOOL struct start_result *ompt_start_tool(unsigned version, const char *runtime);
TOOL struct start_result *ompt_start_tool(unsigned version, const char *runtime)
{
	static struct start_result result = { initialize, finalize, { 0 } };

	(void)version, (void)runtime;
	return tools_listen("ompt") ? &result : NULL;
}
