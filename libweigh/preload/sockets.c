/*
 * Sockets: what is sent and received by the calls that the kernel's own accounting of I/O leaves
 * out, bytes over the network, connections.
 */
#include "descriptors.h"
#include "io.h"

#include <sys/socket.h>
#include <time.h>

REAL(int, socket, int, int, int)
REAL(int, connect, int, const struct sockaddr *, socklen_t)
REAL(int, accept, int, struct sockaddr *, socklen_t *)
REAL(int, accept4, int, struct sockaddr *, socklen_t *, int)
REAL(int, getsockopt, int, int, int, void *, socklen_t *)
REAL(ssize_t, send, int, const void *, size_t, int)
REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
REAL(ssize_t, sendmsg, int, const struct msghdr *, int)
REAL(int, sendmmsg, int, struct mmsghdr *, unsigned, int)
REAL(ssize_t, recv, int, void *, size_t, int)
REAL(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *)
REAL(ssize_t, recvmsg, int, struct msghdr *, int)
REAL(int, recvmmsg, int, struct mmsghdr *, unsigned, int, struct timespec *)
REAL(ssize_t, __recv_chk, int, void *, size_t, size_t, int)
REAL(ssize_t, __recvfrom_chk, int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *)

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = real_socket()(domain, type, protocol);

	if (fd >= 0) {
		set_kind(fd, UNKNOWN);
		IO(io_made(fd);)
	}
	return fd;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	enum kind kind = kind_of(fd);
	int result = real_connect()(fd, address, length);

	if (kind == STREAM || kind == CONNECTING) {
		if (result == 0)
			connected(fd);
		else if (errno == EINPROGRESS || errno == EINTR)
			set_kind(fd, CONNECTING);
	}
	return result;
}

static void accepted(int fd)
{
	if (fd < 0)
		return;
	set_kind(fd, UNKNOWN);
	IO(io_made(fd);)
	if (kind_of(fd) == STREAM)
		connected(fd);
}

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	int peer = real_accept()(fd, address, length);

	accepted(peer);
	return peer;
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	int peer = real_accept4()(fd, address, length, flags);

	accepted(peer);
	return peer;
}

/* A program that did not wait for its connection asks so whether it stands. */
EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	int result = real_getsockopt()(fd, level, name, value, length);

	if (result == 0 && level == SOL_SOCKET && name == SO_ERROR &&
	    kind_known(fd) == CONNECTING && *length >= sizeof(int) && *(int *)value == 0)
		connected(fd);
	return result;
}

/* TCP Fast Open: the call that sends connects. */
static void sent_first(int fd, ssize_t bytes, int flags)
{
	if (!(flags & MSG_FASTOPEN) || kind_of(fd) != STREAM)
		return;
	if (bytes >= 0)
		connected(fd);
	else if (errno == EINPROGRESS || errno == EINTR)
		set_kind(fd, CONNECTING);
}

/* One that failed counts as a call if it has come to a socket. */
static void failed(enum counter calls)
{
	if (errno != EBADF && errno != ENOTSOCK)
		count(calls, 1);
}

static void sent(int fd, ssize_t bytes)
{
	if (bytes < 0)
		return failed(COUNTER_SOCKET_WRITE_CALLS);
	count(COUNTER_SOCKET_WRITE_CHARS, bytes);
	count(COUNTER_SOCKET_WRITE_CALLS, 1);
	moved(fd, bytes, true);
}

/* What was only looked at will come over the network once more; the call returned it all the same. */
static void received(int fd, ssize_t bytes, int flags)
{
	if (bytes < 0)
		return failed(COUNTER_SOCKET_READ_CALLS);
	count(COUNTER_SOCKET_READ_CHARS, bytes);
	count(COUNTER_SOCKET_READ_CALLS, 1);
	if (!(flags & MSG_PEEK))
		moved(fd, bytes, false);
}

EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
	IO_BEGIN();
	ssize_t n = real_send()(fd, data, size, flags);

	sent(fd, n);
	IO_MOVED(fd, n, IO_MESSAGE, true, IO_NOWHERE, 0, sendto);
	return n;
}

EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags,
		      const struct sockaddr *address, socklen_t length)
{
	IO_BEGIN();
	ssize_t n = real_sendto()(fd, data, size, flags, address, length);

	sent_first(fd, n, flags);
	sent(fd, n);
	IO_MOVED(fd, n, IO_MESSAGE, true, IO_NOWHERE, 0, sendto);
	return n;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	IO_BEGIN();
	ssize_t n = real_sendmsg()(fd, message, flags);

	sent_first(fd, n, flags);
	sent(fd, n);
	IO_MOVED(fd, n, IO_MESSAGE, true, IO_NOWHERE, 0, sendmsg);
	return n;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags)
{
	IO_BEGIN();
	int n = real_sendmmsg()(fd, messages, number, flags);

	for (int i = 0; i < n; i++)
		sent(fd, messages[i].msg_len);
	IO(io_moved_messages(fd, messages, n, true, SYS_sendmmsg, io_began);)
	return n;
}

EXPORT ssize_t recv(int fd, void *data, size_t size, int flags)
{
	IO_BEGIN();
	ssize_t n = real_recv()(fd, data, size, flags);

	received(fd, n, flags);
	IO_MOVED(fd, n, IO_MESSAGE, false, IO_NOWHERE, 0, recvfrom);
	return n;
}

EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags)
{
	IO_BEGIN();
	ssize_t n = real___recv_chk()(fd, data, size, room, flags);

	received(fd, n, flags);
	IO_MOVED(fd, n, IO_MESSAGE, false, IO_NOWHERE, 0, recvfrom);
	return n;
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *address,
			socklen_t *length)
{
	IO_BEGIN();
	ssize_t n = real_recvfrom()(fd, data, size, flags, address, length);

	received(fd, n, flags);
	IO_MOVED(fd, n, IO_MESSAGE, false, IO_NOWHERE, 0, recvfrom);
	return n;
}

EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
			      struct sockaddr *address, socklen_t *length)
{
	IO_BEGIN();
	ssize_t n = real___recvfrom_chk()(fd, data, size, room, flags, address, length);

	received(fd, n, flags);
	IO_MOVED(fd, n, IO_MESSAGE, false, IO_NOWHERE, 0, recvfrom);
	return n;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	IO_BEGIN();
	ssize_t n = real_recvmsg()(fd, message, flags);

	received(fd, n, flags);
	IO_MOVED(fd, n, IO_MESSAGE, false, IO_NOWHERE, 0, recvmsg);
	return n;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags,
		    struct timespec *timeout)
{
	IO_BEGIN();
	int n = real_recvmmsg()(fd, messages, number, flags, timeout);

	for (int i = 0; i < n; i++)
		received(fd, messages[i].msg_len, flags);
	IO(io_moved_messages(fd, messages, n, false, SYS_recvmmsg, io_began);)
	return n;
}
