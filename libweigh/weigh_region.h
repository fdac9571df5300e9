/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions: a program tells its own phases, timers, counters and events to who measures it (`weigh run`), or keeps them
 * in a file ($WEIGH_PROFILE) where nobody does.
 *
 *	void step(void)
 *	{
 *		WEIGH_REGION("solve");             // to the end of the block
 *		...
 *		weigh_count("cells", 4096);
 *	}
 *
 *	for (uint64_t i = 0; i < steps; i++) {
 *		WEIGH_PHASE("iteration", i);
 *		step();
 *		weigh_publish();
 *	}
 *
 * With -DWEIGH_OFF all of it compiles to nothing. Where nobody listens and no file is named, begin and end are a test
 * of a flag. Otherwise they read the clock and write to memory that is shared with who measures: no lock, no system
 * call, no allocation, but at a thread's and a name's first use. Nothing is printed, nothing ends the program, errno
 * stays as it was. All functions may be called from signal handlers, but for those that give a name out
 * (weigh_region_name() and what takes a text) and weigh_metadata().
 *
 * Names are of the program's own choice, at most 1023 bytes of them are kept. What finds no room (16,384 names, 32,768
 * places in call trees, 4,096 threads, 64 nested regions) is added up as `(other)`, and counted.
 *
 * After fork() the child begins a profile of its own, with no region open. After exec() another begins.
 */
#ifndef WEIGH_REGION_H
#define WEIGH_REGION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A region's, counter's or event's number in this process; 0 is none. */
typedef uint32_t weigh_name;

/*
 * 0: nobody listens, there is no file, and each function returns at once. Only libweigh writes it. What reads it in
 * front of a call saves the call.
 */
extern int weigh_regions_active;

/* The number of a name: the same one for the same text. Look it up once per place, as the macros do. */
weigh_name weigh_region_name(const char *text);

/* The same of a text that has no zero at its end, or has some inside. */
weigh_name weigh_region_name_of(const char *text, size_t length);

/* A region begins, inside of those that the thread has open. */
void weigh_region_begin(weigh_name name);

/*
 * It ends. 0: the innermost. Regions inside of it that are still open end with it, and are marked unbalanced; where the
 * thread has none of that name open, that is counted, and nothing ends.
 */
void weigh_region_end(weigh_name name);

/* A phase: a region with the number of its iteration. Each is kept with its begin and end. */
void weigh_phase_begin(weigh_name name, uint64_t iteration);
void weigh_phase_end(weigh_name name);

/*
 * A range may end on another thread, and overlap others. It is told apart from regions: its time is in no region's
 * exclusive time. weigh_range_end() of a number that is none is counted.
 */
uint64_t weigh_range_begin(weigh_name name);
void weigh_range_end(uint64_t range);

/* A region that was measured elsewhere: so many calls, nanoseconds in all, the shortest and longest of them. */
void weigh_region_add(weigh_name name, uint64_t calls, uint64_t total_ns, uint64_t min_ns, uint64_t max_ns);

/* Adds to a counter. */
void weigh_counter_add(weigh_name name, int64_t number);

/* Sets a gauge. */
void weigh_gauge_set(weigh_name name, double value);

/* An event with a value: counted, and kept with its time while there is room. */
void weigh_event_tell(weigh_name name, double value);

/* A word about the program: "input", "case-7.nml". The last value of a key counts. */
void weigh_metadata(const char *key, const char *value);

/*
 * Gives the profile out as it stands: who measures sees it whole. One store. Without it a profile is read
 * as it is, each region whole but not all of one moment, and in the end as it was last.
 */
void weigh_publish(void);

/*
 * Publishes by itself from now on: at the first end of a region when so many seconds have passed (0: not by time), and
 * at each so many ends of a phase (0: not by phases; name 0: of any).
 */
void weigh_publish_every(double seconds, weigh_name phase, uint64_t iterations);

/*
 * The region's own account of `weigh calls`: what its system calls cost in these parts of the kernel (see weigh.h). From
 * then on each of its calls costs what weigh_begin() and weigh_end() do. Returns why not (enum weigh_reason), or 0.
 */
int weigh_region_account(weigh_name name, uint64_t parts);

/*
 * What who measures has sent. Texts end with 0. `kind`: 1, a value under a key of the program's own; of libweigh's own 2,
 * publish now; 3 and 4, regions of the name in `key` (`*` in it stands for anything; empty: all) on and off; 5, publish
 * each `number` seconds.
 */
struct weigh_control {
	uint64_t kind;
	double number;
	char key[65];
	char text[169];
};

/*
 * 1, and the next thing that was sent, oldest first; 0 if there is none, which costs one load. Requests that concern
 * libweigh itself (publish, rates, regions on and off) are carried out by it here, and given out too.
 */
int weigh_poll_control_(struct weigh_control *control);

/*
 * The other side: sends a request to programs under `weigh run`, as `weigh control` does. `target` is the PID of one of them or of
 * its `weigh run` in digits, the job's name, or the directory of its recording. Of the request `kind` counts, and with 1 `key` and
 * `text`, with 3 and 4 `key`, with 5 `number`. Waits at most so many seconds until the programs have taken it. For programs that
 * measure or steer: it opens sockets, allocates, and waits up to 5 s for a `weigh run` that is stopped.
 *
 * 0 if it was sent to each program; else -1, and `why` says why not.
 */
