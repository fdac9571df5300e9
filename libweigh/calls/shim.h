/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The library that `weigh calls --mechanism preload` loads into a command's programs: it marks the
 * calls of the C library's functions for the kernel side, by libweigh, and counts them itself in a
 * file that it shares with weigh.
 *
 * Rules: nothing is printed, nothing ends the program, no memory is allocated, errno is what the
 * program's own call left. Whatever does not work leaves the program as it would be without it.
 */
#ifndef WEIGH_CALLS_SHIM_H
#define WEIGH_CALLS_SHIM_H

#include "../src/internal.h"
#include "shim_layout.h" /* derived from crates/collect/src/calls/shim/layout.rs */
#include <dlfcn.h>
#include <errno.h>

#define WRAPPER __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define SELDOM __attribute__((cold, noinline))
#define APART __attribute__((noinline)) static

/* A call that is being made: in its wrapper's frame, so that a jump out of it leaves nothing. */
struct span {
	uint64_t began; /* in ticks, see clock.h */
	uint64_t scale;
	unsigned call;
	bool counts;
	uint32_t account; /* its number + 1; 0 where the call's time is not split */
};

/* Whose a place in the shared file is. */
enum has { HAS_NONE, HAS_SHARED, HAS_OWN };

/*
 * What holds for this process and is looked at for each call, in a page of its own: it is wiped in a child of
 * fork(), which has to find all of it out for itself.
 */
struct of_process {
	_Atomic uint32_t has; /* enum has: the stripe */
	_Atomic uint32_t is_opened; /* libweigh is this process's */
	_Atomic uint64_t ready; /* calls that the stripe has room for, a bit each */
	_Atomic uint32_t numbers[N_CALLS]; /* of the calls' accounts, + 1: the library gives none back */
};

/* What a call needs lies together: between two calls the kernel has used the cache for other things. */
extern struct shim {
	struct shim_head *head; /* of the file that is shared with weigh; all zero where there is none */
	struct of_process *process; /* a null pointer where there is no file, as this one is */
	struct stripe *stripe;
} shim;

void span_open(struct span *span);
void span_close(const struct span *span, bool failed, uint64_t bytes);

/* A call that weigh does not ask for costs this test. */
static inline bool is_asked_for(unsigned call)
{
	return shim.head->chosen[call / 64] >> call % 64 & 1;
}

static inline void span_begin(struct span *span, unsigned call)
{
	span->counts = is_asked_for(call);
	span->call = call;
	if (span->counts)
		span_open(span);
}

static inline void span_end(const struct span *span, bool failed, uint64_t bytes)
{
	if (span->counts)
		span_close(span, failed, bytes);
}

/* Whether a descriptor is the library's own, which the program cannot know of. */
bool is_own(int descriptor);
int own_descriptor(void);

/*
 * The function that the program would have called without the library. Looked up at the library's
 * beginning; at the first call where a call comes before that.
 */
#define REAL(type, name, ...)                                                                      \
	typedef type (*name##_type)(__VA_ARGS__);                                                  \
	static name##_type name##_found;                                                           \
	static name##_type real_##name(void)                                                       \
	{                                                                                          \
		name##_type found = __atomic_load_n(&name##_found, __ATOMIC_RELAXED);              \
		int kept;                                                                          \
                                                                                                   \
		if (LIKELY(found))                                                                 \
			return found;                                                              \
		kept = errno;                                                                      \
		found = (name##_type)dlsym(RTLD_NEXT, #name);                                      \
		__atomic_store_n(&name##_found, found, __ATOMIC_RELAXED);                          \
		errno = kept;                                                                      \
		return found;                                                                      \
	}                                                                                          \
	__attribute__((constructor)) static void find_##name(void)                                 \
	{                                                                                          \
		real_##name();                                                                     \
	}

/*
 * A function that makes one call, and returns -1 where that fails. What is not asked for goes straight on, and
 * saves no registers: a program makes many calls that are not asked for.
 */
#define WRAP(type, name, call, moved, parameters, ...)                                             \
	REAL(type, name, UNPACK parameters)                                                        \
	APART type name##_asked_for(UNPACK parameters)                                             \
	{                                                                                          \
		name##_type function = real_##name();                                              \
		struct span span;                                                                  \
		type result;                                                                       \
                                                                                                   \
		if (!LIKELY(function)) {                                                           \
			errno = ENOSYS;                                                            \
			return (type)-1;                                                           \
		}                                                                                  \
		span_begin(&span, CALL_##call);                                                    \
		result = function(__VA_ARGS__);                                                    \
		span_end(&span, result == (type)-1, moved);                                        \
		return result;                                                                     \
	}                                                                                          \
	WRAPPER type name(UNPACK parameters)                                                       \
	{                                                                                          \
		if (LIKELY(!is_asked_for(CALL_##call) && name##_found))                            \
			return name##_found(__VA_ARGS__);                                          \
		return name##_asked_for(__VA_ARGS__);                                              \
	}
#define UNPACK(...) __VA_ARGS__
/* What it returns is how many bytes it has moved; or is not. */
#define BYTES ((uint64_t)result)
#define NO_BYTES 0

#endif
