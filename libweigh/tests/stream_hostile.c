/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A stream that does its worst: rings full of nonsense that changes while it is read, positions and sizes that cannot
 * be, answers that are none. The reader has to come back, and give out nothing that lies outside of a record.
 *
 * usage: stream_hostile FOLDER ROUNDS
 */
#include "check.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "../src/ring.h"

#define RINGS 2
#define BYTES 4096
#define KEY 0x9e3779b97f4a7c15ULL
#define ELEMENT (WEIGH_RING_LINE + BYTES + WEIGH_RING_SLOP)
#define DESCRIBED                                                                                                  \
	"{\"pid\":1,\"events\":[{\"id\":0,\"event\":\"a:b\",\"record_bytes\":48,\"fields\":[{\"name\":\"x\",\"kind\":"  \
	"\"unsigned\",\"offset\":40,\"bytes\":8,\"bit\":0}]},{\"id\":1,\"event\":\"a:\\u00e4\",\"record_bytes\":64,"    \
	"\"fields\":[]}]}"
#define WHERE "{\"positions\":[0,0],\"seen\":[0,0],\"lost\":[0,0]}"

static uint64_t state = 88172645463325252ULL;
static unsigned char *rings;
static int listener, rings_fd;

static uint64_t dice(uint64_t *own)
{
	*own ^= *own << 13;
	*own ^= *own >> 7;
	*own ^= *own << 17;
	return *own;
}

static int memory(size_t bytes, int seals)
{
	int fd = memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes) && !fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void describe(uint64_t *own)
{
	for (int ring = 0; ring < RINGS; ring++) {
		struct weigh_ring_line *line = (void *)(rings + ring * ELEMENT);

		line->magic = WEIGH_RING_MAGIC;
		line->rings = RINGS;
		line->bytes = BYTES;
		line->key = KEY;
		line->head = dice(own) % 3 ? dice(own) % 20000 / 8 * 8 : dice(own);
	}
}

/* Records that look like some, and some that do not. */
static void scribble(uint64_t *own)
{
	for (int ring = 0; ring < RINGS; ring++) {
		struct weigh_ring_line *line = (void *)(rings + ring * ELEMENT);
		uint64_t at = line->head > 3000 ? line->head - dice(own) % 3000 / 8 * 8 : 0;
		unsigned char *stamp = rings + ring * ELEMENT + WEIGH_RING_LINE + at % BYTES / 8 * 8;
		uint32_t *record = (uint32_t *)(stamp + 8);

		*(uint64_t *)stamp = dice(own) % 8 ? at + 1 + KEY : dice(own);
		record[0] = dice(own) % 8 ? (uint32_t)(dice(own) % 3) : (uint32_t)dice(own);
		record[1] = dice(own) % 8 ? 48 + 16 * record[0] : (uint32_t)dice(own);
		line->head = dice(own) % 16 ? at + 48 + dice(own) % 200 / 8 * 8 : dice(own);
	}
}

/* An answer, with a few bytes of it changed now and then. */
static void say(int to, const char *text, uint64_t *own, const int *with, size_t count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = { 0 };
	char line[2048];
	struct iovec part = { line, strlen(text) + 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(line, text, part.iov_len);
	line[part.iov_len - 1] = '\n';
	for (int i = 0; !(dice(own) % 3) && i < 4; i++)
		line[dice(own) % (part.iov_len - 1)] = (char)(dice(own) % 4 ? (uint64_t)"{}[]\",:0912-"[dice(own) % 12] : dice(own));
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), with, count * sizeof(int));
	}
	sendmsg(to, &message, MSG_NOSIGNAL);
}

static void *serve(void *argument)
{
	uint64_t own = 0x9e3779b97f4a7c15ULL;
	char asked[4096];
	(void)argument;

	for (;;) {
		int client = accept(listener, 0, 0);
		int with[3] = { rings_fd, eventfd(1, EFD_NONBLOCK), memory(24, F_SEAL_SHRINK) };
		ssize_t length;

		if (client < 0)
			return 0;
		while ((length = recv(client, asked, sizeof(asked) - 1, 0)) > 0) {
			asked[length] = 0;
			if (strstr(asked, "attach"))
				say(client, "{\"attached\":{\"description\":" DESCRIBED ",\"where\":" WHERE "}}", &own, with,
				    dice(&own) % 8 ? 3 : dice(&own) % 4);
			else if (strstr(asked, "where"))
				say(client, "{\"where\":" WHERE "}", &own, 0, 0);
			else if (strstr(asked, "describe"))
				say(client, "{\"description\":" DESCRIBED "}", &own, 0, 0);
			if (!(dice(&own) % 40))
				break;
		}
		for (int i = 1; i < 3; i++)
			close(with[i]);
		close(client);
	}
}

static uint64_t given, opened;

