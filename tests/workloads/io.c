/* io KIND BYTES CHUNK [PATH [PATH2]]
 *
 * Moves exactly BYTES by calls of one kind, CHUNK bytes each, the last one less. PATH defaults to
 * /dev/zero (kinds that read) or /dev/null (kinds that write); kinds that do both read PATH and
 * write PATH2 (default /dev/null). A file that is written is created and truncated; one that is
 * read must hold BYTES. BYTES 0 makes no call: a baseline.
 *
 *   read pread readv preadv preadv2        from PATH
 *   write pwrite writev pwritev pwritev2   to PATH
 *   sendfile copy_file_range               PATH to PATH2
 *   splice                                 PATH to a pipe, the pipe to PATH2: two calls a chunk;
 *                                          like sendfile before Linux 6.5 not from /dev/zero, and
 *                                          copy_file_range is from file to file only
 *   tee vmsplice                           into a pipe; filled by write, emptied by read
 *   send sendto sendmsg                    over a Unix stream socket pair; taken out by
 *   recv recvfrom recvmsg                  recv, recvfrom, recvmsg of the same row's place
 *   sendmmsg (recvmmsg)                    three datagrams of CHUNK a call
 *   socket-write                           write and read on a socket pair
 *   aio-read aio-write                     PATH, Linux native AIO
 *   aio-append                             to PATH, by O_APPEND: at its end, wherever the request says
 *   uring-read uring-readv uring-async-read uring-sqpoll-read   from PATH
 *   uring-write uring-writev uring-async-write uring-sqpoll-write    to PATH
 *   uring-send (uring-recv)                over a socket pair
 *   uring-late                             the same, received while send(2) ends
 *   uring-again                            the same by write(2), each received by a request that goes on
 *                                          (multishot), and is cancelled: two results
 *   uring-hidden-write                     to PATH, with IOSQE_CQE_SKIP_SUCCESS: no result tells of it
 *
 * async: the request is forced onto a kernel worker thread; sqpoll: a kernel thread submits it.
 * The names recv, recvfrom, recvmsg, recvmmsg and uring-recv are synonyms of the sending ones:
 * each run does both halves. CHUNK is at most 65536 for pipes and sockets.
 *
 * Truth, all from return values:
 *   kind_read_bytes kind_read_calls kind_written_bytes kind_write_calls
 *       by calls of KIND alone. sendfile and copy_file_range read and write. A splice into the
 *       pipe and a tee read; a splice out of the pipe and a vmsplice write. Of sendmmsg and
 *       recvmmsg each message is a call; of AIO and io_uring each request.
 *   io_read_bytes io_read_calls io_written_bytes io_write_calls
 *       the same plus the helping calls: filling and emptying pipes, and the write that tells this
 *       truth. Not in it: what the kernel and the loader read to start the program. */
#include "common.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct counts {
	uint64_t read_bytes, read_calls, written_bytes, write_calls;
};

static struct counts kind, helping;
static int in = -1, out = -1, pipe_in[2], pipe_out[2];
static char *buffer;

static void did_read(struct counts *c, ssize_t n, const char *call)
{
	if (n <= 0)
		die("%s returned %zd", call, n);
	c->read_bytes += n;
	c->read_calls++;
}

static void did_write(struct counts *c, ssize_t n, const char *call)
{
	if (n <= 0)
		die("%s returned %zd", call, n);
	c->written_bytes += n;
	c->write_calls++;
}

/* Two vectors of odd sizes. */
static struct iovec *halves(size_t want)
{
	static struct iovec v[2];
	v[0] = (struct iovec){ buffer, want / 3 };
	v[1] = (struct iovec){ buffer + want / 3, want - want / 3 };
	return v;
}

static void drain(int fd, size_t bytes)
{
	while (bytes) {
		ssize_t n = read(fd, buffer, bytes);
		did_read(&helping, n, "read");
		bytes -= n;
	}
}

/* Each of these moves up to `want` bytes that lie at `at` and returns how many it moved. */

