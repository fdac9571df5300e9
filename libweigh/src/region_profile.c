/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Makes the profile of a process, the first time that the process says something, and again after a fork.
 */
#include "region.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REGISTER_GLOBAL_EXPEDITED 4 /* of membarrier(2) */

EXPORT int weigh_regions_active;
struct region_process weigh_regions;
/* The whole profile in memory: this much address space is the profile's, of whichever share of it there is. */
static size_t most_bytes;

static const struct {
	uint64_t words, records;
} sections[PROFILE_SECTIONS] = {
	{ PROFILE_NAMES_WORDS, PROFILE_NAMES_RECORDS },	      { PROFILE_TEXTS_WORDS, PROFILE_TEXTS_RECORDS },
	{ PROFILE_NODES_WORDS, PROFILE_NODES_RECORDS },	      { PROFILE_THREADS_WORDS, PROFILE_THREADS_RECORDS },
	{ PROFILE_PHASES_WORDS, PROFILE_PHASES_RECORDS },     { PROFILE_EVENTS_WORDS, PROFILE_EVENTS_RECORDS },
	{ PROFILE_METADATA_WORDS, PROFILE_METADATA_RECORDS }, { PROFILE_COSTS_WORDS, PROFILE_COSTS_RECORDS },
	{ PROFILE_CONTROL_WORDS, PROFILE_CONTROL_RECORDS },
};

/* Records of the sections begin at lines of the cache. */
static uint64_t first_word(unsigned section, unsigned share)
{
	uint64_t at = (PROFILE_LENGTH + 7) / 8 * 8;

	for (unsigned i = 0; i < section; i++)
		at += (sections[i].words * sections[i].records / share + 7) / 8 * 8;
	return at;
}

static size_t profile_bytes(unsigned share)
{
	return (first_word(PROFILE_SECTIONS, share) * 8 + 4095) / 4096 * 4096;
}

/* 1 more than the number that a text is; 0 if it is none. */
static uint64_t number_and_one(const char *text)
{
	uint64_t number = 0;

	if (!text || !*text)
		return 0;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || number > UINT32_MAX)
			return 0;
		number = 10 * number + (uint64_t)(*text - '0');
	}
	return number + 1;
}

/* As launchers of MPI jobs say it. */
static uint64_t rank_and_one(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
	uint64_t found = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !found; i++)
		found = number_and_one(getenv(names[i]));
	return found;
}

static void write_head(size_t bytes, unsigned share)
{
	uint64_t *words = weigh_regions.words;
	struct clock_pair now = weigh_clock_pair();

	words[PROFILE_AT_LAYOUT] = PROFILE_LAYOUT;
	words[PROFILE_AT_BYTES] = bytes;
	words[PROFILE_AT_PID] = (uint64_t)getpid();
	words[PROFILE_AT_CLOCK] = weigh_regions.by_counter ? PROFILE_COUNTER_OF_CPU : PROFILE_MONOTONIC;
	words[PROFILE_AT_FIRST_TICKS] = words[PROFILE_AT_LAST_TICKS] = now.ticks;
	words[PROFILE_AT_FIRST_NS] = words[PROFILE_AT_LAST_NS] = now.ns;
	words[PROFILE_AT_RANK] = rank_and_one();
	for (unsigned i = 0; i < PROFILE_SECTIONS; i++) {
		uint64_t first = first_word(i, share);

		weigh_regions.section[i] = words + first;
		weigh_regions.records[i] = sections[i].records / share;
		words[PROFILE_AT_SECTIONS + 2 * i] = first;
		words[PROFILE_AT_SECTIONS + 2 * i + 1] = weigh_regions.records[i];
	}
	store(&words[PROFILE_AT_EPOCH], 1);
}

static bool map_profile(int descriptor, size_t bytes)
{
	int flags = MAP_SHARED | MAP_FIXED;

	return mmap(weigh_regions.words, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0) == weigh_regions.words;
}

