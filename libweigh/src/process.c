/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The state of the process: its page, whether somebody serves it, and what a fork makes of it.
 */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic uint32_t *_Atomic weigh_mark;
struct process weigh_process = { .socket = -1, .told_by = -1 };

#define SECOND 1000000000ULL
#define FIRST_PAUSE (SECOND / 10)
#define LONGEST_PAUSE (60 * SECOND)

/* A thread that is cancelled while it talks to the agent would take the lock along. */
void weigh_lock(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&weigh_process.lock);
	weigh_process.cancellable = before;
}

bool weigh_try_lock(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (pthread_mutex_trylock(&weigh_process.lock)) {
		pthread_setcancelstate(before, &before);
		return false;
	}
	weigh_process.cancellable = before;
	return true;
}

void weigh_unlock(void)
{
	int before = weigh_process.cancellable;

	pthread_mutex_unlock(&weigh_process.lock);
	pthread_setcancelstate(before, &before);
}

static pthread_once_t marked = PTHREAD_ONCE_INIT;

static void make_mark(void)
{
	void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, 4096, MADV_WIPEONFORK)) {
		munmap(page, 4096);
		return;
	}
	weigh_mark = page;
}

static bool reserve_page(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *old = weigh_process.page, *page;

	/* A child puts its own in the place of its parent's: old pointers must lead somewhere. */
	page = mmap(old, PAGE_BYTES, PROT_READ | PROT_WRITE, flags | (old ? MAP_FIXED : 0), -1, 0);
	if (page == MAP_FAILED)
		return false;
	weigh_process.page = page;
	return true;
}

static bool start(void)
{
	struct process *process = &weigh_process;
	const char *path = secure_getenv(PLACE_VARIABLE);

	if (!reserve_page())
		return false;
	process->waits_long = path && *path;
	if (!process->waits_long)
		path = WEIGH_AGENT_SOCKET;
	pthread_mutex_init(&process->lock, 0);
	weigh_hang_up();
	memset(process->path, 0, sizeof(process->path));
	/* At a place whose name is too long for an address nobody can listen. */
	if (strlen(path) < sizeof(process->path))
		memcpy(process->path, path, strlen(path));
	process->follows_calls = false;
	atomic_store(&process->wants, FIRST_WANTED);
	atomic_store(&process->has_said, false);
	process->pause = FIRST_PAUSE;
	atomic_store(&process->reason, WEIGH_NO_SERVER);
	atomic_store(&process->look_at, 0);
	weigh_forget_threads();
	weigh_forget_accounts();
	weigh_forget_configured();
	return true;
}

/* Makes the process's state, the first time in it. False if there is no memory. */
bool weigh_prepare(void)
{
	uint32_t none;
	bool started;

	if (is_ours())
		return true;
	pthread_once(&marked, make_mark);
	_Atomic uint32_t *mark = weigh_mark;
	if (!mark)
		return false;
	for (;;) {
		none = MARK_NONE;
		if (atomic_compare_exchange_strong(mark, &none, MARK_BUSY))
			break;
		if (none == MARK_READY)
			return true;
		sched_yield();
	}
	started = start();
	atomic_store(mark, started ? MARK_READY : MARK_NONE);
	return started;
}

/* Why a thread is not measured now. */
enum weigh_reason weigh_reason_now(const struct weigh *w)
{
	if (!weigh_mark)
		return WEIGH_NO_MEMORY;
	return is_ours() ? reason_of(w) : WEIGH_FORKED;
}

/* Finds out whether the agent is still there, or there again. The lock is not held. */
void weigh_look_after(uint64_t now)
{
	struct process *process = &weigh_process;
	int kept = errno;

	if (!weigh_try_lock())
		return;
	if (now < atomic_load(&process->look_at)) {
		weigh_unlock();
		return;
	}
	if (process->socket >= 0 && (weigh_hung_up() || !load(&page_head()->served))) {
		weigh_hang_up();
		atomic_store(&process->reason, WEIGH_GONE);
		process->pause = FIRST_PAUSE;
	}
	if (process->socket < 0) {
		enum weigh_reason reason = weigh_connect();

		/* An agent that is gone is told of until one is there again. */
		if (reason != WEIGH_NO_SERVER || atomic_load(&process->reason) != WEIGH_GONE)
			atomic_store(&process->reason, reason);
		for (size_t i = 0; !reason && i < MAX_SLOTS; i++) {
			if (atomic_load(&weigh_handles[i].state) == HANDLE_OPEN)
				weigh_join(&weigh_handles[i]);
		}
	}
	if (process->socket >= 0)
		process->pause = SECOND;
	atomic_store(&process->look_at, clock_now() + process->pause);
	process->pause *= 2;
	if (process->pause > LONGEST_PAUSE)
		process->pause = LONGEST_PAUSE;
	weigh_unlock();
	errno = kept;
}
