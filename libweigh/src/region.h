/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the parts of regions know of each other.
 *
 * The profile is at the same address for as long as the process lives: a child puts its own in the place of its parent's.
 * What a thread has of it lies in memory that a fork wipes, so that the child finds that it has none.
 */
#ifndef WEIGH_REGION_INTERNAL_H
#define WEIGH_REGION_INTERNAL_H

#include "../weigh_region.h"
#include "internal.h"
#include "profile_layout.h"
#include <signal.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* What comes before it is written before what comes after it: for signal handlers, readers, and a kill in between. */
#define WRITTEN_BEFORE() __atomic_thread_fence(__ATOMIC_RELEASE)
#define INLINE static inline __attribute__((always_inline))

#define PROFILE_SECTIONS 9
#define OTHER_NAME 1
#define NO_NUMBER UINT64_MAX
#define CACHE_BITS 8
#define CACHE_ENTRIES (1 << CACHE_BITS)
#define INDEX_ENTRIES (2 * PROFILE_NODES_RECORDS)
#define MOST_RANGES 4096
#define CLEANUP_ROUNDS 2

/* A child of a node by its name and kind. */
struct child {
	uint64_t key; /* 0: none */
	uint64_t number;
	uint64_t *node;
	uint64_t is_special; /* braked, or with an account: not for the short way */
};

/*
 * An open call: what the library reads of it. Readers have its frame. It fills a line of the cache, and what an end
 * needs before it reads the clock is one load away: the CPU's counter is read when all that comes before it is done, so
 * that each load which waits for another one costs time.
 */
enum special {
	IS_PHASE = 1,
	IS_OFF = 2,
	IS_BOUND = 4,
	IS_UNTIMED = 8,
	IS_SAMPLED = 16, /* braked, and timed */
	IS_ROOT = 32,
	HAS_DEEPER = 64,
};
struct open_call {
	uint64_t special; /* 0: a region that is timed */
	uint64_t *node;
	uint64_t number, name, begun, inside;
	uint64_t *frame;
	uint64_t iteration;
};
_Static_assert(sizeof(struct open_call) == 64, "a line");

/* What is private of a thread's record. */
struct region_thread {
	uint64_t *volatile entry; /* its record; NULL while the thread is inside the library */
	uint64_t *record; /* NULL: it has none in this process */
	struct open_call *last; /* that has a frame */
	uint64_t number, root, other, random;
	uint64_t entered_at; /* where the stack was then */
	uint32_t skipped; /* begins of signal handlers while it was inside, of which no end has come */
	uint32_t cleanups;
	uint64_t deeper, deep_begun, deep_inside; /* calls without a frame: how many, and times of the outermost one */
	weigh *account;
	uint64_t root_frame[3];
	struct open_call open[PROFILE_FRAMES + 1]; /* the first one is the root */
	struct child cache[CACHE_ENTRIES];
};

struct range {
	_Atomic uint64_t id; /* 0: free; 1: being taken */
	uint64_t name, begun;
};

/* Wiped by a fork. */
struct region_private {
	_Atomic uint32_t mark; /* enum mark */
	_Atomic uint64_t index[INDEX_ENTRIES];
	uint8_t has_children[PROFILE_NODES_RECORDS];
	struct range ranges[MOST_RANGES];
	_Alignas(64) struct region_thread threads[PROFILE_THREADS_RECORDS];
};

struct region_process {
	uint64_t *words; /* the profile; NULL: there has never been one */
	uint64_t *section[PROFILE_SECTIONS];
	uint64_t records[PROFILE_SECTIONS];
	struct region_private *private;
	bool by_counter; /* of the CPU */
	/* Begins and ends cannot go the short way: the clock is another one, names are off, or have got an account late. */
	_Atomic uint32_t goes_long_way;
	const char *why; /* there is no profile */
	uint32_t generation; /* another one in each process that was forked */
	_Atomic uint64_t attend_at; /* ticks: pair and publishing by time are looked after then */
};
extern struct region_process weigh_regions;

