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

/* Of the calls that were made so far: a token's is found once, and the library gives none back. */
static struct weigh_account *accounts[N_CALLS];

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

/* Has the agent take the thread in; in a child of fork(), the process first. */
static void open_thread(void)
{
	int kept = errno;

	self.is_busy = true;
	if (!is_ours())
		memset(accounts, 0, sizeof(accounts));
	self.handle = weigh_open();
	move_up();
	self.is_busy = false;
	errno = kept;
}

/* The account of a call, which all threads share. */
static struct weigh_account *account_for(unsigned call)
{
	struct weigh_account *account = __atomic_load_n(&accounts[call], __ATOMIC_RELAXED);

	if (LIKELY(account))
		return account;
	account = weigh_take(call + 1);
	__atomic_store_n(&accounts[call], account, __ATOMIC_RELAXED);
	return account;
}

/* Marks a call for the kernel side, unless the thread is not measured. */
static void mark(struct span *span)
{
	struct weigh_account *account;
	struct slot *slot;
	uint64_t number;

	if (weigh_reason_now(self.handle))
		return;
	account = account_for(span->call);
	if (!account)
		return;
	span->account = account;
	slot = slot_of(self.handle);
	number = (uint64_t)((union element *)account - weigh_process.page) - FIRST_ACCOUNT;
	store(&slot->wanted, FIRST_WANTED);
	store(&slot->calls, 0);
	/* What the kernel side splits lies within the time that is told: the clock comes first. */
	span->began = ticks_now(span->scale);
	store(&slot->request, (number + 1) | (uint64_t)++self.handle->running << 32);
}

void span_open(struct span *span)
{
	uintptr_t here = (uintptr_t)span;

	span->counts = !self.is_busy;
	span->account = 0;
	if (!span->counts)
		return;
	span->scale = shim_head->scale;
	/* One that is further out was jumped out of, or this is a handler on a stack of its own. */
	if (!self.open || here > self.open) {
		if (!self.handle || !is_ours())
			open_thread();
		self.open = here;
		mark(span);
	}
	if (!span->account)
		span->began = ticks_now(span->scale);
}

void span_close(const struct span *span, bool failed, uint64_t bytes)
{
	bool is_open = self.open == (uintptr_t)span;
	/* A child of fork() must not touch its parent's page. */
	bool is_split = is_open && span->account && is_ours();

	if (is_split)
		store(&slot_of(self.handle)->request, 0);
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
