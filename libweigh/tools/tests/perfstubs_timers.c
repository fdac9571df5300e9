/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* PerfStubs as programs have it: functions that are looked up in the process; prints what it has done. */
#include <dlfcn.h>
#include <stdio.h>

#define TOOL(type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, "ps_tool_" #name)

int main(void)
{
	TOOL(void, initialize, void);
	TOOL(void *, timer_create, const char *);
	TOOL(void, timer_start, void *);
	TOOL(void, timer_stop, void *);
	TOOL(void, start_string, const char *);
	TOOL(void, stop_string, const char *);
	TOOL(void, dynamic_phase_start, const char *, int);
	TOOL(void, dynamic_phase_stop, const char *, int);
	TOOL(void *, create_counter, const char *);
	TOOL(void, sample_counter, void *, double);
	TOOL(void, dump_data, void);

	if (initialize) {
		initialize();
		void *timer = timer_create("write"), *counter = create_counter("queue");
		for (int i = 0; i < 19; i++) {
			dynamic_phase_start("iteration", i);
			timer_start(timer);
			timer_stop(timer);
			start_string("text");
			stop_string("text");
			sample_counter(counter, i);
			dynamic_phase_stop("iteration", i);
			dump_data();
		}
	}
	/* The sum of the phases' numbers. */
	printf("calls 19 write\ncalls 19 text\nphases 19 iteration\niterations 171 iteration\nsamples 19 queue\n");
}
