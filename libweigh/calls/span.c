/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A call from its beginning to its end: counted in the file that is shared with weigh (stripe.c), and
 * marked for the kernel side, which splits its time.
 *
 * A thread has at most one call that is split. A signal handler's calls while one is open, and those
 * of a program whose parent waits for its exec, are counted without being split.
 */
#include "shim.h"
#include "stripe.h"
#include "ticks.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Programs close what they find from 3 on, and expect the lowest free number. */
#define HIGH_DESCRIPTOR 1000

static __thread struct {
	weigh *handle;
	struct slot *slot; /* of the handle: it stays where it is */
	uintptr_t open; /* where the frame of the split call is; the stack grows down */
	bool is_busy; /* with the library's own affairs */
} self;

int own_descriptor(void)
{
	return weigh_process.socket;
}

bool is_own(int descriptor)
{
	return descriptor >= 0 && descriptor == weigh_process.socket && !self.is_busy && has_file() &&
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

static inline bool is_opened(void)
{
	return atomic_load_explicit(&shim.process->is_opened, memory_order_acquire);
}

/* Has the agent take the thread in; in a child of fork(), the process first. */
SELDOM static void open_thread(void)
{
	int kept = errno;

	self.is_busy = true;
	self.handle = weigh_open();
	/* One without a slot is closed for ever. */
	if (weigh_reason_now(self.handle) != WEIGH_CLOSED)
		self.slot = slot_of(self.handle);
	move_up();
	atomic_store_explicit(&shim.process->is_opened, is_ours(), memory_order_release);
	self.is_busy = false;
	errno = kept;
}

SELDOM static uint32_t take_account(unsigned call)
{
	struct weigh_account *account = weigh_take(call + 1);
	uint32_t number;

	if (!account)
		return 0;
	number = (uint32_t)((union element *)account - weigh_process.page) - FIRST_ACCOUNT + 1;
	atomic_store_explicit(&shim.process->numbers[call], number, memory_order_relaxed);
	return number;
}

/* The number of a call's account, which all threads share, + 1; 0: there is none. */
static inline uint32_t account_for(unsigned call)
{
	uint32_t number = atomic_load_explicit(&shim.process->numbers[call], memory_order_relaxed);

	return LIKELY(number) ? number : take_account(call);
}

/* Marks a call for the kernel side, unless the thread is not measured. */
static void mark(struct span *span)
{
	struct slot *slot = self.slot;

	if (!LIKELY(!reason_of(self.handle)))
		return;
	span->account = account_for(span->call);
	if (!LIKELY(span->account))
		return;
	store(&slot->wanted, FIRST_WANTED);
	store(&slot->calls, 0);
	/* What the kernel side splits lies within the time that is told: the clock comes first. */
	span->began = ticks_now(span->scale);
	store(&slot->request, span->account | (uint64_t)++self.handle->running << 32);
}

void span_open(struct span *span)
{
	uintptr_t here = (uintptr_t)span;

	span->counts = !self.is_busy;
	span->account = 0;
	if (!LIKELY(span->counts))
		return;
	span->scale = shim.head->scale;
	/* One that is further out was jumped out of, or this is a handler on a stack of its own. */
	if (LIKELY(!self.open || here > self.open)) {
		if (!LIKELY(self.handle && is_opened()))
			open_thread();
		self.open = here;
		mark(span);
	}
	if (!LIKELY(span->account))
		span->began = ticks_now(span->scale);
}

void span_close(const struct span *span, bool failed, uint64_t bytes)
{
	bool is_open = self.open == (uintptr_t)span;
	/* A child of fork() must not touch its parent's page. */
	bool is_split = is_open && span->account && is_opened();

	if (is_split)
		store(&self.slot->request, 0);
	if (is_open)
		self.open = 0;
	count(span->call, nanoseconds_since(span->began, span->scale), failed, bytes, is_split);
}

/* After all functions have been looked up. */
__attribute__((constructor)) static void load_into_program(void)
{
	const char *path = secure_getenv(SHIM_VARIABLE);
	int kept = errno;

	/* So that weigh knows that the library is in this program, whatever it does. */
	if (path && *path && map_file(path))
		open_thread();
	errno = kept;
}
