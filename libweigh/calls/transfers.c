/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls that move bytes: files, pipes, sockets.
 *
 * The __…_chk functions are what the compiler makes of the others where it knows how much room there
 * is (-D_FORTIFY_SOURCE).
 */
#include "sockets.h"
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What is only looked at comes again. */
#define WAY_IN (flags & MSG_PEEK ? NOWHERE : RECEIVES)

WRAP_MOVING(read, read, RECEIVES, fd, (int fd, void *data, size_t size), fd, data, size)
WRAP_MOVING(__read_chk, read, RECEIVES, fd, (int fd, void *data, size_t size, size_t room), fd, data, size,
     room)
WRAP_MOVING(write, write, SENDS, fd, (int fd, const void *data, size_t size), fd, data, size)
WRAP(ssize_t, pread, pread64, BYTES, (int fd, void *data, size_t size, off_t at), fd, data, size, at)
WRAP(ssize_t, pread64, pread64, BYTES, (int fd, void *data, size_t size, off64_t at), fd, data, size, at)
WRAP(ssize_t, __pread_chk, pread64, BYTES, (int fd, void *data, size_t size, off_t at, size_t room), fd,
     data, size, at, room)
WRAP(ssize_t, __pread64_chk, pread64, BYTES, (int fd, void *data, size_t size, off64_t at, size_t room),
     fd, data, size, at, room)
WRAP(ssize_t, pwrite, pwrite64, BYTES, (int fd, const void *data, size_t size, off_t at), fd, data, size,
     at)
WRAP(ssize_t, pwrite64, pwrite64, BYTES, (int fd, const void *data, size_t size, off64_t at), fd, data,
     size, at)
WRAP_MOVING(readv, readv, RECEIVES, fd, (int fd, const struct iovec *parts, int number), fd, parts, number)
WRAP_MOVING(writev, writev, SENDS, fd, (int fd, const struct iovec *parts, int number), fd, parts, number)
WRAP(ssize_t, preadv, preadv, BYTES, (int fd, const struct iovec *parts, int number, off_t at), fd, parts,
     number, at)
WRAP(ssize_t, preadv64, preadv, BYTES, (int fd, const struct iovec *parts, int number, off64_t at), fd,
     parts, number, at)
WRAP(ssize_t, pwritev, pwritev, BYTES, (int fd, const struct iovec *parts, int number, off_t at), fd,
     parts, number, at)
WRAP(ssize_t, pwritev64, pwritev, BYTES, (int fd, const struct iovec *parts, int number, off64_t at), fd,
     parts, number, at)
WRAP_MOVING(preadv2, preadv2, RECEIVES, fd,
     (int fd, const struct iovec *parts, int number, off_t at, int flags), fd, parts, number, at, flags)
WRAP_MOVING(preadv64v2, preadv2, RECEIVES, fd,
     (int fd, const struct iovec *parts, int number, off64_t at, int flags), fd, parts, number, at, flags)
WRAP_MOVING(pwritev2, pwritev2, SENDS, fd,
     (int fd, const struct iovec *parts, int number, off_t at, int flags), fd, parts, number, at, flags)
WRAP_MOVING(pwritev64v2, pwritev2, SENDS, fd,
     (int fd, const struct iovec *parts, int number, off64_t at, int flags), fd, parts, number, at, flags)
WRAP_MOVING(sendfile, sendfile, SENDS, out, (int out, int in, off_t *at, size_t size), out, in, at, size)
WRAP_MOVING(sendfile64, sendfile, SENDS, out, (int out, int in, off64_t *at, size_t size), out, in, at, size)
/* One of its ends is a pipe. */
REAL(ssize_t, splice, int, off64_t *, int, off64_t *, size_t, unsigned)
WRAPPER ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags)
{
	struct span span;
	ssize_t result;

	if (is_beside(CALL_splice, in) && is_beside(CALL_splice, out))
		return real_splice()(in, in_at, out, out_at, size, flags);
	span_begin(&span, CALL_splice);
	result = real_splice()(in, in_at, out, out_at, size, flags);
	span_end(&span, result < 0, (uint64_t)result);
	moved(&span, in, RECEIVES, result);
	moved(&span, out, SENDS, result);
	return result;
}

