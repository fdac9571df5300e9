/* Derived from crates/trace by `weigh generate`. */
#ifndef WEIGH_EVENT_H
#define WEIGH_EVENT_H

#include <stdint.h>

/* What every event begins with; its fields follow. */
struct weigh_event {
	uint32_t event; /* which of the stream's events, counted from 0 */
	uint32_t size; /* bytes of the record, with its header */
	uint64_t time_ns; /* when, by CLOCK_BOOTTIME */
	uint64_t id; /* what the event is about, as the probe chose */
	uint32_t cpu; /* the CPU that it happened on */
	uint32_t tgid; /* the process that was running there */
	uint32_t tid; /* its thread */
	uint32_t absent; /* a bit for each field whose value could not be had, the first is bit 0 */
};

/* What a field is. */
enum weigh_trace_kind {
	WEIGH_TRACE_UNSIGNED, /* a number that is never below 0 */
	WEIGH_TRACE_SIGNED, /* a number */
	WEIGH_TRACE_BOOL, /* 0 or 1 */
	WEIGH_TRACE_POINTER, /* an address */
	WEIGH_TRACE_ENUM, /* a number whose names the description has */
	WEIGH_TRACE_TEXT, /* characters, up to the first that is 0 */
	WEIGH_TRACE_BYTES, /* bytes */
	WEIGH_TRACE_STACK, /* addresses of the kernel's functions, the innermost first, up to the first that is 0 */
	WEIGH_TRACE_USTACK, /* the same of the program's functions */
	WEIGH_TRACE_IP, /* an address of IP, 16 bytes in the order of the network; before one of IPv4 stands ::ffff: */
};

/* Their names in descriptions, in this order. */
#define WEIGH_TRACE_KIND_NAMES \
	{ \
		"unsigned", \
		"signed", \
		"bool", \
		"pointer", \
		"enum", \
		"text", \
		"bytes", \
		"stack", \
		"ustack", \
		"ip", \
	}

#endif
