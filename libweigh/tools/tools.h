/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The library that turns what annotated programs say (NVTX, ITT, Kokkos Tools, OMPT, MPI, PerfStubs) into regions of
 * libweigh. `weigh run --regions` sets the variables by which programs load it.
 *
 * Reads calls of these conventions; emits calls of weigh_region.h. Where the program has libweigh itself, these are
 * its own functions, so that all regions are in one call tree. Else they are those of the libweigh inside of this
 * library.
 *
 * Rules: nothing is printed, nothing ends the program, errno is what the program's own call left. A convention that
 * was not asked for (WEIGH_TOOLS), or to which nobody listens, is as if no tool were there.
 */
#ifndef WEIGH_TOOLS_H
#define WEIGH_TOOLS_H

#include "../weigh_region.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define TOOL __attribute__((visibility("default")))

/* Conventions that were asked for, separated by commas. Not set: all. */
#define TOOLS_VARIABLE "WEIGH_TOOLS"

/* What of LD_PRELOAD is weigh's: colons are between. */
#define TOOLS_PRELOAD "WEIGH_TOOLS_PRELOAD"

/* Functions of libweigh that adapters call: type, name, parameters. */
#define TOOLS_FUNCTIONS(DO)                                                              \
	DO(weigh_name, weigh_region_name, const char *)                                  \
	DO(weigh_name, weigh_region_name_of, const char *, size_t)                       \
	DO(void, weigh_region_begin, weigh_name)                                         \
	DO(void, weigh_region_end, weigh_name)                                           \
	DO(void, weigh_phase_begin, weigh_name, uint64_t)                                \
	DO(void, weigh_phase_end, weigh_name)                                            \
	DO(uint64_t, weigh_range_begin, weigh_name)                                      \
	DO(void, weigh_range_end, uint64_t)                                              \
	DO(void, weigh_counter_add, weigh_name, int64_t)                                 \
	DO(void, weigh_gauge_set, weigh_name, double)                                    \
	DO(void, weigh_event_tell, weigh_name, double)                                   \
	DO(void, weigh_metadata, const char *, const char *)                             \
	DO(void, weigh_publish, void)

#define TOOLS_FIELD(type, name, ...) type (*name)(__VA_ARGS__);
/* The libweigh that adapters call: the program's own, or the one inside. `active` is NULL where there is none. */
extern struct tools_api {
	int *active;
	TOOLS_FUNCTIONS(TOOLS_FIELD)
} tools_api;

/* The function of the library of all conventions by which another one of weigh's has its libweigh. */
#define TOOLS_API "libweigh_tools_api"

/* Whether a convention was asked for, and somebody listens. Finds libweigh at its first call. */
bool tools_listen(const char *convention);

/* Whether a convention was asked for. */
bool tools_asked_for(const char *convention);

/* Whether somebody listens now: the program may turn regions off. */
static inline bool tools_active(void)
{
	return tools_api.active && __atomic_load_n(tools_api.active, __ATOMIC_RELAXED);
}

/*
 * A region of a convention whose ends carry no name. The innermost region that this thread has open of the same `owner`
 * (a domain, or the convention) is the one that ends. An end without a begin is counted under `orphan`.
 */
void tools_begin(const void *owner, weigh_name name);
void tools_end(const void *owner, const char *orphan);

/*
 * A range of a convention that knows it by a number, which may be used again once it has ended. One that is not open is
 * ended as number 0, which is counted.
 */
struct tools_id {
	unsigned long long d1, d2, d3;
};
void tools_range_begin(const void *owner, struct tools_id id, weigh_name name);
void tools_range_end(const void *owner, struct tools_id id);

/* `domain:text`, or the text alone where the domain has no name. */
weigh_name tools_name_in(const char *domain, const char *text);

/*
 * A function of a library that is loaded and has `part` in its name, wherever it is in scope: where the loader finds a
 * wrapper of ours first it may find what is wrapped nowhere.
 */
void *tools_find_in(const char *part, const char *name);

/* What MPI says: launchers tell it in variables of their own, which libweigh may not know. */
void tools_set_rank(uint64_t rank);

/* A wide text as UTF-8, cut to the buffer. */
const char *tools_narrow(char *to, size_t bytes, const void *wide);

#endif
