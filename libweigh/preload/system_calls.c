/*
 * syscall(3): programs that make system calls by their number, but through the C library.
 *
 * No header that declares it is included: all six arguments are always passed on.
 */
#include "shim.h"
#include "opens.h"

#include <linux/sched.h>

REAL(long, syscall, long, long, long, long, long, long, long)

/* exec.c */
int execve(const char *path, char *const argv[], char *const envp[]);
int execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags);

static bool makes_process(long number, long first)
{
	switch (number) {
#ifdef SYS_fork
	case SYS_fork:
		return true;
#endif
	case SYS_clone:
		return !(first & CLONE_VM);
	case SYS_clone3:
		return !(((const struct clone_args *)first)->flags & CLONE_VM);
	default:
		return false;
	}
}

/* What the kernel's own sums leave out, and the library counts by the functions' names. */
static bool moves_uncounted(long number)
{
	switch (number) {
	case SYS_sendto:
	case SYS_recvfrom:
	case SYS_sendmsg:
	case SYS_recvmsg:
	case SYS_sendmmsg:
	case SYS_recvmmsg:
	case SYS_splice:
	case SYS_tee:
	case SYS_vmsplice:
		return true;
	default:
		return false;
	}
}

static void before_call(long number, long first)
{
	if (number == SYS_exit_group || number == SYS_exit) {
		struct slot *slot = mine();
		if (slot && (number == SYS_exit_group || !(slot->flags & FLAG_THREADS)))
			say_last(slot, (first & 0xff) << 8);
	} else if (number == SYS_io_uring_setup) {
		flag(self, FLAG_URING);
	} else if (number == SYS_io_setup) {
		flag(self, FLAG_AIO);
	} else if (moves_uncounted(number)) {
		flag(self, FLAG_BY_NUMBER);
	}
}

EXPORT long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (!known.pid)
		return real_syscall()(number, a, b, c, d, e, f);
	/* By their names these are followed. */
	if (number == SYS_execve)
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	if (number == SYS_execveat)
		return execveat(a, (const char *)b, (char *const *)c, (char *const *)d, e);
	bool makes = makes_process(number, a);
	struct slot *filtered = sets_filter(number, a) ? before_filter() : NULL;
	struct expected child;
	if (makes)
		expect_child(&child);
	before_call(number, a);
	long result = real_syscall()(number, a, b, c, d, e, f);
	if (filtered && result == 0)
		after_filter(filtered);
	if (makes && result == 0)
		become_child();
	else if (makes)
		child_made(&child, result, STATE_RUNNING);
	else
		after_open_call(number, a, b, result);
	return result;
}
