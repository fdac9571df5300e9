/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Markers of LIKWID, PAPI's high level and ROCTX, and with -DLIBRARY a library in place of theirs, which counts its calls.
 * The program prints what it has done.
 */
#include <stdint.h>
#include <stdio.h>

int likwid_markerStartRegion(const char *), likwid_markerStopRegion(const char *);
int PAPI_hl_region_begin(const char *), PAPI_hl_region_end(const char *);
int roctxRangePushA(const char *), roctxRangePop(void);
void roctxMarkA(const char *), roctxRangeStop(uint64_t);
uint64_t roctxRangeStartA(const char *);
int marker_calls(void);

#ifdef LIBRARY
static int calls;
int likwid_markerStartRegion(const char *name) { return calls += !!name; }
int likwid_markerStopRegion(const char *name) { return calls += !!name; }
int PAPI_hl_region_begin(const char *name) { return calls += !!name; }
int PAPI_hl_region_end(const char *name) { return calls += !!name; }
int roctxRangePushA(const char *name) { return calls += !!name; }
int roctxRangePop(void) { return ++calls; }
void roctxMarkA(const char *name) { calls += !!name; }
uint64_t roctxRangeStartA(const char *name) { return 1000 + (uint64_t)(calls += !!name); }
void roctxRangeStop(uint64_t id) { calls += id > 1000; }
int marker_calls(void) { return calls; }
#else
int main(void)
{
	uint64_t overlapping[2];
	int last = 0;

	for (int i = 0; i < 17; i++) {
		likwid_markerStartRegion("triad");
		PAPI_hl_region_begin("solve");
		roctxRangePushA("kernel");
		overlapping[i % 2] = roctxRangeStartA("copy");
		roctxMarkA("mark");
		last = roctxRangePop();
		PAPI_hl_region_end("solve");
		likwid_markerStopRegion("triad");
		/* Each ends in the next turn. */
		if (i)
			roctxRangeStop(overlapping[1 - i % 2]);
	}
	roctxRangeStop(overlapping[0]);
	printf("calls 17 triad\ncalls 17 solve\ncalls 17 kernel\nevents 17 mark\nranges 17 copy\n");
	return last == 16 * 9 - 1 + 6 && marker_calls() == 17 * 9 ? 0 : 1;
}
#endif
