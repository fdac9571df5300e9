/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Markers of LIKWID, PAPI's high level and ROCTX: functions of libraries that programs link. They are wrapped, and
 * called as well.
 */
#include "tools.h"

enum convention { LIKWID, PAPI, ROCTX, CONVENTIONS };
static const char *const names[CONVENTIONS] = { "likwid", "papi", "roctx" };

static bool listens(enum convention convention)
{
	static _Atomic int found[CONVENTIONS]; /* 1: no, 2: yes */

	if (!found[convention])
		found[convention] = 1 + tools_listen(names[convention]);
	return found[convention] == 2 && tools_active();
}

static void *real(enum convention convention, const char *name)
{
	int kept = errno;
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		found = tools_find_in(names[convention], name);
	errno = kept;
	return found;
}

/* Without the library a program would not have come here: 0 is what it says if all is well. */
#define REAL(convention, type, name, ...)                                \
	static type (*name##_real)(__VA_ARGS__);                         \
	if (!name##_real)                                                \
	name##_real = (type (*)(__VA_ARGS__))real(convention, #name)

/* A region by its name at both ends. */
#define NAMED(convention, begin, end)                                          \
	TOOL int begin(const char *name);                                      \
	TOOL int begin(const char *name)                                       \
	{                                                                      \
		REAL(convention, int, begin, const char *);                    \
		if (name && listens(convention))                               \
			tools_api.weigh_region_begin(tools_api.weigh_region_name(name)); \
		return begin##_real ? begin##_real(name) : 0;                  \
	}                                                                      \
	TOOL int end(const char *name);                                        \
	TOOL int end(const char *name)                                         \
	{                                                                      \
		REAL(convention, int, end, const char *);                      \
		int result = end##_real ? end##_real(name) : 0;                \
		if (name && listens(convention))                               \
			tools_api.weigh_region_end(tools_api.weigh_region_name(name)); \
		return result;                                                 \
	}
NAMED(LIKWID, likwid_markerStartRegion, likwid_markerStopRegion)
NAMED(PAPI, PAPI_hl_region_begin, PAPI_hl_region_end)

TOOL void roctxMarkA(const char *text);
TOOL void roctxMarkA(const char *text)
{
	REAL(ROCTX, void, roctxMarkA, const char *);
	if (text && listens(ROCTX))
		tools_api.weigh_event_tell(tools_api.weigh_region_name(text), 1);
	if (roctxMarkA_real)
		roctxMarkA_real(text);
}

TOOL int roctxRangePushA(const char *text);
TOOL int roctxRangePushA(const char *text)
{
	REAL(ROCTX, int, roctxRangePushA, const char *);
	if (text && listens(ROCTX))
		tools_begin(names, tools_api.weigh_region_name(text));
	return roctxRangePushA_real ? roctxRangePushA_real(text) : 0;
}

TOOL int roctxRangePop(void);
TOOL int roctxRangePop(void)
{
	REAL(ROCTX, int, roctxRangePop, void);
	int result = roctxRangePop_real ? roctxRangePop_real() : 0;
	if (listens(ROCTX))
		tools_end(names, "ROCTX pop without push");
	return result;
}

/* The program has the number that its own library gives out. */
TOOL uint64_t roctxRangeStartA(const char *text);
TOOL uint64_t roctxRangeStartA(const char *text)
{
	static _Atomic uint64_t last;
	REAL(ROCTX, uint64_t, roctxRangeStartA, const char *);
	uint64_t id = roctxRangeStartA_real ? roctxRangeStartA_real(text) : ++last;
	if (text && listens(ROCTX))
		tools_range_begin(names, (struct tools_id){ .d1 = id }, tools_api.weigh_region_name(text));
	return id;
}

TOOL void roctxRangeStop(uint64_t id);
TOOL void roctxRangeStop(uint64_t id)
{
	REAL(ROCTX, void, roctxRangeStop, uint64_t);
	if (roctxRangeStop_real)
		roctxRangeStop_real(id);
	if (listens(ROCTX))
		tools_range_end(names, (struct tools_id){ .d1 = id });
}
