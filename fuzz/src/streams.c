/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A stream that has said all that it is going to say: the reader finds its answers one after the other, and rings that
 * hold anything.
 */
#include "../../libweigh/src/trace.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define RINGS 2
#define BYTES 4096
#define KEY 0x9e3779b97f4a7c15ULL
#define ELEMENT (WEIGH_RING_LINE + BYTES + WEIGH_RING_SLOP)
#define READS 32

static int stream = -1, rings_fd = -1;
static unsigned char *rings;

/* In place of the one that connects. */
enum weigh_reason weigh_trace_dial(weigh_trace *t, const char *path)
{
	(void)path;
	t->connection = stream;
	return WEIGH_MEASURED;
}

static int memory(size_t bytes)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
	return fd;
}

static void say(int to, const void *text, size_t length, const int *with, size_t count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)text, length };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), with, count * sizeof(int));
	}
	sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Each message is a line: they are not read together. */
static size_t say_all(int to, const uint8_t *data, size_t size)
{
	int with[3] = { rings_fd, eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC), memory(24) };
	size_t at = 0, count = 3;

	while (at + 2 <= size) {
		size_t length = data[at] | (size_t)data[at + 1] << 8;

		at += 2;
		if (!length || length > size - at)
			break;
		say(to, data + at, length, with, count);
		at += length;
		count = 0;
	}
	close(with[1]);
	close(with[2]);
	return at;
}

static void fill(const uint8_t *data, size_t size)
{
	memset(rings, 0, RINGS * ELEMENT);
	for (size_t ring = 0; ring < RINGS; ring++) {
		unsigned char *element = rings + ring * ELEMENT;
		struct weigh_ring_line *line = (void *)element;
		size_t half = size / RINGS, head = half < sizeof(line->head) ? half : sizeof(line->head);
		const uint8_t *from = data + ring * half;

		*line = (struct weigh_ring_line){ WEIGH_RING_MAGIC, RINGS, BYTES, 0, KEY };
		memcpy(&line->head, from, head);
		memcpy(element + WEIGH_RING_LINE, from + head, half - head < BYTES ? half - head : BYTES);
	}
}

static void read_all(weigh_trace *t)
{
	for (int i = 0; i < READS; i++) {
		const struct weigh_event *event = weigh_trace_next(t, 0);
		struct weigh_trace_lost lost;
		struct weigh_trace_field field;
		char name[16], answer[64], copy[128];

		weigh_trace_lost(t, (uint32_t)i, &lost);
		weigh_trace_name(t, (uint32_t)i, name, sizeof(name));
		weigh_trace_field(t, (uint32_t)i, "x", &field);
		if (event)
			weigh_trace_copy(t, copy, sizeof(copy));
		else if (i % 8)
			break;
		else
			weigh_trace_control(t, "\"list\"", answer, sizeof(answer));
	}
	(void)strlen(weigh_trace_description(t));
}

void weigh_fuzz_stream(const uint8_t *data, size_t size)
{
	enum weigh_reason reason;
	weigh_trace *t;
	int both[2];
	size_t said;

	if (rings_fd < 0) {
		rings_fd = memory(RINGS * ELEMENT);
		rings = mmap(0, RINGS * ELEMENT, PROT_READ | PROT_WRITE, MAP_SHARED, rings_fd, 0);
		if (rings == MAP_FAILED)
			abort();
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both))
		abort();
	stream = both[0];
	said = say_all(both[1], data, size);
	fill(data + said, size - said);
	shutdown(both[1], SHUT_WR);
	t = weigh_trace_open_at("fuzz", 0, &reason);
	if (t) {
		read_all(t);
		weigh_trace_close(t);
	}
	close(both[1]);
}