#define READS(name, call)                                      \
	static ssize_t name(size_t want, uint64_t at)          \
	{                                                      \
		(void)want, (void)at;                          \
		ssize_t n = call;                              \
		did_read(&kind, n, #name);                     \
		return n;                                      \
	}
#define WRITES(name, call)                                     \
	static ssize_t name(size_t want, uint64_t at)          \
	{                                                      \
		(void)want, (void)at;                          \
		ssize_t n = call;                              \
		did_write(&kind, n, #name);                    \
		return n;                                      \
	}

READS(do_read, read(in, buffer, want))
READS(do_pread, pread(in, buffer, want, at))
READS(do_readv, readv(in, halves(want), 2))
READS(do_preadv, preadv(in, halves(want), 2, at))
READS(do_preadv2, preadv2(in, halves(want), 2, at, 0))
WRITES(do_write, write(out, buffer, want))
WRITES(do_pwrite, pwrite(out, buffer, want, at))
WRITES(do_writev, writev(out, halves(want), 2))
WRITES(do_pwritev, pwritev(out, halves(want), 2, at))
WRITES(do_pwritev2, pwritev2(out, halves(want), 2, at, 0))

static ssize_t do_sendfile(size_t want, uint64_t at)
{
	(void)at;
	ssize_t n = sendfile(out, in, NULL, want);
	did_read(&kind, n, "sendfile");
	did_write(&kind, n, "sendfile");
	return n;
}

static ssize_t do_copy_file_range(size_t want, uint64_t at)
{
	(void)at;
	ssize_t n = copy_file_range(in, NULL, out, NULL, want, 0);
	did_read(&kind, n, "copy_file_range");
	did_write(&kind, n, "copy_file_range");
	return n;
}

static ssize_t do_splice(size_t want, uint64_t at)
{
	(void)at;
	ssize_t n = splice(in, NULL, pipe_in[1], NULL, want, 0);
	did_read(&kind, n, "splice into the pipe");
	for (ssize_t left = n; left;) {
		ssize_t m = splice(pipe_in[0], NULL, out, NULL, left, 0);
		did_write(&kind, m, "splice out of the pipe");
		left -= m;
	}
	return n;
}

static ssize_t do_tee(size_t want, uint64_t at)
{
	(void)at;
	ssize_t n = write(pipe_in[1], buffer, want);
	did_write(&helping, n, "write");
	ssize_t copied = tee(pipe_in[0], pipe_out[1], n, 0);
	did_read(&kind, copied, "tee");
	drain(pipe_in[0], n);
	drain(pipe_out[0], copied);
	return copied;
}

static ssize_t do_vmsplice(size_t want, uint64_t at)
{
	(void)at;
	ssize_t n = vmsplice(pipe_in[1], halves(want), 2, 0);
	did_write(&kind, n, "vmsplice");
	drain(pipe_in[0], n);
	return n;
}

/* Sockets: what was sent is taken out at once, by the partner of the sending call. */

static struct msghdr message(size_t want)
{
	return (struct msghdr){ .msg_iov = halves(want), .msg_iovlen = 2 };
}

#define SENDS(name, send_call, receive_call)                                   \
	static ssize_t name(size_t want, uint64_t at)                          \
	{                                                                      \
		(void)at;                                                      \
		struct msghdr m = message(want);                               \
		(void)m;                                                       \
		ssize_t sent = send_call;                                      \
		did_write(&kind, sent, #name);                                 \
		for (ssize_t left = sent; left;) {                             \
			m = message(left);                                     \
			ssize_t n = receive_call;                              \
			did_read(&kind, n, #name);                             \
			left -= n;                                             \
		}                                                              \
		return sent;                                                   \
	}

SENDS(do_send, send(out, buffer, want, 0), recv(in, buffer, left, 0))
SENDS(do_sendto, sendto(out, buffer, want, 0, NULL, 0), recvfrom(in, buffer, left, 0, NULL, NULL))
SENDS(do_sendmsg, sendmsg(out, &m, 0), recvmsg(in, &m, 0))
SENDS(do_socket_write, write(out, buffer, want), read(in, buffer, left))

enum { BATCH = 3 };
static size_t batch_chunk;

/* Up to BATCH datagrams of batch_chunk bytes. */
static ssize_t do_sendmmsg(size_t want, uint64_t at)
{
	(void)at;
	struct mmsghdr messages[BATCH] = { 0 };
	struct iovec vectors[BATCH];
	ssize_t moved = 0;
	int n = 0;
	for (size_t left = want; left && n < BATCH; n++) {
		size_t part = left < batch_chunk ? left : batch_chunk;
		vectors[n] = (struct iovec){ buffer, part };
		messages[n].msg_hdr = (struct msghdr){ .msg_iov = &vectors[n], .msg_iovlen = 1 };
		left -= part;
	}
	if (sendmmsg(out, messages, n, 0) != n)
		die("sendmmsg");
	for (int i = 0; i < n; i++) {
		did_write(&kind, messages[i].msg_len, "sendmmsg");
		moved += messages[i].msg_len;
	}
	if (recvmmsg(in, messages, n, 0, NULL) != n)
		die("recvmmsg");
	for (int i = 0; i < n; i++)
		did_read(&kind, messages[i].msg_len, "recvmmsg");
	return moved;
}

static aio_context_t aio;

static ssize_t aio_request(int opcode, int fd, size_t want, uint64_t at)
{
	struct iocb request = { .aio_lio_opcode = opcode, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer,
				.aio_nbytes = want, .aio_offset = at };
	struct iocb *list[] = { &request };
	struct io_event event;
	if (!aio && syscall(SYS_io_setup, 8, &aio))
		die("io_setup");
	if (syscall(SYS_io_submit, aio, 1, list) != 1)
		die("io_submit");
	if (syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) != 1)
		die("io_getevents");
	errno = event.res < 0 ? -event.res : 0;
	return event.res;
}

READS(do_aio_read, aio_request(IOCB_CMD_PREAD, in, want, at))
WRITES(do_aio_write, aio_request(IOCB_CMD_PWRITE, out, want, at))

static ssize_t aio_append(size_t want)
{
	if (fcntl(out, F_SETFL, O_APPEND))
		die("O_APPEND");
	return aio_request(IOCB_CMD_PWRITE, out, want, 0);
}

WRITES(do_aio_append, aio_append(want))

static struct {
	int fd;
	bool sqpoll;
	_Atomic uint32_t *sq_tail, *sq_flags, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask, *sq_array;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring = { .fd = -1 };

static void open_ring(void)
{
	struct io_uring_params p = { .flags = ring.sqpoll ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 1000 };
	ring.fd = syscall(SYS_io_uring_setup, 8, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	size_t sq = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
	size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *sq_ring = mmap(NULL, sq, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	char *cq_ring = mmap(NULL, cq, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, p.sq_entries * sizeof *ring.sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			 IORING_OFF_SQES);
	if (sq_ring == MAP_FAILED || cq_ring == MAP_FAILED || ring.sqes == MAP_FAILED)
		die("mapping the ring");
	ring.sq_tail = (void *)(sq_ring + p.sq_off.tail);
	ring.sq_flags = (void *)(sq_ring + p.sq_off.flags);
	ring.sq_array = (void *)(sq_ring + p.sq_off.array);
	ring.sq_mask = *(uint32_t *)(sq_ring + p.sq_off.ring_mask);
	ring.cq_head = (void *)(cq_ring + p.cq_off.head);
	ring.cq_tail = (void *)(cq_ring + p.cq_off.tail);
	ring.cq_mask = *(uint32_t *)(cq_ring + p.cq_off.ring_mask);
	ring.cqes = (void *)(cq_ring + p.cq_off.cqes);
}

static void uring_put(struct io_uring_sqe request)
{
	if (ring.fd < 0)
		open_ring();
	uint32_t tail = *ring.sq_tail, slot = tail & ring.sq_mask;
	ring.sqes[slot] = request;
	ring.sq_array[slot] = slot;
	atomic_store(ring.sq_tail, tail + 1);
}

static void uring_enter(unsigned submitted, unsigned awaited)
{
	unsigned enter = IORING_ENTER_GETEVENTS;
	if (ring.sqpoll && atomic_load(ring.sq_flags) & IORING_SQ_NEED_WAKEUP)
		enter |= IORING_ENTER_SQ_WAKEUP;
	if (syscall(SYS_io_uring_enter, ring.fd, ring.sqpoll ? 0 : submitted, awaited, enter, NULL, 0) < 0 &&
	    errno != EINTR)
		die("io_uring_enter");
}

static ssize_t uring_result(void)
{
	while (atomic_load(ring.cq_tail) == *ring.cq_head)
		uring_enter(0, 1);
	uint32_t head = *ring.cq_head;
	ssize_t result = ring.cqes[head & ring.cq_mask].res;
	atomic_store(ring.cq_head, head + 1);
	errno = result < 0 ? -result : 0;
	return result;
}

/* One request, submitted and waited for. */
static ssize_t uring_request(int opcode, int flags, int fd, const void *address, uint32_t length, uint64_t at)
{
	uring_put((struct io_uring_sqe){ .opcode = opcode, .flags = flags, .fd = fd,
					 .addr = (uintptr_t)address, .len = length, .off = at });
	uring_enter(1, 1);
	return uring_result();
}

/* Waits while send(2) brings what it is to receive: it is done on the way out of that call. */
static ssize_t do_uring_late(size_t want, uint64_t at)
{
	(void)at;
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_RECV, .fd = in, .addr = (uintptr_t)buffer, .len = want });
	uring_enter(1, 0);
	did_write(&kind, send(out, buffer, want, 0), "send");
	ssize_t n = uring_result();
	did_read(&kind, n, "uring recv");
	return n;
}

/* Of one that receives again and again there is a result for each time, and one when it is cancelled. */
static ssize_t do_uring_again(size_t want, uint64_t at)
{
	(void)at;
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_PROVIDE_BUFFERS, .fd = 1, .addr = (uintptr_t)buffer,
					 .len = want, .buf_group = 1 });
	uring_enter(1, 1);
	if (uring_result() < 0)
		die("IORING_OP_PROVIDE_BUFFERS");
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_RECV, .flags = IOSQE_BUFFER_SELECT, .fd = in,
					 .ioprio = IORING_RECV_MULTISHOT, .buf_group = 1, .user_data = 7 });
	uring_enter(1, 0);
	did_write(&kind, write(out, buffer, want), "write");
	ssize_t n = uring_result();
	did_read(&kind, n, "uring recv");
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_ASYNC_CANCEL, .addr = 7 });
	uring_enter(1, 2);
	uring_result();
	uring_result();
	kind.read_calls++;
	return n;
}

