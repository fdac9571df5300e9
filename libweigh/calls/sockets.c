/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * See sockets.h. Functions by which descriptors come and go, and that are no calls of the table, or
 * make none that is.
 */
#include "sockets.h"
#include "stripe.h"
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

uint8_t kinds[KINDS];

static enum kind learn(int fd)
{
	int type, kept = errno;
	socklen_t length = sizeof(type);
	long failed = syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &length);
	enum kind kind = failed ? OTHER : SOCKET;

	/* Another thread may have closed it meanwhile: then nothing is known of the number. */
	if (!failed || errno == ENOTSOCK)
		set_kind(fd, kind);
	errno = kept;
	return kind;
}

SELDOM bool is_socket_really(int fd)
{
	return learn(fd) == SOCKET;
}

void moved_slowly(unsigned call, int fd, enum way way, uint64_t bytes, uint64_t messages)
{
	enum kind kind = (unsigned)fd < KINDS ? kinds[fd] : UNKNOWN;

	if ((kind ? kind : learn(fd)) == SOCKET)
		count_moved(call, way == SENDS ? bytes : 0, way == SENDS ? 0 : bytes, messages);
}

REAL(int, socketpair, int, int, int, int *)
WRAPPER int socketpair(int domain, int type, int protocol, int pair[2])
{
	int result = real_socketpair()(domain, type, protocol, pair);

	if (!result) {
		set_kind(pair[0], SOCKET);
		set_kind(pair[1], SOCKET);
	}
	return result;
}

REAL(int, dup, int)
WRAPPER int dup(int fd)
{
	int copy = real_dup()(fd);

	set_kind(copy, UNKNOWN);
	return copy;
}

REAL(int, dup2, int, int)
WRAPPER int dup2(int fd, int to)
{
	int copy = real_dup2()(fd, to);

	set_kind(copy, UNKNOWN);
	return copy;
}

REAL(int, dup3, int, int, int)
WRAPPER int dup3(int fd, int to, int flags)
{
	int copy = real_dup3()(fd, to, flags);

	set_kind(copy, UNKNOWN);
	return copy;
}

/* Streams close their descriptors inside of the C library. */
static void forget_stream(FILE *stream)
{
	int kept = errno;

	set_kind(fileno(stream), UNKNOWN);
	errno = kept;
}

REAL(int, fclose, FILE *)
WRAPPER int fclose(FILE *stream)
{
	forget_stream(stream);
	return real_fclose()(stream);
}

#define REOPEN(name)                                                                               \
	REAL(FILE *, name, const char *, const char *, FILE *)                                     \
	WRAPPER FILE *name(const char *path, const char *mode, FILE *stream)                       \
	{                                                                                          \
		FILE *result;                                                                      \
                                                                                                   \
		forget_stream(stream);                                                             \
		result = real_##name()(path, mode, stream);                                        \
		if (result)                                                                        \
			forget_stream(result);                                                     \
		return result;                                                                     \
	}
REOPEN(freopen)
REOPEN(freopen64)
