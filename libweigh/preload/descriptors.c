/*
 * See descriptors.h. A number may be used again for something else: closing forgets, and so does
 * everything that puts something else in a number's place.
 */
#include "descriptors.h"
#include "io.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

uint8_t first_kinds[FIRST];
/* Those of the others, once one of them is known. */
static uint8_t *_Atomic later_kinds;

REAL(int, close, int)
REAL(int, close_range, unsigned, unsigned, int)
REAL(void, closefrom, int)
REAL(int, dup, int)
REAL(int, dup2, int, int)
REAL(int, dup3, int, int, int)
REAL(int, fcntl, int, int, void *)
REAL(int, fcntl64, int, int, void *)
REAL(int, fclose, FILE *)
REAL(FILE *, fdopen, int, const char *)

enum kind kind_known(int fd)
{
	const uint8_t *later = later_kinds;

	if ((unsigned)fd < FIRST)
		return first_kinds[fd];
	return later && (unsigned)fd < KINDS ? later[fd] : UNKNOWN;
}

void set_later_kind(int fd, enum kind kind)
{
	uint8_t *later = later_kinds, *none = NULL;

	if ((unsigned)fd >= KINDS || (!later && kind == UNKNOWN))
		return;
	if (!later) {
		long at = RAW(mmap, NULL, KINDS, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at < 0 && at > -4096)
			return;
		later = (uint8_t *)at;
		if (!atomic_compare_exchange_strong(&later_kinds, &none, later)) {
			RAW(munmap, later, KINDS);
			later = none;
		}
	}
	later[fd] = kind;
}

enum kind learn(int fd)
{
	int domain = 0, type = 0;

	/* Where the library lies idle it asks nothing: a filter may kill for it. */
	if (!known.pid)
		return OTHER;
	socklen_t length = sizeof domain;
	long error = RAW(getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);

	if (error == -EBADF)
		return OTHER;
	enum kind kind = OTHER;
	if (!error && (domain == AF_INET || domain == AF_INET6)) {
		length = sizeof type;
		RAW(getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &length);
		kind = type == SOCK_STREAM ? STREAM : DATAGRAMS;
	}
	set_kind(fd, kind);
	return kind;
}

void connected(int fd)
{
	set_kind(fd, STREAM);
	count(COUNTER_NET_CONNECTIONS, 1);
}

void moved_slowly(int fd, ssize_t bytes, bool sent)
{
	enum kind kind = kind_of(fd);

	if (kind == OTHER)
		return;
	if (kind == CONNECTING)
		connected(fd);
	count(sent ? COUNTER_NET_SENT : COUNTER_NET_RECEIVED, bytes);
}

EXPORT int close(int fd)
{
	set_kind(fd, UNKNOWN);
	IO(io_closes(fd);)
	return real_close()(fd);
}

static void forget(unsigned first, unsigned last)
{
	uint8_t *later = later_kinds;

	if (last >= KINDS)
		last = KINDS - 1;
	if (first < FIRST)
		memset(first_kinds + first, UNKNOWN, (last < FIRST ? last + 1 : FIRST) - first);
	if (first < FIRST)
		first = FIRST;
	if (later && first <= last)
		memset(later + first, UNKNOWN, last + 1 - first);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (!real_close_range())
		return errno = ENOSYS, -1;
	if (first <= last) {
		forget(first, last);
		/* CLOSE_RANGE_CLOEXEC, 4: nothing is closed now. */
		IO(if (!(flags & 4)) io_closes_from(first, last);)
	}
	return real_close_range()(first, last, flags);
}

EXPORT void closefrom(int first)
{
	forget(first < 0 ? 0 : first, KINDS);
	IO(io_closes_from(first < 0 ? 0 : first, KINDS);)
	if (real_closefrom())
		real_closefrom()(first);
}

EXPORT int dup(int fd)
{
	int copy = real_dup()(fd);

	if (copy >= 0) {
		set_kind(copy, UNKNOWN);
		IO(io_copied(fd, copy);)
	}
	return copy;
}

EXPORT int dup2(int fd, int to)
{
	int copy = real_dup2()(fd, to);

	if (copy >= 0 && fd != to) {
		set_kind(copy, UNKNOWN);
		IO(io_copied(fd, copy);)
	}
	return copy;
}

EXPORT int dup3(int fd, int to, int flags)
{
	int copy = real_dup3()(fd, to, flags);

	if (copy >= 0) {
		set_kind(copy, UNKNOWN);
		IO(io_copied(fd, copy);)
	}
	return copy;
}

#define CONTROL(call)                                                \
	va_list list;                                                \
	va_start(list, command);                                     \
	void *argument = va_arg(list, void *);                       \
	va_end(list);                                                \
	int result = call()(fd, command, argument);                  \
	if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) { \
		set_kind(result, UNKNOWN);                           \
		IO(io_copied(fd, result);)                           \
	}                                                            \
	IO(if (result >= 0 && command == F_SETFL) io_set_flags(fd, (int)(long)argument);) \
	return result

EXPORT int fcntl(int fd, int command, ...)
{
	CONTROL(real_fcntl);
}

EXPORT int fcntl64(int fd, int command, ...)
{
	CONTROL(real_fcntl64);
}

EXPORT int fclose(FILE *stream)
{
	int before = errno, fd = fileno(stream);

	errno = before;
	set_kind(fd, UNKNOWN);
	return real_fclose()(stream);
}

/* What a stream moves, it moves inside the C library. */
EXPORT FILE *fdopen(int fd, const char *mode)
{
	if (kind_of(fd) != OTHER)
		flag(self, FLAG_SOCKET_STREAM);
	return real_fdopen()(fd, mode);
}
