/*
 * Calls that move bytes. The kernel counts read, write and their like by itself, exactly and
 * without cost, those inside the C library too: here is only what it leaves out. That is what goes
 * over the network, and splice, tee, vmsplice: what goes into a pipe is read, what comes out of one
 * is written.
 */
#include "descriptors.h"
#include "io.h"

#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

struct io_uring;
struct io_uring_params;
struct io_context;

REAL(ssize_t, read, int, void *, size_t)
REAL(ssize_t, __read_chk, int, void *, size_t, size_t)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, readv, int, const struct iovec *, int)
REAL(ssize_t, writev, int, const struct iovec *, int)
REAL(ssize_t, sendfile, int, int, off_t *, size_t)
REAL(ssize_t, sendfile64, int, int, off64_t *, size_t)
REAL(ssize_t, splice, int, off64_t *, int, off64_t *, size_t, unsigned)
REAL(ssize_t, tee, int, int, size_t, unsigned)
REAL(ssize_t, vmsplice, int, const struct iovec *, size_t, unsigned)
REAL(int, io_uring_queue_init, unsigned, struct io_uring *, unsigned)
REAL(int, io_uring_queue_init_params, unsigned, struct io_uring *, struct io_uring_params *)
REAL(int, io_setup, int, struct io_context **)

EXPORT ssize_t read(int fd, void *data, size_t size)
{
	IO_BEGIN();
	ssize_t n = real_read()(fd, data, size);

	moved(fd, n, false);
	IO_MOVED(fd, n, IO_PLAIN, false, IO_AT_POSITION, 0, read);
	return n;
}

EXPORT ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
	IO_BEGIN();
	ssize_t n = real___read_chk()(fd, data, size, room);

	moved(fd, n, false);
	IO_MOVED(fd, n, IO_PLAIN, false, IO_AT_POSITION, 0, read);
	return n;
}

EXPORT ssize_t write(int fd, const void *data, size_t size)
{
	IO_BEGIN();
	ssize_t n = real_write()(fd, data, size);

	moved(fd, n, true);
	IO_MOVED(fd, n, IO_PLAIN, true, IO_AT_POSITION, 0, write);
	return n;
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int number)
{
	IO_BEGIN();
	ssize_t n = real_readv()(fd, parts, number);

	moved(fd, n, false);
	IO_MOVED(fd, n, IO_VECTORED, false, IO_AT_POSITION, 0, readv);
	return n;
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int number)
{
	IO_BEGIN();
	ssize_t n = real_writev()(fd, parts, number);

	moved(fd, n, true);
	IO_MOVED(fd, n, IO_VECTORED, true, IO_AT_POSITION, 0, writev);
	return n;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t size)
{
	IO_BEGIN();
	ssize_t n = real_sendfile()(out, in, offset, size);

	moved(out, n, true);
	IO(io_copied_bytes(in, offset, out, NULL, n, SYS_sendfile, io_began);)
	return n;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t size)
{
	IO_BEGIN();
	ssize_t n = real_sendfile64()(out, in, offset, size);

	moved(out, n, true);
	IO(io_copied_bytes(in, offset, out, NULL, n, SYS_sendfile, io_began);)
	return n;
}

static void other(ssize_t bytes, bool wrote)
{
	if (bytes < 0)
		return;
	count(wrote ? COUNTER_OTHER_WRITE_CHARS : COUNTER_OTHER_READ_CHARS, bytes);
	count(wrote ? COUNTER_OTHER_WRITE_CALLS : COUNTER_OTHER_READ_CALLS, 1);
}

EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size,
		      unsigned flags)
{
	IO_BEGIN();
	ssize_t n = real_splice()(in, in_offset, out, out_offset, size, flags);

	IO(io_copied_bytes(in, in_offset, out, out_offset, n, SYS_splice, io_began);)
	IO(io_uncounted(n, true, true);)
	if (n >= 0) {
		other(n, RAW(fcntl, out, F_GETPIPE_SZ) < 0);
		moved(in, n, false);
		moved(out, n, true);
	}
	return n;
}

EXPORT ssize_t tee(int in, int out, size_t size, unsigned flags)
{
	IO_BEGIN();
	ssize_t n = real_tee()(in, out, size, flags);

	other(n, false);
	IO(io_copied_bytes(in, NULL, out, NULL, n, SYS_tee, io_began);)
	IO(io_uncounted(n, true, true);)
	return n;
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *parts, size_t number, unsigned flags)
{
	IO_BEGIN();
	ssize_t n = real_vmsplice()(fd, parts, number, flags);

	IO_MOVED(fd, n, IO_COPIED, true, IO_NOWHERE, 0, vmsplice);
	IO(io_uncounted(n, false, true);)
	if (n >= 0)
		other(n, (RAW(fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY);
	return n;
}

/* Requests that the kernel serves by itself pass by unseen: that there are any is noted. */

EXPORT int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	flag(self, FLAG_URING);
	return real_io_uring_queue_init() ? real_io_uring_queue_init()(entries, ring, flags) : -ENOSYS;
}

EXPORT int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
				      struct io_uring_params *wanted)
{
	flag(self, FLAG_URING);
	return real_io_uring_queue_init_params() ?
		       real_io_uring_queue_init_params()(entries, ring, wanted) :
		       -ENOSYS;
}

EXPORT int io_setup(int events, struct io_context **context)
{
	flag(self, FLAG_AIO);
	return real_io_setup() ? real_io_setup()(events, context) : -ENOSYS;
}