struct weigh_sent {
	/* Programs that it concerns, and of these: which have taken it, have not yet, have ended, and to which it was not sent. */
	uint32_t processes, taken, waiting, ended, refused;
	char why[200];
};
int weigh_control_send(const char *target, const struct weigh_control *request, double seconds, struct weigh_sent *outcome);

/* Why no regions are kept, as text; NULL if they are. */
const char *weigh_regions_why(void);

/* How many things ever sent libweigh has seen, and where their number stands: for the macro below. */
extern const uint64_t *weigh_control_written;
extern uint64_t weigh_control_seen;

#ifndef WEIGH_OFF

/* One number per place in the source. */
#define WEIGH_NAME_HERE_(text)                                                                              \
	__extension__({                                                                                    \
		static weigh_name weigh_here_;                                                             \
		weigh_name weigh_known_ = __atomic_load_n(&weigh_here_, __ATOMIC_RELAXED);                 \
		if (__builtin_expect(!weigh_known_ && weigh_regions_active, 0)) {                          \
			weigh_known_ = weigh_region_name(text);                                            \
			__atomic_store_n(&weigh_here_, weigh_known_, __ATOMIC_RELAXED);                    \
		}                                                                                          \
		weigh_known_;                                                                              \
	})

static inline void weigh_leave_(weigh_name *name)
{
	if (__builtin_expect(weigh_regions_active && *name, 0))
		weigh_region_end(*name);
}
static inline void weigh_leave_phase_(weigh_name *name)
{
	if (__builtin_expect(weigh_regions_active && *name, 0))
		weigh_phase_end(*name);
}
#define WEIGH_JOIN2_(a, b) a##b
#define WEIGH_JOIN_(a, b) WEIGH_JOIN2_(a, b)

#define WEIGH_BEGIN(text) (weigh_regions_active ? weigh_region_begin(WEIGH_NAME_HERE_(text)) : (void)0)
#define WEIGH_END(text) (weigh_regions_active ? weigh_region_end(WEIGH_NAME_HERE_(text)) : (void)0)
#define WEIGH_PHASE_BEGIN(text, iteration)                                                                 \
	(weigh_regions_active ? weigh_phase_begin(WEIGH_NAME_HERE_(text), (iteration)) : (void)0)
#define WEIGH_PHASE_END(text) (weigh_regions_active ? weigh_phase_end(WEIGH_NAME_HERE_(text)) : (void)0)

/* From here to the end of the block. */
#define WEIGH_REGION(text)                                                                                 \
	__attribute__((cleanup(weigh_leave_))) weigh_name WEIGH_JOIN_(weigh_region_, __LINE__) =           \
		weigh_regions_active ? WEIGH_NAME_HERE_(text) : 0;                                         \
	(WEIGH_JOIN_(weigh_region_, __LINE__) ? weigh_region_begin(WEIGH_JOIN_(weigh_region_, __LINE__)) : (void)0)
#define WEIGH_PHASE(text, iteration)                                                                       \
	__attribute__((cleanup(weigh_leave_phase_))) weigh_name WEIGH_JOIN_(weigh_phase_, __LINE__) =      \
		weigh_regions_active ? WEIGH_NAME_HERE_(text) : 0;                                         \
	(WEIGH_JOIN_(weigh_phase_, __LINE__)                                                               \
		 ? weigh_phase_begin(WEIGH_JOIN_(weigh_phase_, __LINE__), (iteration))                     \
		 : (void)0)

#define weigh_count(text, number)                                                                          \
	(weigh_regions_active ? weigh_counter_add(WEIGH_NAME_HERE_(text), (number)) : (void)0)
#define weigh_gauge(text, value)                                                                           \
	(weigh_regions_active ? weigh_gauge_set(WEIGH_NAME_HERE_(text), (value)) : (void)0)
#define weigh_event_value(text, value)                                                                     \
	(weigh_regions_active ? weigh_event_tell(WEIGH_NAME_HERE_(text), (value)) : (void)0)

static inline int weigh_poll_control(struct weigh_control *control)
{
	if (__builtin_expect(__atomic_load_n(weigh_control_written, __ATOMIC_ACQUIRE) == weigh_control_seen, 1))
		return 0;
	return weigh_poll_control_(control);
}

#else

/* Nothing is evaluated; variables that serve nothing else are not unused for it. */
#define WEIGH_BEGIN(text) ((void)0)
#define WEIGH_END(text) ((void)0)
#define WEIGH_PHASE_BEGIN(text, iteration) ((void)sizeof(iteration))
#define WEIGH_PHASE_END(text) ((void)0)
#define WEIGH_REGION(text) ((void)0)
#define WEIGH_PHASE(text, iteration) ((void)sizeof(iteration))
#define weigh_count(text, number) ((void)sizeof(number))
#define weigh_gauge(text, value) ((void)sizeof(value))
#define weigh_event_value(text, value) ((void)sizeof(value))
#define weigh_publish() ((void)0)
#define weigh_metadata(key, value) ((void)sizeof(value))
static inline int weigh_poll_control(struct weigh_control *control)
{
	(void)control;
	return 0;
}

#endif

#ifdef __cplusplus
}
#endif
#endif
