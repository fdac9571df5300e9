/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What calls send and receive by sockets, counted here: what a call returns says how much it was. A
 * program of the kernel side at each send and receive costs more than all else that is done for a call.
 *
 * Which descriptors are sockets is asked once for each. A number may be used again for something else:
 * whatever closes it, or puts something else in its place, forgets.
 */
#ifndef WEIGH_CALLS_SOCKETS_H
#define WEIGH_CALLS_SOCKETS_H

#include "shim.h"

enum kind { UNKNOWN, OTHER, SOCKET };
/* Those of greater numbers are asked each time. */
#define KINDS 4096

extern uint8_t kinds[KINDS];

/* Bytes went this way by a descriptor, in so many messages. */
enum way { NOWHERE, SENDS, RECEIVES };
void moved_slowly(unsigned call, int fd, enum way way, uint64_t bytes, uint64_t messages);

static inline void set_kind(int fd, enum kind kind)
{
	if ((unsigned)fd < KINDS)
		kinds[fd] = kind;
}

/* Whether a descriptor is a socket, where that is not known yet. */
bool is_socket_really(int fd);

/* Whether a call is asked for only by sockets, and this is none. */
static inline bool is_beside(unsigned call, int fd)
{
	enum kind kind;

	if (LIKELY(!(shim.head->only_by_sockets[call / 64] >> call % 64 & 1)))
		return false;
	kind = (unsigned)fd < KINDS ? kinds[fd] : UNKNOWN;
	return LIKELY(kind) ? kind == OTHER : !is_socket_really(fd);
}

static inline void moved(const struct span *span, int fd, enum way way, ssize_t bytes)
{
	if (span->counts && bytes > 0 && way && shim.head->sockets &&
	    !((unsigned)fd < KINDS && kinds[fd] == OTHER))
		moved_slowly(span->call, fd, way, (uint64_t)bytes, 1);
}

/* A function that makes one call, and returns a new descriptor of this kind, or -1. */
#define WRAP_NEW(name, call, kind, parameters, ...)                                                \
	REAL(int, name, UNPACK parameters)                                                         \
	WRAPPER int name(UNPACK parameters)                                                        \
	{                                                                                          \
		name##_type function = real_##name();                                              \
		struct span span;                                                                  \
		int result;                                                                        \
                                                                                                   \
		if (!LIKELY(function)) {                                                           \
			errno = ENOSYS;                                                            \
			return -1;                                                                 \
		}                                                                                  \
		span_begin(&span, CALL_##call);                                                    \
		result = function(__VA_ARGS__);                                                    \
		span_end(&span, result < 0, 0);                                                    \
		set_kind(result, kind);                                                            \
		return result;                                                                     \
	}

/* A function that makes one call, and returns how many bytes it has moved by a descriptor, or -1. */
#define WRAP_MOVING(name, call, way, fd, parameters, ...)                                          \
	REAL(ssize_t, name, UNPACK parameters)                                                     \
	APART ssize_t name##_asked_for(UNPACK parameters)                                          \
	{                                                                                          \
		name##_type function = real_##name();                                              \
		struct span span;                                                                  \
		ssize_t result;                                                                    \
                                                                                                   \
		if (!LIKELY(function)) {                                                           \
			errno = ENOSYS;                                                            \
			return -1;                                                                 \
		}                                                                                  \
		if (is_beside(CALL_##call, fd))                                                    \
			return function(__VA_ARGS__);                                              \
		span_begin(&span, CALL_##call);                                                    \
		result = function(__VA_ARGS__);                                                    \
		span_end(&span, result < 0, (uint64_t)result);                                     \
		moved(&span, fd, way, result);                                                     \
		return result;                                                                     \
	}                                                                                          \
	WRAPPER ssize_t name(UNPACK parameters)                                                    \
	{                                                                                          \
		if (LIKELY(!is_asked_for(CALL_##call) && name##_found))                            \
			return name##_found(__VA_ARGS__);                                          \
		return name##_asked_for(__VA_ARGS__);                                              \
	}

#endif
