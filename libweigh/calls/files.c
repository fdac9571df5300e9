/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls about files and descriptors. The library's own descriptor stays what it is, for programs
 * close all that they find: to them it is not open.
 */
#include "sockets.h"
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

/* A null pointer for the mode where the call has none would read what is not there. */
#define OPEN(name)                                                                                 \
	REAL(int, name, const char *, int, ...)                                                    \
	WRAPPER int name(const char *path, int flags, ...)                                         \
	{                                                                                          \
		struct span span;                                                                  \
		mode_t mode = 0;                                                                   \
		va_list rest;                                                                      \
		int result;                                                                        \
                                                                                                   \
		va_start(rest, flags);                                                             \
		if (has_mode(flags))                                                               \
			mode = va_arg(rest, mode_t);                                               \
		va_end(rest);                                                                      \
		span_begin(&span, CALL_openat);                                                    \
		result = real_##name()(path, flags, mode);                                         \
		span_end(&span, result < 0, 0);                                                    \
		set_kind(result, OTHER);                                                           \
		return result;                                                                     \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
	REAL(int, name, int, const char *, int, ...)                                               \
	WRAPPER int name(int folder, const char *path, int flags, ...)                             \
	{                                                                                          \
		struct span span;                                                                  \
		mode_t mode = 0;                                                                   \
		va_list rest;                                                                      \
		int result;                                                                        \
                                                                                                   \
		va_start(rest, flags);                                                             \
		if (has_mode(flags))                                                               \
			mode = va_arg(rest, mode_t);                                               \
		va_end(rest);                                                                      \
		span_begin(&span, CALL_openat);                                                    \
		result = real_##name()(folder, path, flags, mode);                                 \
		span_end(&span, result < 0, 0);                                                    \
		set_kind(result, OTHER);                                                           \
		return result;                                                                     \
	}
OPENAT(openat)
OPENAT(openat64)

WRAP_NEW(__open_2, openat, OTHER, (const char *path, int flags), path, flags)
WRAP_NEW(__open64_2, openat, OTHER, (const char *path, int flags), path, flags)
WRAP_NEW(__openat_2, openat, OTHER, (int folder, const char *path, int flags), folder, path, flags)
WRAP_NEW(__openat64_2, openat, OTHER, (int folder, const char *path, int flags), folder, path, flags)
WRAP_NEW(creat, openat, OTHER, (const char *path, mode_t mode), path, mode)
WRAP_NEW(creat64, openat, OTHER, (const char *path, mode_t mode), path, mode)

REAL(int, close, int)
APART int close_asked_for(int fd)
{
	struct span span;
	int result;

	span_begin(&span, CALL_close);
	if (is_own(fd)) {
		errno = EBADF;
		result = -1;
	} else {
		result = real_close()(fd);
	}
	span_end(&span, result < 0, 0);
	return result;
}

WRAPPER int close(int fd)
{
	set_kind(fd, UNKNOWN);
	if (LIKELY(!is_asked_for(CALL_close) && close_found && fd != weigh_process.socket))
		return close_found(fd);
	return close_asked_for(fd);
}

static void forget_from(unsigned first, unsigned last)
{
	for (; first <= last && first < KINDS; first++)
		set_kind((int)first, UNKNOWN);
}

REAL(int, close_range, unsigned, unsigned, int)
WRAPPER int close_range(unsigned first, unsigned last, int flags)
{
	unsigned own = (unsigned)own_descriptor();
	struct span span;
	int result = 0;

	if (!real_close_range()) {
		errno = ENOSYS;
		return -1;
	}
	span_begin(&span, CALL_close_range);
	forget_from(first, last);
	if (first <= own && own <= last && is_own((int)own)) {
		if (first < own)
			result = real_close_range()(first, own - 1, flags);
		if (!result && own < last)
			result = real_close_range()(own + 1, last, flags);
	} else {
		result = real_close_range()(first, last, flags);
	}
	span_end(&span, result < 0, 0);
	return result;
}

REAL(void, closefrom, int)
WRAPPER void closefrom(int first)
{
	if (first <= own_descriptor() && is_own(own_descriptor()) && real_close_range())
		close_range((unsigned)(first < 0 ? 0 : first), ~0U, 0);
	else if (real_closefrom()) {
		forget_from(first < 0 ? 0 : (unsigned)first, ~0U);
		real_closefrom()(first);
	}
}

WRAP(int, fsync, fsync, NO_BYTES, (int fd), fd)
WRAP(int, fdatasync, fdatasync, NO_BYTES, (int fd), fd)
WRAP(int, syncfs, syncfs, NO_BYTES, (int fd), fd)
WRAP(int, ftruncate, ftruncate, NO_BYTES, (int fd, off_t size), fd, size)
WRAP(int, ftruncate64, ftruncate, NO_BYTES, (int fd, off64_t size), fd, size)
WRAP(off_t, lseek, lseek, NO_BYTES, (int fd, off_t at, int from), fd, at, from)
WRAP(off64_t, lseek64, lseek, NO_BYTES, (int fd, off64_t at, int from), fd, at, from)
WRAP(int, fstat, fstat, NO_BYTES, (int fd, struct stat *about), fd, about)
WRAP(int, fstat64, fstat, NO_BYTES, (int fd, struct stat64 *about), fd, about)
WRAP(int, stat, newfstatat, NO_BYTES, (const char *path, struct stat *about), path, about)
WRAP(int, stat64, newfstatat, NO_BYTES, (const char *path, struct stat64 *about), path, about)
WRAP(int, lstat, newfstatat, NO_BYTES, (const char *path, struct stat *about), path, about)
WRAP(int, lstat64, newfstatat, NO_BYTES, (const char *path, struct stat64 *about), path, about)
WRAP(int, fstatat, newfstatat, NO_BYTES, (int folder, const char *path, struct stat *about, int flags),
     folder, path, about, flags)
WRAP(int, fstatat64, newfstatat, NO_BYTES, (int folder, const char *path, struct stat64 *about, int flags),
     folder, path, about, flags)
WRAP(int, statx, statx, NO_BYTES,
     (int folder, const char *path, int flags, unsigned mask, struct statx *about), folder, path, flags,
     mask, about)
WRAP(int, unlink, unlink, NO_BYTES, (const char *path), path)
WRAP(int, unlinkat, unlinkat, NO_BYTES, (int folder, const char *path, int flags), folder, path, flags)
WRAP(int, mkdir, mkdir, NO_BYTES, (const char *path, mode_t mode), path, mode)
WRAP(int, rename, rename, NO_BYTES, (const char *from, const char *to), from, to)

/* Where nothing is given the call takes no third argument: what stands there then is not looked at. */
#define WITH_ARGUMENT(name, kind, of, follows)                                                              \
	REAL(int, name, int, of, ...)                                                              \
	WRAPPER int name(int fd, of what, ...)                                                     \
	{                                                                                          \
		struct span span;                                                                  \
		void *argument;                                                                    \
		va_list rest;                                                                      \
		int result;                                                                        \
                                                                                                   \
		va_start(rest, what);                                                              \
		argument = va_arg(rest, void *);                                                   \
		va_end(rest);                                                                      \
		span_begin(&span, CALL_##kind);                                                    \
		result = real_##name()(fd, what, argument);                                        \
		span_end(&span, result == -1, 0);                                                  \
		follows;                                                                           \
		return result;                                                                     \
	}
#define FORGET_COPY                                                                                \
	if (what == F_DUPFD || what == F_DUPFD_CLOEXEC)                                            \
	set_kind(result, UNKNOWN)
#define NOTHING (void)0
WITH_ARGUMENT(fcntl, fcntl, int, FORGET_COPY)
WITH_ARGUMENT(fcntl64, fcntl, int, FORGET_COPY)
WITH_ARGUMENT(ioctl, ioctl, unsigned long, NOTHING)
