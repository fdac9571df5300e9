/* Opened files; level 2 does not look at them. */
#ifndef WEIGH_OPENS_H
#define WEIGH_OPENS_H

#include "shim.h"

#if LEVEL >= 3
/* After an open that gave `fd`; nothing if it is negative. */
void opened(int directory, const char *path, int fd);
/* After a system call by number. */
void after_open_call(long number, long a, long b, long result);
#else
static inline void after_open_call(long number, long a, long b, long result)
{
	(void)number, (void)a, (void)b, (void)result;
}
#endif

#endif
