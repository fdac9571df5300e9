/*
 * What the parts of the library share.
 *
 * Rules for all of them: nothing is printed, nothing ends the program, no memory is allocated, no
 * descriptor stays open, errno is what the program's own call left. Whatever does not work leaves
 * the program as it would be without the library.
 */
#ifndef WEIGH_SHIM_H
#define WEIGH_SHIM_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "counters.h"
#include "layout.h"
#include "raw.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* mapping.c */
/* The beginning of the shared file; a null pointer where the library lies idle. */
extern struct head *shared_head;
/* All of it, once there was need; and as much, with a null pointer where there is no room for it. */
extern struct shared *_Atomic all_mapped;
struct shared *whole(void);
/* Where the slot lies that the program was given at its start; a null pointer where there is none. */
extern struct slot *own_slot;
bool map_file(const char *path, uint32_t index);
/* Has the file system make room for a part of a shared file that is mapped; false where it has none. */
bool make_room(const void *at, size_t bytes);
/* Memory for a moment, for stacks may be small: a null pointer where there is none. */
void *borrow(size_t bytes);
void bring_back(void *at, size_t bytes);
/* Bytes of address space that the shared file takes. */
uint64_t own_space(void);
uint32_t index_of(const struct slot *slot);

/* This process's slot; a place that nobody reads where there is none. */
extern struct slot *self;
extern struct slot nowhere;
/*
 * What this process knows of itself without its slot, for a child is made from it, which may come to
 * its first instruction when its parent's slot is another's. All zero where the library lies idle.
 */
struct known {
	uint32_t pid, local_pid, command_bytes;
	/* It may be in a PID namespace of its own. */
	bool is_nested;
	char name[sizeof((struct slot *)0)->name];
	char command[sizeof((struct slot *)0)->command];
};
extern struct known known;

/* lookup.c: the function, or table, of that name in the libraries behind this one. */
void *next_function(const char *name);

/*
 * The function that the program would have called without the library. It is looked up at the
 * first call, for calls may come before the constructor has run.
 */
#define REAL(type, name, ...)                                                                      \
	typedef type (*name##_type)(__VA_ARGS__);                                                  \
	static name##_type name##_found;                                                           \
	static inline name##_type real_##name(void)                                                \
	{                                                                                          \
		name##_type found = __atomic_load_n(&name##_found, __ATOMIC_RELAXED);              \
		if (LIKELY(found))                                                                 \
			return found;                                                              \
		found = (name##_type)next_function(#name);                                         \
		__atomic_store_n(&name##_found, found, __ATOMIC_RELAXED);                          \
		return found;                                                                      \
	}

static inline void count(enum counter counter, uint64_t by)
{
	__atomic_fetch_add((uint64_t *)&self->counters[counter], by, __ATOMIC_RELAXED);
}

static inline void flag(struct slot *slot, uint32_t flags)
{
	__atomic_fetch_or((uint32_t *)&slot->flags, flags, __ATOMIC_RELAXED);
}

/* clock.c */
uint64_t now_ns(void);
/* The same of a time by this process's own clock. */
uint64_t common_ns(uint64_t own_ns);

/* A slot's life: see the layout. */
static inline uint32_t state_of(uint64_t life)
{
	return life & ((1u << STATE_BITS) - 1);
}

static inline uint32_t pid_of(uint64_t life)
{
	return life >> STATE_BITS & ((1u << PID_BITS) - 1);
}

static inline uint32_t generation_of(uint64_t life)
{
	return life >> (STATE_BITS + PID_BITS);
}

static inline uint64_t life_of(uint32_t generation, uint32_t pid, uint32_t state)
{
	return ((uint64_t)generation << PID_BITS | pid) << STATE_BITS | state;
}

static inline uint64_t status_of(uint32_t generation, uint32_t wait_status)
{
	return (uint64_t)generation << 32 | STATUS_KNOWN | wait_status;
}

/* slots.c */
struct slot *claim(uint32_t state);
void give_back(struct slot *slot);
/* The slot's process lives, and is the caller, or the caller's program: nobody takes its slot. */
void set_pid(struct slot *slot, uint32_t pid);
void set_state(struct slot *slot, uint32_t state);
/* There is a process for the slot that was set aside, or for one that it has claimed itself. */
void enter(struct slot *slot, uint32_t generation, uint32_t pid, uint32_t state);
void begin_in(struct slot *slot, uint32_t pid);
void end_life(void);
/* A slot that had this PID, and a moment ago was somebody's who had not ended. */
struct slot *slot_of(uint32_t pid, uint64_t *life);

/* children.c */
uint32_t outer_pid(void);
/* A child by vfork has its parent's memory, in which its parent goes on. */
bool is_guest(void);
/* The slot of the caller: a child by vfork or by a system call of its own gets one here. */
struct slot *mine(void);
struct slot *mine_at_exec(void);
void inherit(struct slot *slot, uint32_t parent_pid);
/*
 * A child that a thread is just making, and the slot that is set aside for it: it may be killed before
 * its first instruction, and its maker knows its PID. By the time that it says so the slot may have
 * been given back, and be another's: then it is of another generation.
 */
struct expected {
	struct slot *slot;
	uint32_t generation;
	/* There is no room for it. */
	bool is_refused;
	/* The one in whose making this one comes: by a handler of pthread_atfork(3), or of a signal. */
	struct expected *outer;
};
/* Around the making of a process: a slot for it, and what came of it. */
struct slot *expect_child(struct expected *child);
void child_made(struct expected *child, long pid, uint32_t state);
void become_child(void);
void enter_child(struct slot *slot);

/* filters.c */
/* The program has set itself a filter: the library lies idle. */
extern bool is_filtered;
/* Whether a system call sets one. */
bool sets_filter(long number, long first);
/* Around the setting of one; the latter only if it was set. */
struct slot *before_filter(void);
void after_filter(struct slot *slot);

/* look.c */
/* Reads, and charges a slot with it. */
long charged_read(int fd, char *at, size_t room, struct slot *slot);
/* Whether a number stands behind a label, with something behind it. */
bool number_behind(const char *text, const char *label, uint64_t *value);
void look_in_between(struct slot *slot);
/* Whether it could be read. */
bool look_at_memory(struct slot *slot);
void say_last(struct slot *slot, uint32_t wait_status);
uint64_t started_by_kernel_ns(struct slot *slot);

/* program.c: FLAG_… that say why the library will not be in a program, or 0. `reader` is charged
   with what is read for it. */
uint32_t why_blind(struct slot *reader, int directory, const char *path);
/* The same, by the environment that the program is given. */
uint32_t why_blind_by(char *const *given);
uint32_t why_blind_in_path(struct slot *reader, const char *file);
/* Whether the loader would find the library when the program is executed. */
bool can_load(uint32_t blind);

#endif
