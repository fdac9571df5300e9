/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the parts of libweigh know of each other.
 *
 * The page is at the same address for as long as the process lives: of private memory while nobody
 * serves the process, and of the agent's array, put into the same place, while somebody does. So
 * pointers into it stay good, whatever becomes of the agent.
 */
#ifndef WEIGH_INTERNAL_H
#define WEIGH_INTERNAL_H

#include "../weigh.h"
#include "page.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* Inside of the library that `weigh calls` loads into programs nothing of this is to be seen. */
#ifdef WEIGH_INSIDE
#define EXPORT
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define PAGE_BYTES ((size_t)ELEMENTS * ELEMENT_BYTES)

/* Parts that there are: those of a configuration once their names are known. */
#define KNOWN_PARTS                                                                                \
	(((1ULL << WEIGH_FIRST_OWN) - 1) |                                                         \
	 atomic_load_explicit(&weigh_own_parts, memory_order_relaxed))
#define KNOWN (KNOWN_PARTS | WEIGH_COUNTERS | WEIGH_BY_PART)
/* Of those that the agent has: others stand in the places of the program's there, perhaps. */
#define SHOWN (~atomic_load_explicit(&weigh_hidden_parts, memory_order_relaxed))

/*
 * What a program wants before it has said so: nothing, until it marks something. The library that
 * `weigh calls` loads into programs must hold no call up for that; what goes by sockets it counts itself.
 */
#ifdef WEIGH_INSIDE
#define PLACE_VARIABLE WEIGH_INSIDE_VARIABLE
#define FIRST_WANTED (WEIGH_ALL & ~(1ULL << WEIGH_SOCKET))
#else
#define PLACE_VARIABLE WEIGH_AGENT_VARIABLE
#define FIRST_WANTED 0ULL
#endif

/* As many come with an answer. */
#define WEIGH_MAX_DESCRIPTORS 2

enum handle_state { HANDLE_FREE, HANDLE_OPEN };

/* The number of a handle is that of its slot. */
struct weigh {
	_Atomic uint32_t state;
	_Atomic uint32_t reason; /* why the agent did not take the thread in */
	pid_t tid;
	uint32_t references;
	_Atomic uint64_t ticket;
	uint32_t running; /* number of the last request */
	uint32_t next_calls; /* of an interval of weigh_next(); 0: one of weigh_begin() */
	struct weigh_account *account; /* of the open interval */
	uint64_t wanted; /* of the open interval */
	uint64_t began;
	/* Counters of the CPU: those that were asked for, those that there are, and those of the interval. */
	uint64_t counters_asked, counters, counting;
	int events[WEIGH_MAX_DESCRIPTORS];
	uint64_t event_ids[WEIGH_MAX_DESCRIPTORS];
	uint64_t enabled_ns, running_ns, counts[WEIGH_MAX_DESCRIPTORS]; /* as it began */
};

struct process {
	pthread_mutex_t lock; /* of all that is not atomic */
	int cancellable; /* whether who holds the lock was, before */
	_Atomic uint32_t reason;
	union element *page;
	int socket;
	uint64_t socket_identity;
	int told_by;
	uint64_t told_identity;
	bool follows_calls;
	bool waits_long; /* for the first answer of a place that was named */
	_Atomic uint64_t wants; /* the parts that were asked for */
	_Atomic bool has_said; /* weigh_want() was called: nothing is asked for besides */
	_Atomic uint64_t look_at; /* when to look for the agent again */
	uint64_t pause;
	char path[108]; /* as long as an address has room for */
};

/* It begins with zeros in a child: the process it was copied from is not this one. */
enum mark { MARK_NONE, MARK_READY, MARK_BUSY };
extern _Atomic uint32_t *_Atomic weigh_mark;
extern struct process weigh_process;
extern struct weigh weigh_handles[MAX_SLOTS];
/* The parts of a configuration that have names, and those that the present agent means something else by. */
extern _Atomic uint64_t weigh_own_parts, weigh_hidden_parts;

static inline bool is_ours(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&weigh_mark, memory_order_acquire);

	return mark && atomic_load_explicit(mark, memory_order_acquire) == MARK_READY;
}

