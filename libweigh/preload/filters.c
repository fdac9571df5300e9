/*
 * Filters of system calls (seccomp) that a program sets for itself. Behind one the library must do
 * no call that the program would not do: it may be killed for it. So it says what is known before,
 * lies idle from then on, and does not go along into what is executed.
 */
#include "shim.h"
#include "io.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

REAL(int, prctl, int, unsigned long, unsigned long, unsigned long, unsigned long)

bool is_filtered;

bool sets_filter(long number, long first)
{
	return number == SYS_prctl ?
		       first == PR_SET_SECCOMP :
		       number == SYS_seccomp && (first == SECCOMP_SET_MODE_STRICT ||
						 first == SECCOMP_SET_MODE_FILTER);
}

struct slot *before_filter(void)
{
	struct slot *slot = mine();

	if (slot)
		look_in_between(slot);
	return slot;
}

void after_filter(struct slot *slot)
{
	if (!slot)
		return;
	flag(slot, FLAG_FILTERED);
	/* A child by vfork has its parent's memory, in which the library goes on. */
	if (slot == self) {
		is_filtered = true;
		known.pid = 0;
		/* The strict one takes the processor's counter away, too. */
		IO(io_is_on = false;)
	}
}

EXPORT int prctl(int option, ...)
{
	va_list list;

	va_start(list, option);
	unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long);
	unsigned long c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
	va_end(list);
	IO(if (option == PR_SET_TSC) io_stop();)
	if (option != PR_SET_SECCOMP)
		return real_prctl()(option, a, b, c, d);
	int (*call)(int, unsigned long, unsigned long, unsigned long, unsigned long) = real_prctl();
	int before = errno;
	struct slot *slot = before_filter();
	errno = before;
	int result = call(option, a, b, c, d);
	if (result == 0)
		after_filter(slot);
	return result;
}