WRAP(ssize_t, tee, tee, BYTES, (int in, int out, size_t size, unsigned flags), in, out, size, flags)
WRAP(ssize_t, vmsplice, vmsplice, BYTES,
     (int fd, const struct iovec *parts, size_t number, unsigned flags), fd, parts, number, flags)
WRAP(ssize_t, copy_file_range, copy_file_range, BYTES,
     (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), in, in_at, out,
     out_at, size, flags)
WRAP_MOVING(recv, recvfrom, WAY_IN, fd, (int fd, void *data, size_t size, int flags), fd, data, size, flags)
WRAP_MOVING(__recv_chk, recvfrom, WAY_IN, fd, (int fd, void *data, size_t size, size_t room, int flags), fd,
     data, size, room, flags)
WRAP_MOVING(recvfrom, recvfrom, WAY_IN, fd,
     (int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *length), fd, data,
     size, flags, from, length)
WRAP_MOVING(__recvfrom_chk, recvfrom, WAY_IN, fd,
     (int fd, void *data, size_t size, size_t room, int flags, struct sockaddr *from, socklen_t *length),
     fd, data, size, room, flags, from, length)

/* Descriptors that came with a message. */
static void forget_received(struct msghdr *message)
{
	struct cmsghdr *part = message->msg_controllen ? CMSG_FIRSTHDR(message) : 0;

	for (; part; part = CMSG_NXTHDR(message, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);
		int fd;

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(fd) <= bytes; at += sizeof(fd)) {
			memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
			set_kind(fd, UNKNOWN);
		}
	}
}

REAL(ssize_t, recvmsg, int, struct msghdr *, int)
WRAPPER ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct span span;
	ssize_t result;

	span_begin(&span, CALL_recvmsg);
	result = real_recvmsg()(fd, message, flags);
	span_end(&span, result < 0, (uint64_t)result);
	if (result >= 0)
		forget_received(message);
	moved(&span, fd, WAY_IN, result);
	return result;
}

/* Of several messages each says for itself how long it was. */
static void moved_messages(const struct span *span, int fd, enum way way,
			   const struct mmsghdr *messages, int number)
{
	uint64_t bytes = 0, with_bytes = 0;

	for (int i = 0; i < number; i++) {
		bytes += messages[i].msg_len;
		with_bytes += messages[i].msg_len > 0;
	}
	if (span->counts && bytes && way && shim.head->sockets)
		moved_slowly(span->call, fd, way, bytes, with_bytes);
}

REAL(int, recvmmsg, int, struct mmsghdr *, unsigned, int, struct timespec *)
WRAPPER int recvmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags,
		     struct timespec *timeout)
{
	struct span span;
	int result;

	span_begin(&span, CALL_recvmmsg);
	result = real_recvmmsg()(fd, messages, number, flags, timeout);
	span_end(&span, result < 0, 0);
	for (int i = 0; i < result; i++)
		forget_received(&messages[i].msg_hdr);
	moved_messages(&span, fd, WAY_IN, messages, result);
	return result;
}

WRAP_MOVING(send, sendto, SENDS, fd, (int fd, const void *data, size_t size, int flags), fd, data, size,
     flags)
WRAP_MOVING(sendto, sendto, SENDS, fd,
     (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length), fd,
     data, size, flags, to, length)
WRAP_MOVING(sendmsg, sendmsg, SENDS, fd, (int fd, const struct msghdr *message, int flags), fd, message,
     flags)

REAL(int, sendmmsg, int, struct mmsghdr *, unsigned, int)
WRAPPER int sendmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags)
{
	struct span span;
	int result;

	span_begin(&span, CALL_sendmmsg);
	result = real_sendmmsg()(fd, messages, number, flags);
	span_end(&span, result < 0, 0);
	moved_messages(&span, fd, SENDS, messages, result);
	return result;
}
