/* Derived from crates/schema/src/profile.rs by `weigh generate`. */
#ifndef WEIGH_PROFILE_LAYOUT_H
#define WEIGH_PROFILE_LAYOUT_H

#include <stdint.h>

#define PROFILE_LAYOUT 0x54000c95de17e7d0ULL
#define PROFILE_TO_AGENT "agent"
#define PROFILE_IS 0x00656c69666f7270ULL
#define PROFILE_OTHER_NAME "(other)"
#define PROFILE_VARIABLE "WEIGH_REGIONS"
#define PROFILE_ADDRESS_PREFIX "weigh-regions-"
#define PROFILE_FILE_VARIABLE "WEIGH_PROFILE"
#define PROFILE_COSTS_VARIABLE "WEIGH_REGION_COSTS"
#define PROFILE_MOST_TEXT 1023
#define PROFILE_FRAMES 64
#define PROFILE_BRAKE_CALLS 100000ULL
#define PROFILE_BRAKE_NS 2000ULL
#define PROFILE_BRAKED_TIMED 64ULL
#define PROFILE_ACCOUNT_LAYOUT 0xa6a17ca8bde2bfd6ULL

#define PROFILE_NAMES 0 /* a section */
#define PROFILE_NAMES_WORDS 4
#define PROFILE_NAMES_RECORDS 16384
#define PROFILE_TEXTS 1 /* a section */
#define PROFILE_TEXTS_WORDS 1
#define PROFILE_TEXTS_RECORDS 262144
#define PROFILE_NODES 2 /* a section */
#define PROFILE_NODES_WORDS 24
#define PROFILE_NODES_RECORDS 32768
#define PROFILE_THREADS 3 /* a section */
#define PROFILE_THREADS_WORDS 200
#define PROFILE_THREADS_RECORDS 4096
#define PROFILE_PHASES 4 /* a section */
#define PROFILE_PHASES_WORDS 8
#define PROFILE_PHASES_RECORDS 65536
#define PROFILE_EVENTS 5 /* a section */
#define PROFILE_EVENTS_WORDS 8
#define PROFILE_EVENTS_RECORDS 16384
#define PROFILE_METADATA 6 /* a section */
#define PROFILE_METADATA_WORDS 4
#define PROFILE_METADATA_RECORDS 1024
#define PROFILE_COSTS 7 /* a section */
#define PROFILE_COSTS_WORDS 192
#define PROFILE_COSTS_RECORDS 512
#define PROFILE_CONTROL 8 /* a section */
#define PROFILE_CONTROL_WORDS 32
#define PROFILE_CONTROL_RECORDS 64

#define PROFILE_AT_MAGIC 0 /* what it is, written last when the profile is ready */
#define PROFILE_AT_LAYOUT 1 /* PROFILE_LAYOUT of who writes */
#define PROFILE_AT_BYTES 2 /* of the whole profile */
#define PROFILE_AT_PID 3 /* of the process, as it sees it */
#define PROFILE_AT_CLOCK 4 /* enum profile_clock */
#define PROFILE_AT_FIRST_TICKS 5 /* when the profile was made */
#define PROFILE_AT_FIRST_NS 6 /* the same moment by CLOCK_MONOTONIC */
#define PROFILE_AT_LAST_TICKS 7 /* a later moment: a publish, a thread's end, the program's end */
#define PROFILE_AT_LAST_NS 8 /* the same by CLOCK_MONOTONIC */
#define PROFILE_AT_PAIR_SEQUENCE 9 /* odd while the later pair is written */
#define PROFILE_AT_EPOCH 10 /* 1, and 1 more for each publish */
#define PROFILE_AT_ENDED 11 /* 1 once the program has ended in order */
#define PROFILE_AT_RANK 12 /* of the process in its MPI job, and 1; 0 where there is none */
#define PROFILE_AT_NODES_LOST 13 /* calls of regions, counters and events that found no node: they are in (other) */
#define PROFILE_AT_NAMES_LOST 14 /* names that found no room: they are (other) */
#define PROFILE_AT_THREADS_LOST 15 /* threads that found no room */
#define PROFILE_AT_FRAMES_LOST 16 /* calls that began deeper than PROFILE_FRAMES: they are in (other) */
#define PROFILE_AT_OTHER_CALLS 17 /* calls of threads that found no room: added up by atomic operations */
#define PROFILE_AT_OTHER_TICKS 18 /* their time */
#define PROFILE_AT_CONTROL_WRITTEN 19 /* records of control ever written, by who measures */
#define PROFILE_AT_CONTROL_READ 20 /* of those, how many the program has taken */
#define PROFILE_AT_SECTIONS 21 /* of each section: its first word; its records */
#define PROFILE_AT_USED 39 /* of each section: records in use; of rings (phases, events, control): ever written; of texts: words */
#define PROFILE_LENGTH 48

#define NAME_AT_TEXT 0 /* its first word in the section of texts */
#define NAME_AT_BYTES 1 /* of the text, as kept; 0: not written yet */
#define NAME_AT_CUT 2 /* bytes that it had more */
#define NAME_LENGTH 4

#define VERSION_AT_EPOCH 0 /* in which it was last written; 0: never */
#define VERSION_AT_CALLS 1 /* calls that have ended; samples of a counter, gauge or event */
#define VERSION_AT_TIMED 2 /* of those, how many were timed: all, but of a braked region */
#define VERSION_AT_INCLUSIVE 3 /* ticks of the timed calls; a counter's sum (two's complement); a gauge's or event's sum (double) */
#define VERSION_AT_EXCLUSIVE 4 /* the same without regions inside, of a braked region as it was when it was braked; the last value of a counter (its last summand), gauge or event */
#define VERSION_AT_MIN 5 /* the least timed call, or value */
#define VERSION_AT_MAX 6 /* the greatest */
#define VERSION_AT_SQUARES 7 /* sum of the squares of the timed calls (double), while it is braked */
#define VERSION_LENGTH 8

