/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Kokkos Tools: a program loads the library that $KOKKOS_TOOLS_LIBS (Kokkos 4) or $KOKKOS_PROFILE_LIBRARY (3) names, and
 * looks up functions in it.
 *
 * Kernels, regions, fences and copies are regions by Kokkos' own names; sections are ranges; allocations are counters by
 * memory space. Kokkos is told not to fence: a kernel on a device is as long as its launch.
 */
#include "tools.h"

#include <pthread.h>
#include <stdio.h>

struct settings {
	bool needs_fences;
	bool room[255];
};
/* A memory space, handed over by value. */
struct space {
	char name[64];
};

static const char kernel, region, fence, copy;
static bool listens;

static void begin(const void *owner, const char *name)
{
	if (listens && tools_active())
		tools_begin(owner, tools_api.weigh_region_name(name ? name : "(no name)"));
}

static void end(const void *owner)
{
	if (listens && tools_active())
		tools_end(owner, "Kokkos end without begin");
}

TOOL void kokkosp_init_library(int sequence, uint64_t version, uint32_t devices, void *device);
TOOL void kokkosp_init_library(int sequence, uint64_t version, uint32_t devices, void *device)
{
	(void)sequence, (void)version, (void)devices, (void)device;
	listens = tools_listen("kokkos");
}

TOOL void kokkosp_finalize_library(void);
TOOL void kokkosp_finalize_library(void)
{
	listens = false;
}

TOOL void kokkosp_request_tool_settings(uint32_t count, struct settings *settings);
TOOL void kokkosp_request_tool_settings(uint32_t count, struct settings *settings)
{
	(void)count;
	settings->needs_fences = false;
}

#define KERNEL(kind)                                                                              \
	TOOL void kokkosp_begin_##kind(const char *name, uint32_t device, uint64_t *number);      \
	TOOL void kokkosp_begin_##kind(const char *name, uint32_t device, uint64_t *number)       \
	{                                                                                         \
		(void)device;                                                                     \
		*number = 0;                                                                      \
		begin(&kernel, name);                                                             \
	}                                                                                         \
	TOOL void kokkosp_end_##kind(uint64_t number);                                            \
	TOOL void kokkosp_end_##kind(uint64_t number)                                             \
	{                                                                                         \
		(void)number;                                                                     \
		end(&kernel);                                                                     \
	}
KERNEL(parallel_for)
KERNEL(parallel_reduce)
KERNEL(parallel_scan)

TOOL void kokkosp_begin_fence(const char *name, uint32_t device, uint64_t *number);
TOOL void kokkosp_begin_fence(const char *name, uint32_t device, uint64_t *number)
{
	(void)device;
	*number = 0;
	begin(&fence, name);
}

TOOL void kokkosp_end_fence(uint64_t number);
TOOL void kokkosp_end_fence(uint64_t number)
{
	(void)number;
	end(&fence);
}

TOOL void kokkosp_push_profile_region(const char *name);
TOOL void kokkosp_push_profile_region(const char *name)
{
	begin(&region, name);
}

TOOL void kokkosp_pop_profile_region(void);
TOOL void kokkosp_pop_profile_region(void)
{
	end(&region);
}

TOOL void kokkosp_begin_deep_copy(struct space to, const char *to_name, const void *to_at, struct space from,
				  const char *from_name, const void *from_at, uint64_t bytes);
TOOL void kokkosp_begin_deep_copy(struct space to, const char *to_name, const void *to_at, struct space from,
				  const char *from_name, const void *from_at, uint64_t bytes)
{
	(void)to, (void)to_name, (void)to_at, (void)from, (void)from_name, (void)from_at;
	if (!listens || !tools_active())
		return;
	begin(&copy, "Kokkos::deep_copy");
	tools_api.weigh_counter_add(tools_api.weigh_region_name("Kokkos::deep_copy bytes"), (int64_t)bytes);
}

TOOL void kokkosp_end_deep_copy(void);
TOOL void kokkosp_end_deep_copy(void)
{
	end(&copy);
}

static void tell_memory(const struct space *space, const char *what, uint64_t bytes)
{
	char name[128];

	if (!listens || !tools_active())
		return;
	snprintf(name, sizeof name, "Kokkos %.64s %s bytes", space->name, what);
	tools_api.weigh_counter_add(tools_api.weigh_region_name(name), (int64_t)bytes);
}

TOOL void kokkosp_allocate_data(struct space space, const char *label, const void *at, uint64_t bytes);
TOOL void kokkosp_allocate_data(struct space space, const char *label, const void *at, uint64_t bytes)
{
	(void)label, (void)at;
	tell_memory(&space, "allocated", bytes);
}

TOOL void kokkosp_deallocate_data(struct space space, const char *label, const void *at, uint64_t bytes);
TOOL void kokkosp_deallocate_data(struct space space, const char *label, const void *at, uint64_t bytes)
{
	(void)label, (void)at;
	tell_memory(&space, "freed", bytes);
}

/* Sections: a number each, which is given out here. */
enum { SECTIONS = 1024 };
static struct {
	weigh_name name;
	_Atomic uint64_t range;
} sections[SECTIONS];
static _Atomic uint32_t made_sections;

TOOL void kokkosp_create_profile_section(const char *name, uint32_t *number);
TOOL void kokkosp_create_profile_section(const char *name, uint32_t *number)
{
	*number = made_sections++;
	if (listens && *number < SECTIONS)
		sections[*number].name = tools_api.weigh_region_name(name);
}

TOOL void kokkosp_destroy_profile_section(uint32_t number);
TOOL void kokkosp_destroy_profile_section(uint32_t number)
{
	(void)number;
}

TOOL void kokkosp_start_profile_section(uint32_t number);
TOOL void kokkosp_start_profile_section(uint32_t number)
{
	if (listens && tools_active() && number < SECTIONS)
		sections[number].range = tools_api.weigh_range_begin(sections[number].name);
}

TOOL void kokkosp_stop_profile_section(uint32_t number);
TOOL void kokkosp_stop_profile_section(uint32_t number)
{
	if (listens && tools_active() && number < SECTIONS)
		tools_api.weigh_range_end(sections[number].range);
}

TOOL void kokkosp_profile_event(const char *name);
TOOL void kokkosp_profile_event(const char *name)
{
	if (listens && tools_active())
		tools_api.weigh_event_tell(tools_api.weigh_region_name(name), 1);
}

TOOL void kokkosp_declare_metadata(const char *key, const char *value);
TOOL void kokkosp_declare_metadata(const char *key, const char *value)
{
	if (listens && tools_active())
		tools_api.weigh_metadata(key, value);
}