/* Nothing tells that it has succeeded. */
static ssize_t do_uring_hidden(size_t want, uint64_t at)
{
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .flags = IOSQE_CQE_SKIP_SUCCESS, .fd = out,
					 .addr = (uintptr_t)buffer, .len = want, .off = at });
	uring_put((struct io_uring_sqe){ .opcode = IORING_OP_NOP });
	uring_enter(2, 1);
	if (uring_result() != 0)
		die("a request that was to say nothing");
	did_write(&kind, want, "uring write");
	return want;
}

static ssize_t sqpoll_read(size_t want, uint64_t at)
{
	ring.sqpoll = true;
	return uring_request(IORING_OP_READ, 0, in, buffer, want, at);
}

static ssize_t sqpoll_write(size_t want, uint64_t at)
{
	ring.sqpoll = true;
	return uring_request(IORING_OP_WRITE, 0, out, buffer, want, at);
}

READS(do_uring_read, uring_request(IORING_OP_READ, 0, in, buffer, want, at))
READS(do_uring_readv, uring_request(IORING_OP_READV, 0, in, halves(want), 2, at))
READS(do_uring_async_read, uring_request(IORING_OP_READ, IOSQE_ASYNC, in, buffer, want, at))
READS(do_uring_sqpoll_read, sqpoll_read(want, at))
WRITES(do_uring_write, uring_request(IORING_OP_WRITE, 0, out, buffer, want, at))
WRITES(do_uring_async_write, uring_request(IORING_OP_WRITE, IOSQE_ASYNC, out, buffer, want, at))
WRITES(do_uring_sqpoll_write, sqpoll_write(want, at))
WRITES(do_uring_writev, uring_request(IORING_OP_WRITEV, 0, out, halves(want), 2, at))
SENDS(do_uring_send, uring_request(IORING_OP_SEND, 0, out, buffer, want, 0),
      uring_request(IORING_OP_RECV, 0, in, buffer, left, 0))