/* What a thread has in its own static memory: little, for a library that is loaded late has little of it. */
struct region_here {
	struct region_thread *thread; /* never NULL */
	struct open_call *top; /* the innermost open call */
	uint64_t lost_begun;
	uint32_t lost_depth, lost_in; /* a generation, in which the thread found no room */
	uint32_t is_inside; /* of what a thread does once */
};
#if defined(__GLIBC__)
#define QUICK_TLS __attribute__((tls_model("initial-exec")))
#else
#define QUICK_TLS
#endif
extern __thread struct region_here weigh_here QUICK_TLS;

enum name_flag { NAME_OFF = 1, NAME_BOUND = 2 };

INLINE uint64_t *node_numbered(uint64_t number)
{
	return weigh_regions.section[PROFILE_NODES] + number * NODE_LENGTH;
}

INLINE uint64_t *frame_numbered(uint64_t *record, uint64_t depth)
{
	return record + THREAD_AT_STACK + depth * FRAME_LENGTH;
}

INLINE uint64_t *record_numbered(unsigned section, uint64_t number, uint64_t words)
{
	return weigh_regions.section[section] + number % weigh_regions.records[section] * words;
}

INLINE uint64_t counter_now(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return clock_now();
#endif
}

INLINE uint64_t ticks_now(void)
{
	return LIKELY(weigh_regions.by_counter) ? counter_now() : clock_now();
}

INLINE bool has_profile(void)
{
	struct region_private *private = weigh_regions.private;

	return private && atomic_load_explicit(&private->mark, memory_order_acquire) == MARK_READY;
}

INLINE void profile_add(unsigned word, uint64_t number)
{
	add(&weigh_regions.words[word], number);
}

/* Where the stack is; 0: not known. */
INLINE uint64_t stack_now(void)
{
	uint64_t at = 0;

#if defined(__x86_64__)
	__asm__ volatile("mov %%rsp, %0" : "=r"(at));
#elif defined(__aarch64__)
	__asm__ volatile("mov %0, sp" : "=r"(at));
#endif
	return at;
}

/* The thread's own state, entered; NULL: it has none yet, or is inside already. */
INLINE struct region_thread *thread_enter(void)
{
	struct region_thread *t = weigh_here.thread;

	if (UNLIKELY(!t->entry))
		return 0;
	t->entry = 0;
	t->entered_at = stack_now();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return t;
}

INLINE void thread_leave(struct region_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->entry = t->record;
}

INLINE uint64_t depth_of(const struct region_thread *t, const struct open_call *call)
{
	return (uint64_t)(call - t->open);
}

/* region_nodes.c */
const struct child *weigh_node_find(struct region_thread *t, uint64_t parent, uint64_t kind, uint64_t name);

INLINE uint64_t child_key(uint64_t parent, uint64_t kind, uint64_t name)
{
	return parent << 32 | kind << 28 | name;
}

INLINE struct child *child_entry(struct region_thread *t, uint64_t key)
{
	return &t->cache[key * 0x9E3779B97F4A7C15ULL >> (64 - CACHE_BITS)];
}

INLINE const struct child *child_of(struct region_thread *t, uint64_t parent, uint64_t kind, uint64_t name)
{
	uint64_t key = child_key(parent, kind, name);
	const struct child *entry = child_entry(t, key);

	return LIKELY(entry->key == key) ? entry : weigh_node_find(t, parent, kind, name);
}

void weigh_node_clear(uint64_t *node);
bool weigh_name_is_used(uint64_t name);

/* The older version, made a copy of the newer one. */
uint64_t *weigh_version_turn(uint64_t *node, uint64_t epoch);

/*
 * Begins to write a node: its version of the present epoch; NULL if it has none yet. A writer that a signal handler has
 * left by siglongjmp() leaves the sequence odd.
 */
