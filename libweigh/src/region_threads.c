/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads: each takes a record at its first call, and ends what it has open when it ends.
 */
#include "region.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a thread has before its first call. */
static struct region_thread nobody;
__thread struct region_here weigh_here QUICK_TLS = { .thread = &nobody };

static pthread_key_t key;
static pthread_once_t keyed = PTHREAD_ONCE_INIT;
static bool has_key;

/* Other destructors may still have regions: it lets them go first. */
static void thread_ends(void *state)
{
	struct region_thread *t = state;

	if (!t->record)
		return;
	if (t->cleanups++ < CLEANUP_ROUNDS)
		pthread_setspecific(key, t);
	else if (t->entry)
		weigh_thread_end(t);
}

static void make_key(void)
{
	has_key = !pthread_key_create(&key, thread_ends);
}

/* Two nodes, so that what finds none later has one. */
static bool take_nodes(struct region_thread *t)
{
	uint64_t *root, *other;

	t->root = weigh_profile_take(PROFILE_NODES);
	t->other = weigh_profile_take(PROFILE_NODES);
	if (t->other == NO_NUMBER)
		return false;
	root = node_numbered(t->root);
	other = node_numbered(t->other);
	weigh_node_clear(other);
	root[NODE_AT_PARENT] = other[NODE_AT_PARENT] = t->root;
	root[NODE_AT_THREAD] = other[NODE_AT_THREAD] = t->number;
	other[NODE_AT_NAME] = OTHER_NAME;
	store(&root[NODE_AT_KIND], PROFILE_ROOT);
	return true;
}

static void fill_record(struct region_thread *t, uint64_t *record)
{
	prctl(PR_GET_NAME, &record[THREAD_AT_NAME], 0, 0, 0);
	record[THREAD_AT_ROOT] = t->root;
	record[THREAD_AT_BEGUN] = ticks_now();
	store(&record[THREAD_AT_TID], (uint64_t)syscall(SYS_gettid));
	t->random = record[THREAD_AT_BEGUN] ^ record[THREAD_AT_TID] << 32;
}

/* The root has no frame of the record: what is written there goes to private memory. */
static void begin_calls(struct region_thread *t, uint64_t *record)
{
	for (uint64_t i = 1; i <= PROFILE_FRAMES; i++)
		t->open[i].frame = frame_numbered(record, i - 1);
	t->open[0].frame = t->root_frame;
	t->open[0].special = IS_ROOT;
	t->open[0].number = t->root;
	t->open[0].node = node_numbered(t->root);
	t->last = &t->open[PROFILE_FRAMES];
	weigh_here.top = t->open;
}

/* Faults of the thread's own come all the same: where they are blocked they end the process. */
void weigh_guard_begin(struct guard *guard)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&all, faults[i]);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancellable);
	/* Of the thread alone, as pthread_sigmask(), which older glibc has in another library. */
	sigprocmask(SIG_BLOCK, &all, &guard->signals);
}

void weigh_guard_end(const struct guard *guard)
{
	int before;

	sigprocmask(SIG_SETMASK, &guard->signals, 0);
	pthread_setcancelstate(guard->cancellable, &before);
}

static struct region_thread *take_record(void)
{
	uint64_t number = weigh_profile_take(PROFILE_THREADS);
	struct region_thread *t;
	uint64_t *record;

	if (number == NO_NUMBER)
		return 0;
	t = &weigh_regions.private->threads[number];
	record = record_numbered(PROFILE_THREADS, number, THREAD_LENGTH);
	t->number = number;
	if (!take_nodes(t))
		return 0;
	fill_record(t, record);
	begin_calls(t, record);
	t->record = t->entry = record;
	return t;
}

/* Gives the thread a record. NULL: there is no profile, or no room in it. */
struct region_thread *weigh_thread_attach(void)
{
	struct region_thread *t;
	struct guard guard;
	int before = errno;

	if (!weigh_profile_prepare() || weigh_here.lost_in == weigh_regions.generation)
		return 0;
	weigh_guard_begin(&guard);
	weigh_here.is_inside = 1;
	t = take_record();
	weigh_here.thread = t ? t : &nobody;
	if (!t) {
		weigh_here.lost_in = weigh_regions.generation;
		weigh_here.lost_depth = 0;
		profile_add(PROFILE_AT_THREADS_LOST, 1);
	} else {
		pthread_once(&keyed, make_key);
		if (has_key)
			pthread_setspecific(key, t);
	}
	weigh_here.is_inside = 0;
	weigh_guard_end(&guard);
	errno = before;
	return t;
}

/* Ends what the thread has open. The thread is not inside. */
void weigh_thread_end(struct region_thread *t)
{
	uint64_t now = ticks_now();

	t->entry = 0;
	weigh_region_end_all(t, t->open, now);
	store(&t->record[THREAD_AT_ENDED], now);
	weigh_publish_attend(now);
	thread_leave(t);
}

/* Of a thread without a record: the outermost call's time counts. */
void weigh_lost_begin(void)
{
	if (!has_profile() || weigh_here.lost_in != weigh_regions.generation)
		return;
	if (!weigh_here.lost_depth++)
		weigh_here.lost_begun = ticks_now();
}

void weigh_lost_end(void)
{
	if (!has_profile() || weigh_here.lost_in != weigh_regions.generation || !weigh_here.lost_depth)
		return;
	profile_add(PROFILE_AT_OTHER_CALLS, 1);
	if (!--weigh_here.lost_depth)
		profile_add(PROFILE_AT_OTHER_TICKS, ticks_now() - weigh_here.lost_begun);
}

/* The kernel puts more than this on the stack for a handler, and the library less. */
#define LEAST_SIGNAL_FRAME 512

/*
 * Whether the thread is inside only because a signal handler has left it by siglongjmp(): its stack is not below where it
 * was then. Handlers are below it, or on a stack of their own. A call from further below is not known from a handler's.
 */
static bool has_left_by_jump(const struct region_thread *t)
{
	uint64_t now = stack_now();
	stack_t alternate;

	if (!now || now + LEAST_SIGNAL_FRAME <= t->entered_at)
		return false;
	return !sigaltstack(0, &alternate) && !(alternate.ss_flags & SS_ONSTACK);
}

static struct region_thread *enter_again(struct region_thread *t)
{
	thread_leave(t);
	return thread_enter();
}

/* The thread's state, entered: of one that comes the first time. NULL: it is inside already, or has no record. */
struct region_thread *weigh_thread_enter_slowly(void)
{
	struct region_thread *t = weigh_here.thread;

	if (weigh_here.is_inside)
		return 0;
	if (t->record)
		return has_left_by_jump(t) ? enter_again(t) : 0;
	return weigh_thread_attach() ? thread_enter() : 0;
}
