/*
 * Processes that are made, end, and are waited for; whether there are threads.
 */
#include "shim.h"
#include "io.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *(*thread_function)(void *);
typedef int (*clone_function)(void *);

REAL(void, _exit, int)
REAL(void, _Exit, int)
REAL(void, quick_exit, int)
REAL(pid_t, waitpid, pid_t, int *, int)
REAL(pid_t, wait3, int *, int, struct rusage *)
REAL(pid_t, wait4, pid_t, int *, int, struct rusage *)
REAL(int, waitid, idtype_t, id_t, siginfo_t *, int)
REAL(pid_t, fork, void)
REAL(pid_t, _Fork, void)
REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, thread_function, void *)
REAL(int, clone, clone_function, void *, int, void *, pid_t *, void *, pid_t *)

static void last_words(int status)
{
	struct slot *slot = mine();

	if (slot)
		say_last(slot, (status & 0xff) << 8);
}

EXPORT void _exit(int status)
{
	last_words(status);
	real__exit()(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	last_words(status);
	real__Exit()(status);
	__builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
	last_words(status);
	real_quick_exit()(status);
	__builtin_unreachable();
}

/*
 * A killed process reports nothing: its waiter learns of its end. Weigh may have found that out by
 * itself, and the slot may be another's at any moment: what was read between two looks at one life is of
 * that life, and is no longer there once the slot is another's.
 */
static void reaped(pid_t pid, int status)
{
	if (!known.pid || known.pid != known.local_pid ||
	    !(WIFEXITED(status) || WIFSIGNALED(status)))
		return;
	uint64_t life;
	struct slot *slot = slot_of(pid, &life);
	if (!slot)
		return;
	uint64_t before = slot->wait_status, ended_ns = slot->ended_ns;
	if (slot->life != life || state_of(life) < STATE_EXECED)
		return;
	uint32_t generation = generation_of(life);
	uint64_t reaped = life_of(generation, pid, STATE_REAPED);
	atomic_compare_exchange_strong(&slot->wait_status, &before, status_of(generation, status));
	atomic_compare_exchange_strong(&slot->ended_ns, &ended_ns, now_ns());
	if (atomic_compare_exchange_strong(&slot->life, &life, reaped))
		end_life();
}

#define WAITS(call)                      \
	int own = 0;                     \
	int *told = status ? status : &own; \
	pid_t pid = call;                \
	if (pid > 0)                     \
		reaped(pid, *told);      \
	return pid

EXPORT pid_t wait(int *status)
{
	WAITS(real_waitpid()(-1, told, 0));
}

EXPORT pid_t waitpid(pid_t which, int *status, int options)
{
	WAITS(real_waitpid()(which, told, options));
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	WAITS(real_wait3()(told, options, usage));
}

EXPORT pid_t wait4(pid_t which, int *status, int options, struct rusage *usage)
{
	WAITS(real_wait4()(which, told, options, usage));
}

EXPORT int waitid(idtype_t kind, id_t id, siginfo_t *info, int options)
{
	siginfo_t own;
	siginfo_t *told = info ? info : &own;

	own.si_pid = 0;
	int result = real_waitid()(kind, id, told, options);
	if (result == 0 && !(options & WNOWAIT)) {
		if (told->si_code == CLD_EXITED)
			reaped(told->si_pid, (told->si_status & 0xff) << 8);
		else if (told->si_code == CLD_KILLED || told->si_code == CLD_DUMPED)
			reaped(told->si_pid, told->si_status | (told->si_code == CLD_DUMPED ? 0x80 : 0));
	}
	return result;
}

/* It calls no handlers of pthread_atfork. */
EXPORT pid_t _Fork(void)
{
	struct expected child;

	expect_child(&child);
	pid_t pid = real__Fork() ? real__Fork()() : (errno = ENOSYS, -1);

	if (pid == 0 && known.pid)
		become_child();
	else
		child_made(&child, pid, STATE_RUNNING);
	return pid;
}

/* The child takes its slot in a handler of pthread_atfork(3), before the program's own ones. */
EXPORT pid_t fork(void)
{
	struct expected child;

	expect_child(&child);
	pid_t pid = real_fork()();
	if (pid)
		child_made(&child, pid, STATE_RUNNING);
	return pid;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  thread_function function, void *argument)
{
	flag(self, FLAG_THREADS);
	return real_pthread_create()(thread, attributes, function, argument);
}

/* What a process by clone(2) is to call. It lies on its own stack: others write to its slot. */
struct beginning {
	clone_function function;
	void *argument;
	struct slot *slot;
} __attribute__((aligned(16)));

static int begin_clone(void *place)
{
	struct beginning *beginning = place;
	struct slot *slot = beginning->slot;

	enter_child(slot);
	if (slot->flags & FLAG_OWN_MEMORY) {
		self = slot;
		known.pid = pid_of(slot->life);
		known.local_pid = slot->local_pid;
		IO(io_become_child();)
	}
	int status = beginning->function(beginning->argument);
	say_last(slot, (status & 0xff) << 8);
	return status;
}

EXPORT int clone(clone_function function, void *stack, int flags, void *argument, ...)
{
	va_list list;

	va_start(list, argument);
	pid_t *parent_tid = va_arg(list, pid_t *);
	void *tls = va_arg(list, void *);
	pid_t *child_tid = va_arg(list, pid_t *);
	va_end(list);
	struct slot *parent = flags & CLONE_THREAD ? NULL : mine();
	struct slot *slot = parent && function && stack ? claim(STATE_CLAIMED) : NULL;
	if (!slot)
		return real_clone()(function, stack, flags, argument, parent_tid, tls, child_tid);
	struct beginning *beginning = (struct beginning *)((uintptr_t)stack & -16ul) - 1;
	*beginning = (struct beginning){ function, argument, slot };
	slot->flags = flags & CLONE_VM ? FLAG_GUEST : FLAG_OWN_MEMORY;
	inherit(slot, pid_of(parent->life));
	int pid = real_clone()(begin_clone, beginning, flags, beginning, parent_tid, tls, child_tid);
	if (pid < 0)
		give_back(slot);
	return pid;
}