static void read_along(const char *path)
{
	weigh_trace *t = weigh_trace_open_at(path, 0, 0);
	const struct weigh_event *event;
	struct weigh_trace_field field;
	struct weigh_trace_lost lost;

	if (!t)
		return;
	opened++;
	for (int i = 0; i < 40; i++) {
		scribble(&state);
		event = weigh_trace_next(t, 0);
		if (event) {
			const unsigned char *begin = (const unsigned char *)event;

			given++;
			/* All of the largest record that was described lies in the rings. */
			for (int byte = 0; byte < 64; byte++)
				state += begin[byte];
			if (!weigh_trace_field(t, 0, "x", &field))
				state += weigh_trace_number(event, &field);
		}
	}
	weigh_trace_lost(t, WEIGH_EVERY_EVENT, &lost);
	weigh_trace_close(t);
}

#define SEEN 417
#define MISSING 2

/* An answer, and at once that the stream has ended, as one does that is asked while it ends. */
static void *serve_the_end(void *argument)
{
	static const char attached[] = "{\"attached\":{\"description\":" DESCRIBED ",\"where\":" WHERE "}}\n";
	char asked[4096], ended[1024];
	int with[3] = { rings_fd, eventfd(1, EFD_NONBLOCK), memory(24, F_SEAL_SHRINK) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(with))];
	} control = { 0 };
	struct iovec part = { (char *)attached, strlen(attached) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int client = accept(listener, 0, 0), length;

	(void)argument;
	CHECK(client >= 0 && recv(client, asked, sizeof(asked), 0) > 0);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(with));
	memcpy(CMSG_DATA(&control.header), with, sizeof(with));
	CHECK(sendmsg(client, &message, MSG_NOSIGNAL) > 0);
	CHECK(recv(client, asked, sizeof(asked), 0) > 0);
	length = snprintf(ended, sizeof(ended),
			  "{\"where\":" WHERE "}\n{\"ended\":{\"positions\":[%d,0],\"seen\":[%d,0],\"lost\":[%d,0]}}\n",
			  5 * BYTES, SEEN, MISSING);
	CHECK(send(client, ended, (size_t)length, MSG_NOSIGNAL) == length);
	close(client);
	return 0;
}

/* What was lost is known to the last one, though the reader asks in the very moment in which the stream ends. */
static void ends_while_it_is_asked(const char *path)
{
	struct weigh_trace_lost lost;
	pthread_t server;
	weigh_trace *t;

	for (int ring = 0; ring < RINGS; ring++) {
		struct weigh_ring_line *line = (void *)(rings + ring * ELEMENT);

		*line = (struct weigh_ring_line){ .magic = WEIGH_RING_MAGIC, .rings = RINGS, .bytes = BYTES, .key = KEY };
	}
	CHECK(!pthread_create(&server, 0, serve_the_end, 0));
	t = weigh_trace_open_at(path, 0, 0);
	CHECK(t);
	((struct weigh_ring_line *)rings)->head = 5 * BYTES;
	while (weigh_trace_why(t) == WEIGH_MEASURED)
		CHECK(!weigh_trace_next(t, 100));
	weigh_trace_lost(t, WEIGH_EVERY_EVENT, &lost);
	SAME(lost.overrun, SEEN);
	SAME(lost.missing, MISSING);
	weigh_trace_close(t);
	CHECK(!pthread_join(server, 0));
}

int main(int count, char **words)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pthread_t server;
	int rounds, loose;

	CHECK(count == 3);
	rounds = atoi(words[2]);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/hostile.sock", words[1]);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 8));
	rings_fd = memory(RINGS * ELEMENT, F_SEAL_SHRINK);
	rings = mmap(0, RINGS * ELEMENT, PROT_READ | PROT_WRITE, MAP_SHARED, rings_fd, 0);
	CHECK(rings != MAP_FAILED);
	ends_while_it_is_asked(address.sun_path);
	CHECK(!pthread_create(&server, 0, serve, 0));
	for (int i = 0; i < rounds; i++) {
		describe(&state);
		read_along(address.sun_path);
	}
	/* Otherwise nothing was tested. */
	CHECK(opened > (uint64_t)rounds / 10 && given > (uint64_t)rounds / 10);

	/* Memory that somebody can take away, and memory that is shorter than it says, is not mapped. */
	loose = rings_fd;
	rings_fd = memfd_create("rings", MFD_CLOEXEC);
	CHECK(!ftruncate(rings_fd, RINGS * ELEMENT));
	describe(&state);
	CHECK(write(rings_fd, rings, RINGS * ELEMENT) == RINGS * ELEMENT);
	for (int i = 0; i < 8; i++)
		CHECK(!weigh_trace_open_at(address.sun_path, 0, 0));
	close(rings_fd);
	rings_fd = memory(RINGS * ELEMENT - 4096, F_SEAL_SHRINK);
	CHECK(write(rings_fd, rings, WEIGH_RING_LINE) == WEIGH_RING_LINE);
	for (int i = 0; i < 8; i++)
		CHECK(!weigh_trace_open_at(address.sun_path, 0, 0));
	close(loose);
	printf("%" PRIu64 " opened, %" PRIu64 " events\n", opened, given);
	return 0;
}