/* What a child, or a program without a profile, has in its place: pointers into it stay good. */
static bool map_nothing(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (weigh_regions.words ? MAP_FIXED : 0);
	void *words = mmap(weigh_regions.words, most_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (words == MAP_FAILED)
		return false;
	weigh_regions.words = words;
	return true;
}

static bool make_by(const struct transport *transport)
{
	size_t bytes = profile_bytes(transport->share);
	int descriptor = transport->open(bytes, &weigh_regions.why);
	bool is_ready;

	if (descriptor < 0)
		return false;
	is_ready = map_nothing() && map_profile(descriptor, bytes);
	if (is_ready) {
		write_head(bytes, transport->share);
		weigh_names_rewrite();
		store(&weigh_regions.words[PROFILE_AT_MAGIC], PROFILE_IS);
	}
	return transport->give(descriptor, is_ready, &weigh_regions.why);
}

static void set_clock(bool is_counter)
{
	if (weigh_regions.generation == 1 && !is_counter)
		atomic_fetch_add(&weigh_regions.goes_long_way, 1);
	if (weigh_regions.generation == 1)
		weigh_regions.by_counter = is_counter;
}

static void begin_state(void)
{
	weigh_regions.generation++;
	set_clock(weigh_clock_is_counter());
	atomic_store(&weigh_regions.attend_at, 0);
	weigh_publish_forget();
	syscall(SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0);
}

static bool start(void)
{
	const struct transport *transport = 0;
	const char *first_why = 0;

	most_bytes = profile_bytes(1);
	begin_state();
	while ((transport = weigh_transport_next(transport))) {
		if (make_by(transport)) {
			weigh_regions.why = 0;
			weigh_control_forget();
			return true;
		}
		first_why = first_why ? first_why : weigh_regions.why;
	}
	weigh_regions.why = first_why;
	weigh_regions_active = 0;
	return false;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_private(void)
{
	size_t bytes = sizeof(struct region_private);
	void *private = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (private == MAP_FAILED)
		return;
	if (madvise(private, bytes, MADV_WIPEONFORK))
		munmap(private, bytes);
	else
		weigh_regions.private = private;
}

static bool start_once(void)
{
	uint32_t none;
	bool has_started;

	pthread_once(&once, make_private);
	if (!weigh_regions.private) {
		weigh_regions.why = "there is no memory for a profile";
		weigh_regions_active = 0;
		return false;
	}
	for (;;) {
		none = MARK_NONE;
		if (atomic_compare_exchange_strong(&weigh_regions.private->mark, &none, MARK_BUSY))
			break;
		if (none == MARK_READY)
			return true;
		sched_yield();
	}
	has_started = weigh_regions_active && start();
	atomic_store(&weigh_regions.private->mark, has_started ? MARK_READY : MARK_NONE);
	return has_started;
}

/* Makes the process's profile, the first time in it. False: there is none. */
bool weigh_profile_prepare(void)
{
	struct guard guard;
	int before = errno;
	bool is_there;

	if (has_profile())
		return true;
	if (!weigh_regions_active || weigh_here.is_inside)
		return false;
	weigh_guard_begin(&guard);
	weigh_here.is_inside = 1;
	is_there = start_once();
	weigh_here.is_inside = 0;
	weigh_guard_end(&guard);
	errno = before;
	return is_there;
}

/* The next free record of a section; NO_NUMBER if there is none. */
uint64_t weigh_profile_take(unsigned section)
{
	uint64_t *used = &weigh_regions.words[PROFILE_AT_USED + section];
	uint64_t number = __atomic_load_n(used, __ATOMIC_RELAXED);

	do {
		if (number >= weigh_regions.records[section])
			return NO_NUMBER;
	} while (!__atomic_compare_exchange_n(used, &number, number + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return number;
}

/* A call that comes while the thread is inside of the library, from a signal handler: it has no node. */
void weigh_profile_lose(void)
{
	if (!has_profile())
		return;
	profile_add(PROFILE_AT_NODES_LOST, 1);
	profile_add(PROFILE_AT_OTHER_CALLS, 1);
}

EXPORT const char *weigh_regions_why(void)
{
	if (weigh_regions_active && weigh_profile_prepare())
		return 0;
	return weigh_regions.why ? weigh_regions.why : "no listener and no file is named";
}

__attribute__((destructor)) static void end_profile(void)
{
	struct region_thread *t = weigh_here.thread;

	if (!has_profile())
		return;
	if (t->entry)
		weigh_thread_end(t);
	weigh_bound_keep_all();
	weigh_clock_refresh();
	store(&weigh_regions.words[PROFILE_AT_ENDED], 1);
}