/* Whether nothing is counted here, not even without the agent. That the agent has no memory is no reason. */
static inline bool weigh_cannot_count(enum weigh_reason reason)
{
	return reason == WEIGH_FORKED || reason == WEIGH_CLOSED || !weigh_mark;
}

static inline uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct page_head *page_head(void)
{
	return &weigh_process.page[0].head;
}

static inline struct slot *slot_of(const struct weigh *w)
{
	size_t number = (size_t)(w - weigh_handles);

	return &weigh_process.page[FIRST_SLOT_ELEMENT + number / SLOTS_PER_ELEMENT]
			.slots[number % SLOTS_PER_ELEMENT];
}

static inline struct weigh_account *account_numbered(uint32_t number)
{
	return &weigh_process.page[FIRST_ACCOUNT + number].account;
}

/* Why a thread of this process is not measured now. */
static inline enum weigh_reason reason_of(const struct weigh *w)
{
	uint32_t reason;

	if (atomic_load_explicit(&w->state, memory_order_relaxed) != HANDLE_OPEN)
		return WEIGH_CLOSED;
	reason = atomic_load_explicit(&weigh_process.reason, memory_order_relaxed);
	if (!reason && !__atomic_load_n(&page_head()->served, __ATOMIC_ACQUIRE))
		reason = WEIGH_GONE;
	return reason ? reason : atomic_load_explicit(&w->reason, memory_order_relaxed);
}

/* Behind each account on the page. */
static inline WEIGH_U64 *wanted_of(struct weigh_account *account)
{
	return &((union element *)account)->wanted;
}

static inline WEIGH_U64 *parts_element_of(struct weigh_account *account)
{
	return wanted_of(account) + 1;
}

#define load(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define store(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define add(place, value) ((void)__atomic_fetch_add(place, value, __ATOMIC_RELAXED))

/* process.c */
bool weigh_prepare(void);
enum weigh_reason weigh_reason_now(const struct weigh *w);
void weigh_look_after(uint64_t now);
void weigh_lock(void);
bool weigh_try_lock(void);
void weigh_unlock(void);

/* talk.c: with the lock held */
enum weigh_reason weigh_talk(const struct weigh_request *request, struct weigh_reply *reply, int *with);
enum weigh_reason weigh_talk_for(const struct weigh_request *request, struct weigh_reply *reply, int *with,
				 size_t room);
enum weigh_reason weigh_connect(void);
bool weigh_hung_up(void);
void weigh_hang_up(void);
uint64_t weigh_identity(int descriptor);

/* threads.c: with the lock held */
void weigh_join(struct weigh *w);
void weigh_forget_threads(void);

/* accounts.c */
struct weigh_account *weigh_find(uint64_t token);
struct weigh_account *weigh_take(uint64_t token);
bool weigh_token_of(uint32_t number, uint64_t *token);
void weigh_forget_accounts(void);
bool weigh_take_parts(struct weigh_account *account);
void weigh_give_parts_back(struct weigh_account *account);
void weigh_forget_parts(void);
void weigh_carry_parts(union element *fresh);
bool weigh_has_had_accounts(void);

/* settled.c */
enum weigh_reason weigh_be_told(void);
enum weigh_reason weigh_ask_to_be_told(void);
void weigh_hear(void);

/* limits.c */
void weigh_forget_limits(void);
void weigh_forget_limits_of(uint64_t token);
void weigh_renew_limits(void);

/* parts.c */
void weigh_lack(struct weigh_account *account, uint64_t lacking);
void weigh_check_parts(struct weigh_account *account, uint64_t wanted, enum weigh_reason reason);
void weigh_note_wanted(struct weigh_account *account, uint64_t wanted);
bool weigh_is_measured(struct weigh_account *account);
bool weigh_need_parts(uint64_t wanted, enum weigh_reason reason);

/* configured.c */
void weigh_forget_configured(void);
void weigh_learn_parts(bool is_any);
enum weigh_reason weigh_why_configured(uint64_t part);

/* counting.c */
void weigh_forget_counters(struct weigh *w);
void weigh_count_from(struct weigh *w, struct weigh_account *account, uint64_t wanted);
void weigh_count_to(struct weigh *w, struct weigh_account *account);

/* interval.c */
void weigh_end_next(struct weigh *w);

#endif
