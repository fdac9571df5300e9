/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Handles: one for each thread that is measured.
 */
#include "internal.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct weigh weigh_handles[MAX_SLOTS];

/* What a thread gets that there is no handle for. */
static struct weigh none = { .state = HANDLE_OPEN };

static pthread_key_t own;
static pthread_once_t keyed = PTHREAD_ONCE_INIT;
static bool has_key;

static void let_go(struct weigh *w)
{
	struct slot *slot = slot_of(w);

	store(&slot->request, 0);
	/* The thread may live on: it must not be accounted to the next thread in the slot. */
	store(&slot->ticket, 0);
	weigh_forget_counters(w);
	w->account = 0;
	w->references = 0;
	atomic_store(&w->state, HANDLE_FREE);
}

static void thread_ends(void *handle)
{
	struct weigh *w = handle;

	if (w == &none || !is_ours())
		return;
	w->references = 1;
	weigh_close(w);
}

static void make_key(void)
{
	has_key = !pthread_key_create(&own, thread_ends);
}

void weigh_forget_threads(void)
{
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		weigh_forget_counters(&weigh_handles[i]);
		atomic_store(&weigh_handles[i].state, HANDLE_FREE);
	}
}

/* Has the agent take the thread in. The lock is held. */
void weigh_join(struct weigh *w)
{
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_JOIN,
		.number = (uint64_t)w->tid,
		.value = (uint64_t)(w - weigh_handles),
	};
	struct weigh_reply reply;
	enum weigh_reason reason;
	int with;

	/* What another agent has refused this one may have; events that are there go on. */
	if (!w->counters)
		w->counters_asked = 0;
	reason = weigh_talk(&request, &reply, &with);
	if (with >= 0)
		close(with);
	if (!reason)
		store(&slot_of(w)->ticket, reply.value);
	atomic_store(&w->reason, reason);
}

static struct weigh *free_handle(void)
{
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		if (atomic_load(&weigh_handles[i].state) == HANDLE_FREE)
			return &weigh_handles[i];
	}
	return 0;
}

/* Threads that ended without a word, by the bare system call. */
static void sweep(void)
{
	pid_t process = getpid();

	for (size_t i = 0; i < MAX_SLOTS; i++) {
		struct weigh *w = &weigh_handles[i];

		if (atomic_load(&w->state) == HANDLE_OPEN &&
		    syscall(SYS_tgkill, process, w->tid, 0) && errno == ESRCH)
			let_go(w);
	}
}

static struct weigh *new_handle(pid_t tid)
{
	struct weigh *w = free_handle();

	if (!w) {
		sweep();
		w = free_handle();
	}
	if (!w)
		return 0;
	w->tid = tid;
	w->references = 1;
	w->account = 0;
	w->next_calls = 0;
	atomic_store(&w->reason, WEIGH_MEASURED);
	atomic_store(&w->state, HANDLE_OPEN);
	return w;
}

EXPORT weigh *weigh_open(void)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	int kept = errno;
	struct weigh *w;

	atomic_store(&none.reason, WEIGH_NO_SLOT);
	pthread_once(&keyed, make_key);
	if (!has_key || !weigh_prepare())
		return &none;
	w = pthread_getspecific(own);
	if (w && w != &none && atomic_load(&w->state) == HANDLE_OPEN && w->tid == tid) {
		w->references++;
		return w;
	}
	weigh_look_after(clock_now());
	weigh_lock();
	w = new_handle(tid);
	if (w && weigh_process.socket >= 0)
		weigh_join(w);
	weigh_unlock();
	if (!w)
		w = &none;
	/* Without it, only weigh_close() and the sweep would give the slot back. */
	pthread_setspecific(own, w);
	errno = kept;
	return w;
}

EXPORT void weigh_close(weigh *w)
{
	if (w == &none || weigh_reason_now(w) == WEIGH_FORKED)
		return;
	if (atomic_load(&w->state) != HANDLE_OPEN || --w->references)
		return;
	if (w->account)
		weigh_end(w);
	weigh_lock();
	let_go(w);
	weigh_unlock();
	if (pthread_getspecific(own) == w)
		pthread_setspecific(own, 0);
}

EXPORT const char *weigh_text(enum weigh_reason reason)
{
	static const char *const texts[] = { WEIGH_REASON_TEXTS };

	return (size_t)reason < sizeof(texts) / sizeof(*texts) ? texts[reason] : "unknown";
}

EXPORT uint64_t weigh_layout(void)
{
	return WEIGH_LAYOUT;
}

EXPORT const char *weigh_why(const weigh *w)
{
	enum weigh_reason reason = weigh_reason_now(w);

	return reason ? weigh_text(reason) : 0;
}

EXPORT int weigh_follows(const weigh *w)
{
	return !weigh_reason_now(w) && weigh_process.follows_calls;
}