INLINE uint64_t *node_write_quickly(uint64_t *node, uint64_t sequence, uint64_t *now)
{
	uint64_t *version = node + NODE_AT_VERSIONS, epoch;

	__atomic_store_n(&node[NODE_AT_SEQUENCE], sequence | 1, __ATOMIC_RELAXED);
	/* The reader has the other half of this fence: a barrier in all threads. */
	WRITTEN_BEFORE();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	epoch = *now = __atomic_load_n(&weigh_regions.words[PROFILE_AT_EPOCH], __ATOMIC_RELAXED);
	if (LIKELY(version[VERSION_AT_EPOCH] == epoch))
		return version;
	version += VERSION_LENGTH;
	return LIKELY(version[VERSION_AT_EPOCH] == epoch) ? version : 0;
}

INLINE uint64_t *node_write(uint64_t *node)
{
	uint64_t epoch, *version = node_write_quickly(node, node[NODE_AT_SEQUENCE], &epoch);

	return LIKELY(version != 0) ? version : weigh_version_turn(node, epoch);
}

INLINE void node_written(uint64_t *node)
{
	__atomic_store_n(&node[NODE_AT_SEQUENCE], (node[NODE_AT_SEQUENCE] | 1) + 1, __ATOMIC_RELEASE);
}

/* So much time of a call was inside of another one. */
INLINE void call_inside(struct open_call *outer, uint64_t ticks)
{
	outer->inside += ticks;
	outer->frame[FRAME_AT_INSIDE] = outer->inside;
}

/* The node that is above what the thread begins next. */
INLINE uint64_t innermost(const struct region_thread *t)
{
	return t->deeper ? t->other : weigh_here.top->number;
}

/*
 * region_threads.c: what is done once is done whole. A handler that leaves by siglongjmp(), or a thread that is cancelled,
 * would take a lock along.
 */
struct guard {
	sigset_t signals;
	int cancellable;
};
void weigh_guard_begin(struct guard *guard);
void weigh_guard_end(const struct guard *guard);

/* region_profile.c */
bool weigh_profile_prepare(void);
uint64_t weigh_profile_take(unsigned section);
void weigh_profile_lose(void);

/* region_clock.c */
struct clock_pair {
	uint64_t ticks, ns;
};
bool weigh_clock_is_counter(void);
struct clock_pair weigh_clock_pair(void);
void weigh_clock_refresh(void);
bool weigh_clock_is_known(void);
uint64_t weigh_clock_ticks(double ns);

/* region_transport.c: a place for the profile, and who reads it */
struct transport {
	/* A file of so many bytes, which is given out when the profile is ready; -1, and why not */
	int (*open)(uint64_t bytes, const char **why);
	/* Gives it out if it is ready, and closes the descriptor; false, and why it is not given */
	bool (*give)(int descriptor, bool is_ready, const char **why);
	unsigned share; /* of each section's records one in so many is made */
};
const struct transport *weigh_transport_next(const struct transport *after);

/* region_names.c */
void weigh_names_rewrite(void);
const char *weigh_name_text(uint64_t name, uint64_t *bytes);
uint64_t weigh_name_checked(uint64_t name);
uint64_t weigh_text_write(const char *text, uint64_t bytes);
void weigh_names_lock(void);
void weigh_names_unlock(void);
extern uint8_t *weigh_name_flags;

/* region_threads.c */
struct region_thread *weigh_thread_attach(void);
void weigh_thread_end(struct region_thread *t);
void weigh_lost_begin(void);
void weigh_lost_end(void);
struct region_thread *weigh_thread_enter_slowly(void);

/* region.c */
void weigh_region_end_all(struct region_thread *t, struct open_call *outer, uint64_t now);

/* region_publish.c */
void weigh_publish_attend(uint64_t now);
void weigh_publish_phase(uint64_t name);
void weigh_publish_forget(void);
void weigh_publish_by_time(double seconds);

/* region_account.c */
void weigh_bound_begin(struct region_thread *t, struct open_call *call);
void weigh_bound_end(struct region_thread *t, struct open_call *call);
void weigh_bound_keep_all(void);
void weigh_bound_name(uint64_t name, const char *text, uint64_t bytes);

/* region_control.c */
void weigh_control_forget(void);
void weigh_control_name(uint64_t name, const char *text, uint64_t bytes);
bool weigh_control_matches(const char *pattern, const char *text, uint64_t bytes);

#endif