enum ends { READ = 1, WRITE = 2, BOTH = 3, PIPES = 4, STREAM = 8, DATAGRAMS = 16 };

static const struct {
	const char *name;
	enum ends ends;
	ssize_t (*move)(size_t want, uint64_t at);
} KINDS[] = {
	{ "read", READ, do_read },
	{ "pread", READ, do_pread },
	{ "readv", READ, do_readv },
	{ "preadv", READ, do_preadv },
	{ "preadv2", READ, do_preadv2 },
	{ "write", WRITE, do_write },
	{ "pwrite", WRITE, do_pwrite },
	{ "writev", WRITE, do_writev },
	{ "pwritev", WRITE, do_pwritev },
	{ "pwritev2", WRITE, do_pwritev2 },
	{ "sendfile", BOTH, do_sendfile },
	{ "copy_file_range", BOTH, do_copy_file_range },
	{ "splice", BOTH | PIPES, do_splice },
	{ "tee", PIPES, do_tee },
	{ "vmsplice", PIPES, do_vmsplice },
	{ "send", STREAM, do_send },
	{ "recv", STREAM, do_send },
	{ "sendto", STREAM, do_sendto },
	{ "recvfrom", STREAM, do_sendto },
	{ "sendmsg", STREAM, do_sendmsg },
	{ "recvmsg", STREAM, do_sendmsg },
	{ "sendmmsg", DATAGRAMS, do_sendmmsg },
	{ "recvmmsg", DATAGRAMS, do_sendmmsg },
	{ "socket-write", STREAM, do_socket_write },
	{ "aio-read", READ, do_aio_read },
	{ "aio-write", WRITE, do_aio_write },
	{ "aio-append", WRITE, do_aio_append },
	{ "uring-read", READ, do_uring_read },
	{ "uring-readv", READ, do_uring_readv },
	{ "uring-async-read", READ, do_uring_async_read },
	{ "uring-sqpoll-read", READ, do_uring_sqpoll_read },
	{ "uring-write", WRITE, do_uring_write },
	{ "uring-writev", WRITE, do_uring_writev },
	{ "uring-async-write", WRITE, do_uring_async_write },
	{ "uring-sqpoll-write", WRITE, do_uring_sqpoll_write },
	{ "uring-send", STREAM, do_uring_send },
	{ "uring-recv", STREAM, do_uring_send },
	{ "uring-late", STREAM, do_uring_late },
	{ "uring-again", STREAM, do_uring_again },
	{ "uring-hidden-write", WRITE, do_uring_hidden },
};

