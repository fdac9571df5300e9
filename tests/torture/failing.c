/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One write to a file fails, or one allocation, in the program that this is loaded into, and in none that it starts.
 * Which is said by WEIGH_FAILS: `write N ERROR` or `malloc N`, counted from 1; ERROR is EIO, ENOSPC, EINTR, short
 * (a byte of it is written), and with a + behind it all that follow fail as well.
 *
 * `shared FILE`: the allocation whose number stands in the file, as two words of 8 bytes: how many until it fails, and
 * how many fail from there on. Both count down, so that others can say when, and see when it has. So in programs that
 * it starts, too.
 *
 * cc -shared -fPIC -o failing.so failing.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static long writes_left, mallocs_left;
/* How many allocations succeed, and how many fail then. */
static long *shared;
static int error;
static bool goes_on;

__attribute__((constructor)) static void begin(void)
{
	const char *fails = getenv("WEIGH_FAILS");
	char kind[8] = "", how[8] = "";
	char *end;
	long number;

	if (fails && !strncmp(fails, "shared ", 7)) {
		int fd = open(fails + 7, O_RDWR | O_CLOEXEC);
		void *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		shared = map == MAP_FAILED ? 0 : map;
		close(fd);
		return;
	}
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

static bool has_none(void)
{
	if (mallocs_left > 0 && is_next(&mallocs_left))
		return true;
	if (!shared || __atomic_load_n(&shared[1], __ATOMIC_RELAXED) <= 0)
		return false;
	if (__atomic_sub_fetch(&shared[0], 1, __ATOMIC_RELAXED) > 0)
		return false;
	return __atomic_sub_fetch(&shared[1], 1, __ATOMIC_RELAXED) >= 0;
}

void *malloc(size_t size)
{
	return has_none() ? errno = ENOMEM, (void *)0 : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return has_none() ? errno = ENOMEM, (void *)0 : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return has_none() ? errno = ENOMEM, (void *)0 : __libc_realloc(old, size);
}
