/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls that move bytes: files, pipes, sockets.
 *
 * The __…_chk functions are what the compiler makes of the others where it knows how much room there
 * is (-D_FORTIFY_SOURCE).
 */
#include "shim.h"
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

WRAP(ssize_t, read, read, BYTES, (int fd, void *data, size_t size), fd, data, size)
WRAP(ssize_t, __read_chk, read, BYTES, (int fd, void *data, size_t size, size_t room), fd, data, size,
     room)
WRAP(ssize_t, write, write, BYTES, (int fd, const void *data, size_t size), fd, data, size)
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
WRAP(ssize_t, readv, readv, BYTES, (int fd, const struct iovec *parts, int number), fd, parts, number)
WRAP(ssize_t, writev, writev, BYTES, (int fd, const struct iovec *parts, int number), fd, parts, number)
WRAP(ssize_t, preadv, preadv, BYTES, (int fd, const struct iovec *parts, int number, off_t at), fd, parts,
     number, at)
WRAP(ssize_t, preadv64, preadv, BYTES, (int fd, const struct iovec *parts, int number, off64_t at), fd,
     parts, number, at)
WRAP(ssize_t, pwritev, pwritev, BYTES, (int fd, const struct iovec *parts, int number, off_t at), fd,
     parts, number, at)
WRAP(ssize_t, pwritev64, pwritev, BYTES, (int fd, const struct iovec *parts, int number, off64_t at), fd,
     parts, number, at)
WRAP(ssize_t, preadv2, preadv2, BYTES,
     (int fd, const struct iovec *parts, int number, off_t at, int flags), fd, parts, number, at, flags)
WRAP(ssize_t, preadv64v2, preadv2, BYTES,
     (int fd, const struct iovec *parts, int number, off64_t at, int flags), fd, parts, number, at, flags)
WRAP(ssize_t, pwritev2, pwritev2, BYTES,
     (int fd, const struct iovec *parts, int number, off_t at, int flags), fd, parts, number, at, flags)
WRAP(ssize_t, pwritev64v2, pwritev2, BYTES,
     (int fd, const struct iovec *parts, int number, off64_t at, int flags), fd, parts, number, at, flags)
WRAP(ssize_t, sendfile, sendfile, BYTES, (int out, int in, off_t *at, size_t size), out, in, at, size)
WRAP(ssize_t, sendfile64, sendfile, BYTES, (int out, int in, off64_t *at, size_t size), out, in, at, size)
WRAP(ssize_t, splice, splice, BYTES,
     (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), in, in_at, out,
     out_at, size, flags)
WRAP(ssize_t, tee, tee, BYTES, (int in, int out, size_t size, unsigned flags), in, out, size, flags)
WRAP(ssize_t, vmsplice, vmsplice, BYTES,
     (int fd, const struct iovec *parts, size_t number, unsigned flags), fd, parts, number, flags)
WRAP(ssize_t, copy_file_range, copy_file_range, BYTES,
     (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), in, in_at, out,
     out_at, size, flags)
WRAP(ssize_t, recv, recvfrom, BYTES, (int fd, void *data, size_t size, int flags), fd, data, size, flags)
WRAP(ssize_t, __recv_chk, recvfrom, BYTES, (int fd, void *data, size_t size, size_t room, int flags), fd,
     data, size, room, flags)
WRAP(ssize_t, recvfrom, recvfrom, BYTES,
     (int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *length), fd, data,
     size, flags, from, length)
WRAP(ssize_t, __recvfrom_chk, recvfrom, BYTES,
     (int fd, void *data, size_t size, size_t room, int flags, struct sockaddr *from, socklen_t *length),
     fd, data, size, room, flags, from, length)
WRAP(ssize_t, recvmsg, recvmsg, BYTES, (int fd, struct msghdr *message, int flags), fd, message, flags)
WRAP(int, recvmmsg, recvmmsg, NO_BYTES,
     (int fd, struct mmsghdr *messages, unsigned number, int flags, struct timespec *timeout), fd,
     messages, number, flags, timeout)
WRAP(ssize_t, send, sendto, BYTES, (int fd, const void *data, size_t size, int flags), fd, data, size,
     flags)
WRAP(ssize_t, sendto, sendto, BYTES,
     (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length), fd,
     data, size, flags, to, length)
WRAP(ssize_t, sendmsg, sendmsg, BYTES, (int fd, const struct msghdr *message, int flags), fd, message,
     flags)
WRAP(int, sendmmsg, sendmmsg, NO_BYTES, (int fd, struct mmsghdr *messages, unsigned number, int flags), fd,
     messages, number, flags)