static void open_ends(enum ends ends, char **paths, int count)
{
	int sockets[2];
	const char *first = count > 0 ? paths[0] : NULL, *second = count > 1 ? paths[1] : NULL;
	const char *source = first ? first : "/dev/zero";
	const char *target = ends & READ ? second : first;
	target = target ? target : "/dev/null";
	if (ends & READ && (in = open(source, O_RDONLY | O_CLOEXEC)) < 0)
		die("%s", source);
	if (ends & WRITE && (out = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
		die("%s", target);
	if (ends & PIPES && (pipe2(pipe_in, O_CLOEXEC) || pipe2(pipe_out, O_CLOEXEC)))
		die("pipe2");
	if (ends & (STREAM | DATAGRAMS)) {
		if (socketpair(AF_UNIX, (ends & STREAM ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0, sockets))
			die("socketpair");
		out = sockets[0];
		in = sockets[1];
	}
}

static void tell(void)
{
	uint64_t length = 0;
	char text[512];
	truth("kind_read_bytes", kind.read_bytes);
	truth("kind_read_calls", kind.read_calls);
	truth("kind_written_bytes", kind.written_bytes);
	truth("kind_write_calls", kind.write_calls);
	truth("io_read_bytes", kind.read_bytes + helping.read_bytes);
	truth("io_read_calls", kind.read_calls + helping.read_calls);
	truth("io_write_calls", kind.write_calls + helping.write_calls + 1);
	/* The truth's own length is part of the last line: find the length that fits. */
	uint64_t written = kind.written_bytes + helping.written_bytes, total;
	do {
		total = written + length;
		length = truth_length() + snprintf(text, sizeof text, "io_written_bytes=%llu\n", (unsigned long long)total);
	} while (written + length != total);
	truth("io_written_bytes", total);
	truth_tell();
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 6)
		die("usage: io KIND BYTES CHUNK [PATH [PATH2]]");
	size_t k = 0, kinds = sizeof KINDS / sizeof *KINDS;
	while (k < kinds && strcmp(KINDS[k].name, argv[1]))
		k++;
	if (k == kinds)
		die("'%s' is no kind of call: see the top of io.c", argv[1]);
	uint64_t bytes = number(argv[2], "BYTES"), chunk = number(argv[3], "CHUNK");
	enum ends ends = KINDS[k].ends;
	if (chunk < 3 || chunk > 1 << 30 || (ends & (PIPES | STREAM | DATAGRAMS) && chunk > 65536))
		die("CHUNK must be between 3 and 2^30, for pipes and sockets 65536");

	batch_chunk = chunk;
	size_t step = ends & DATAGRAMS ? chunk * BATCH : chunk;
	buffer = map_pages(step, MAP_PRIVATE);
	touch_pages(buffer, step);
	open_ends(ends, argv + 4, argc - 4);
	for (uint64_t at = 0; at < bytes;) {
		errno = 0;
		at += KINDS[k].move(bytes - at < step ? bytes - at : step, at);
	}
	tell();
	return 0;
}
