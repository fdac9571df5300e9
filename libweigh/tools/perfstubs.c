/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * PerfStubs: a program looks up ps_tool_initialize() and the rest in itself, so that a library that is loaded before it
 * suffices. It says on its standard output that it has found a tool: this library is in a program only where that was
 * asked for.
 *
 * Timers are regions, dynamic phases are phases with their iteration, counters are gauges, a dump publishes.
 */
#include "tools.h"

#include <stdlib.h>

static bool listens;
static _Atomic bool paused;

static bool is_on(void)
{
	return listens && !paused && tools_active();
}

TOOL void ps_tool_initialize(void);
TOOL void ps_tool_initialize(void)
{
	listens = tools_listen("perfstubs");
}

TOOL void ps_tool_finalize(void);
TOOL void ps_tool_finalize(void)
{
}

TOOL void ps_tool_register_thread(void);
TOOL void ps_tool_register_thread(void)
{
}

TOOL void ps_tool_dump_data(void);
TOOL void ps_tool_dump_data(void)
{
	if (listens && tools_active())
		tools_api.weigh_publish();
}

TOOL void ps_tool_pause_measurement(void);
TOOL void ps_tool_pause_measurement(void)
{
	paused = true;
}

TOOL void ps_tool_resume_measurement(void);
TOOL void ps_tool_resume_measurement(void)
{
	paused = false;
}

/* A timer or counter is the number of its name: no memory, and one that is never freed is no leak. */
static void *named(const char *name)
{
	return (void *)(uintptr_t)(listens && name ? tools_api.weigh_region_name(name) : 0);
}

static weigh_name name_of(const void *made)
{
	return (weigh_name)(uintptr_t)made;
}

TOOL void *ps_tool_timer_create(const char *name);
TOOL void *ps_tool_timer_create(const char *name)
{
	return named(name);
}

TOOL void ps_tool_timer_start(void *timer);
TOOL void ps_tool_timer_start(void *timer)
{
	if (timer && is_on())
		tools_api.weigh_region_begin(name_of(timer));
}

TOOL void ps_tool_timer_stop(void *timer);
TOOL void ps_tool_timer_stop(void *timer)
{
	if (timer && is_on())
		tools_api.weigh_region_end(name_of(timer));
}

TOOL void ps_tool_start_string(const char *name);
TOOL void ps_tool_start_string(const char *name)
{
	ps_tool_timer_start(named(name));
}

TOOL void ps_tool_stop_string(const char *name);
TOOL void ps_tool_stop_string(const char *name)
{
	ps_tool_timer_stop(named(name));
}

/* The regions of both ends are known by the name alone. */
TOOL void ps_tool_stop_current(void);
TOOL void ps_tool_stop_current(void)
{
	if (is_on())
		tools_api.weigh_region_end(0);
}

TOOL void ps_tool_set_parameter(const char *name, int64_t value);
TOOL void ps_tool_set_parameter(const char *name, int64_t value)
{
	if (name && is_on())
		tools_api.weigh_gauge_set(name_of(named(name)), (double)value);
}

TOOL void ps_tool_dynamic_phase_start(const char *name, int iteration);
TOOL void ps_tool_dynamic_phase_start(const char *name, int iteration)
{
	if (name && is_on())
		tools_api.weigh_phase_begin(name_of(named(name)), (uint64_t)iteration);
}

TOOL void ps_tool_dynamic_phase_stop(const char *name, int iteration);
TOOL void ps_tool_dynamic_phase_stop(const char *name, int iteration)
{
	(void)iteration;
	if (name && is_on())
		tools_api.weigh_phase_end(name_of(named(name)));
}

TOOL void *ps_tool_create_counter(const char *name);
TOOL void *ps_tool_create_counter(const char *name)
{
	return named(name);
}

TOOL void ps_tool_sample_counter(void *counter, double value);
TOOL void ps_tool_sample_counter(void *counter, double value)
{
	if (counter && is_on())
		tools_api.weigh_gauge_set(name_of(counter), value);
}

TOOL void ps_tool_set_metadata(const char *name, const char *value);
TOOL void ps_tool_set_metadata(const char *name, const char *value)
{
	if (name && value && is_on())
		tools_api.weigh_metadata(name, value);
}
