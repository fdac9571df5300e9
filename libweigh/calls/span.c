/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A call from its beginning to its end: counted in the file that is shared with weigh, and marked
 * for the kernel side, which splits its time.
 *
 * A thread has at most one call that is split. A signal handler's calls while one is open, and those
 * of a program whose parent waits for its exec, are counted without being split.
 */
#include "shim.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Programs close what they find from 3 on, and expect the lowest free number. */
#define HIGH_DESCRIPTOR 1000

static struct stripe *stripe;

static __thread struct {
	weigh *handle;
	uintptr_t open; /* where the frame of the split call is; the stack grows down */
	bool is_busy; /* with the library's own affairs */
} self;

int own_descriptor(void)
{
	return weigh_process.socket;
}

bool is_own(int descriptor)
{
	return descriptor >= 0 && descriptor == weigh_process.socket && !self.is_busy && stripe &&
	       weigh_identity(descriptor) == weigh_process.socket_identity;
}

static void move_up(void)
{
	struct rlimit limit;
	int low = weigh_process.socket, high, lowest = HIGH_DESCRIPTOR;

	if (low < 0 || low >= HIGH_DESCRIPTOR)
		return;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur <= HIGH_DESCRIPTOR)
		lowest = (int)limit.rlim_cur - 1;
	high = fcntl(low, F_DUPFD_CLOEXEC, lowest);
	if (high < 0)
		return;
	weigh_process.socket = high;
	close(low);
}

/* Has the agent take the thread in; in a child of fork(), the process first. */
static void open_thread(void)
{
	int kept = errno;

	self.is_busy = true;
	self.handle = weigh_open();
	move_up();
	self.is_busy = false;
	errno = kept;
}

/* Marks a call for the kernel side, unless the thread is not measured. */
static void mark(struct span *span)
{
	struct weigh_account *account;
	struct slot *slot;
	uint64_t number;

	if (weigh_reason_now(self.handle))
		return;
	account = weigh_take(span->call + 1);
	if (!account)
		return;
	span->account = account;
	slot = slot_of(self.handle);
	number = (uint64_t)((union element *)account - weigh_process.page) - FIRST_ACCOUNT;
	store(&slot->wanted, WEIGH_ALL);
	store(&slot->calls, 0);
	/* What the kernel side splits lies within the time that is told: the clock comes first. */
	span->began = clock_now();
	store(&slot->request, (number + 1) | (uint64_t)++self.handle->running << 32);
}

void span_begin(struct span *span, unsigned call)
{
	uintptr_t here = (uintptr_t)span;

	span->counts = stripe && !self.is_busy;
	span->account = 0;
	if (!span->counts)
		return;
	span->call = call;
	/* One that is further out was jumped out of, or this is a handler on a stack of its own. */
	if (!self.open || here > self.open) {
		if (!self.handle || !is_ours())
			open_thread();
		self.open = here;
		mark(span);
	}
	if (!span->account)
		span->began = clock_now();
}

static unsigned bucket_of(uint64_t time)
{
	unsigned high;

	if (time < 1 << BUCKET_BITS)
		return (unsigned)time;
	high = 63 - (unsigned)__builtin_clzll(time);
	return ((high - BUCKET_BITS + 1) << BUCKET_BITS) +
	       (unsigned)((time >> (high - BUCKET_BITS)) & ((1 << BUCKET_BITS) - 1));
}

static void count(unsigned call, uint64_t time, bool failed, uint64_t bytes)
{
	struct call_counts *counts = &stripe->calls[call];
	uint64_t bound;

	add(&counts->time_ns, time);
	if (failed)
		add(&counts->errors, 1);
	else if (bytes)
		add(&counts->bytes, bytes);
	add(&counts->times[bucket_of(time)], 1);
	bound = __atomic_load_n(&counts->longest_ns, __ATOMIC_RELAXED);
	while (time > bound && !__atomic_compare_exchange_n(&counts->longest_ns, &bound, time, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	bound = __atomic_load_n(&counts->shortest_ns, __ATOMIC_RELAXED);
	while ((!bound || time < bound) &&
	       !__atomic_compare_exchange_n(&counts->shortest_ns, &bound, time, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void span_end(const struct span *span, bool failed, uint64_t bytes)
{
	bool is_open = self.open == (uintptr_t)span;
	/* A child of fork() must not touch its parent's page. */
	bool is_split = is_open && span->account && is_ours();
	uint64_t time;

	if (!span->counts)
		return;
	if (is_split)
		store(&slot_of(self.handle)->request, 0);
	time = clock_now() - span->began;
	if (is_open)
		self.open = 0;
	if (!is_split)
		add(&stripe->calls[span->call].not_split, 1);
	count(span->call, time, failed, bytes);
}

/* The part of the shared file that this process counts in. */
static struct stripe *map_stripe(const char *path)
{
	size_t at = (size_t)((unsigned)getpid() % STRIPES) * sizeof(struct stripe);
	int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	void *map = MAP_FAILED;
	struct stat about;

	if (file < 0)
		return 0;
	if (!fstat(file, &about) && (size_t)about.st_size == STRIPES * sizeof(struct stripe))
		map = mmap(0, sizeof(struct stripe), PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at);
	syscall(SYS_close, file);
	return map == MAP_FAILED ? 0 : map;
}

/* After all functions have been looked up. */
__attribute__((constructor)) static void load_into_program(void)
{
	const char *path = secure_getenv(SHIM_VARIABLE);
	int kept = errno;

	if (path && *path) {
		stripe = map_stripe(path);
		/* So that weigh knows that the library is in this program, whatever it does. */
		if (stripe)
			open_thread();
	}
	errno = kept;
}