#define NODE_AT_SEQUENCE 0 /* odd while it is written */
#define NODE_AT_PARENT 1 /* number of the node above it; of a root its own */
#define NODE_AT_NAME 2 /* its name */
#define NODE_AT_THREAD 3 /* number of its thread's record */
#define NODE_AT_KIND 4 /* enum profile_kind; 0: not written yet */
#define NODE_AT_BRAKED 5 /* calls before it was braked; 0: it is not */
#define NODE_AT_UNBALANCED 6 /* calls that ended by the end of one around them or of the thread, and ends without a begin */
#define NODE_AT_COSTS 7 /* number of its record of costs, and 1; 0: no account of calls is bound to it; all ones: there was no room for one */
#define NODE_AT_VERSIONS 8 /* its numbers, twice */
#define NODE_LENGTH 24

#define COSTS_AT_SEQUENCE 0 /* odd while it is written */
#define COSTS_AT_NODE 1 /* whose it is */
#define COSTS_AT_TOKEN 2 /* of the account */
#define COSTS_AT_WANTED 3 /* bit set of the parts of the kernel that were to be looked into */
#define COSTS_AT_REASON 4 /* why a call was not measured, of the last one that was not: enum weigh_reason */
#define COSTS_AT_NUMBERS 5 /* struct weigh_account */
#define COSTS_LENGTH 192

#define FRAME_AT_NODE 0 /* of the region */
#define FRAME_AT_BEGUN 1 /* ticks; 0: this call is not timed */
#define FRAME_AT_INSIDE 2 /* ticks of regions inside that have ended */
#define FRAME_LENGTH 3

#define THREAD_AT_TID 0 /* as the process sees it */
#define THREAD_AT_BEGUN 1 /* ticks at which it was first seen */
#define THREAD_AT_ENDED 2 /* ticks at which it ended; 0: it has not */
#define THREAD_AT_ROOT 3 /* its root node */
#define THREAD_AT_DEPTH 4 /* of the stack of open regions, deeper ones than FRAMES counted too */
#define THREAD_AT_NAME 5 /* as the kernel has it, when first seen */
#define THREAD_AT_STACK 8 /* frames */
#define THREAD_LENGTH 200

#define PHASE_AT_STAMP 0 /* its number in the ring, and 1: written last, 0 while it is written */
#define PHASE_AT_NAME 1 /* its name */
#define PHASE_AT_THREAD 2 /* number of its thread's record */
#define PHASE_AT_ITERATION 3 /* as the program numbers them */
#define PHASE_AT_BEGUN 4 /* ticks */
#define PHASE_AT_ENDED 5 /* ticks */
#define PHASE_AT_EPOCH 6 /* in which it ended */
#define PHASE_LENGTH 8

#define EVENT_AT_STAMP 0 /* its number in the ring, and 1: written last, 0 while it is written */
#define EVENT_AT_NAME 1 /* its name */
#define EVENT_AT_THREAD 2 /* number of its thread's record */
#define EVENT_AT_AT 3 /* ticks */
#define EVENT_AT_VALUE 4 /* double */
#define EVENT_AT_EPOCH 5 /* in which it came */
#define EVENT_LENGTH 8

#define METADATA_AT_SEQUENCE 0 /* odd while it is written; 0: not written yet */
#define METADATA_AT_KEY 1 /* a name */
#define METADATA_AT_TEXT 2 /* the value's first word in the section of texts */
#define METADATA_AT_BYTES 3 /* of the value, as kept */
#define METADATA_LENGTH 4

#define CONTROL_AT_STAMP 0 /* its number in the ring, and 1: written last, 0 while it is written */
#define CONTROL_AT_KIND 1 /* enum weigh_control_kind */
#define CONTROL_AT_NUMBER 2 /* a rate or value (double), where it has one */
#define CONTROL_AT_KEY 3 /* text with zeros behind: a name of a region, or the program's own key */
#define CONTROL_AT_TEXT 11 /* text with zeros behind: the value */
#define CONTROL_LENGTH 32

struct profile_hello {
	uint64_t layout; /* PROFILE_LAYOUT of who sends */
	uint64_t token[2]; /* the number of the variable WEIGH_REGIONS, its first 16 digits first */
	uint64_t pid; /* of the process, as it sees it */
};

enum profile_kind {
	PROFILE_ROOT = 1, /* a thread: its calls are 0 */
	PROFILE_REGION = 2, /* a region */
	PROFILE_PHASE = 3, /* a region with iterations */
	PROFILE_RANGE = 4, /* a region that may end on another thread: it is in nobody's exclusive time */
	PROFILE_COUNTER = 5, /* a counter: whole numbers are added up */
	PROFILE_GAUGE = 6, /* a gauge: the last value counts */
	PROFILE_EVENT = 7, /* events with a value */
};

enum profile_clock {
	PROFILE_MONOTONIC = 1, /* nanoseconds of CLOCK_MONOTONIC */
	PROFILE_COUNTER_OF_CPU = 2, /* the CPU's own counter (TSC, or CNTVCT_EL0) */
};

enum weigh_control_kind {
	WEIGH_CONTROL_VALUE = 1, /* a value under a key of the program's own */
	WEIGH_CONTROL_PUBLISH = 2, /* it shall publish now: libweigh does so when the program asks */
	WEIGH_CONTROL_REGIONS_ON = 3, /* regions of this name (empty: all) are measured */
	WEIGH_CONTROL_REGIONS_OFF = 4, /* they are not */
	WEIGH_CONTROL_RATE = 5, /* the number of seconds between publishes */
};

#endif
