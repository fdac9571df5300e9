/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One write to a file fails, or one allocation, in the program that this is loaded into, and in none that it starts.
 * Which is said by WEIGH_FAILS: `write N ERROR` or `malloc N`, counted from 1; ERROR is EIO, ENOSPC, EINTR, short
 * (a byte of it is written), and with a + behind it all that follow fail as well.
 *
 * cc -shared -fPIC -o failing.so failing.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);

static long writes_left, mallocs_left;
static int error;
static bool goes_on;

__attribute__((constructor)) static void begin(void)
{
	const char *fails = getenv("WEIGH_FAILS");
	char kind[8] = "", how[8] = "";
	char *end;
	long number;

	unsetenv("LD_PRELOAD");
	if (!fails)
		return;
	strncpy(kind, fails, strcspn(fails, " ") % sizeof(kind));
	number = strtol(fails + strlen(kind), &end, 10);
	strncpy(how, *end ? end + 1 : end, sizeof(how) - 1);
	goes_on = strchr(how, '+');
	how[strcspn(how, "+")] = 0;
	error = !strcmp(how, "EIO") ? EIO : !strcmp(how, "ENOSPC") ? ENOSPC : !strcmp(how, "EINTR") ? EINTR : 0;
	unsetenv("WEIGH_FAILS");
	*(strcmp(kind, "malloc") ? &writes_left : &mallocs_left) = number;
}

static bool is_next(long *left)
{
	long before = __atomic_load_n(left, __ATOMIC_RELAXED);

	if (before <= 0)
		return false;
	before = __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED);
	if (before == 1 && goes_on)
		__atomic_store_n(left, 1, __ATOMIC_RELAXED);
	return before == 1;
}

/* Of files alone: descriptors that wake others are no disk's. */
static bool fails(int fd)
{
	struct stat found;

	return writes_left > 0 && !fstat(fd, &found) && S_ISREG(found.st_mode) && is_next(&writes_left);
}

static ssize_t failed(int fd, const void *from, size_t size)
{
	if (!error && size)
		return syscall(SYS_write, fd, from, 1);
	errno = error ? error : EIO;
	return -1;
}

ssize_t write(int fd, const void *from, size_t size)
{
	return fails(fd) ? failed(fd, from, size) : syscall(SYS_write, fd, from, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	return count > 0 && fails(fd) ? failed(fd, parts->iov_base, parts->iov_len) :
					syscall(SYS_writev, fd, parts, count);
}

void *malloc(size_t size)
{
	if (mallocs_left > 0 && is_next(&mallocs_left)) {
		errno = ENOMEM;
		return 0;
	}
	return __libc_malloc(size);
}
