/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is asked of a stream of `weigh trace`, a line of JSON each, and what it answers. */
#include "trace.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum weigh_reason weigh_trace_dial(weigh_trace *t, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE };

	if (strlen(path) >= sizeof(address.sun_path))
		return WEIGH_NO_STREAM;
	strcpy(address.sun_path, path);
	t->connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (t->connection < 0)
		return WEIGH_NO_MEMORY;
	setsockopt(t->connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(t->connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(t->connection, (struct sockaddr *)&address, sizeof(address)))
		return WEIGH_MEASURED;
	close(t->connection);
	t->connection = -1;
	return errno == EACCES || errno == EPERM ? WEIGH_NOT_PERMITTED : WEIGH_NO_STREAM;
}

static bool say(int connection, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t said = send(connection, text, left, MSG_NOSIGNAL);

		if (said < 0 && errno == EINTR)
			continue;
		if (said <= 0)
			return false;
		text += said;
		left -= (size_t)said;
	}
	return true;
}

static void take_descriptors(struct msghdr *message, int *with, size_t room)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int descriptor;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return;
	for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= control->cmsg_len; i++) {
		memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
		if (i < room && with[i] < 0)
			with[i] = descriptor;
		else
			close(descriptor);
	}
}

/*
 * Whether a line ends from there on in so much text; its end becomes that of the text, and what is behind it is kept.
 */
static bool take_line(weigh_trace *t, size_t from, size_t length)
{
	char *end = memchr(t->text + from, '\n', length - from);

	if (!end)
		return false;
	*end = 0;
	t->rest_at = (size_t)(end - t->text) + 1;
	t->rest = length - t->rest_at;
	return true;
}

/*
 * A line, into `text`, without its end. Unasked the stream says that it has ended: that may be heard together with an
 * answer.
 */
static bool listen_to(weigh_trace *t, int *with, size_t room)
{
	size_t length = t->rest, from = 0;

	memmove(t->text, t->text + t->rest_at, t->rest);
	t->rest_at = t->rest = 0;
	while (length + 1 < TEXT_BYTES && !take_line(t, from, length)) {
		union {
			struct cmsghdr header;
			char bytes[CMSG_SPACE(4 * sizeof(int))];
		} control = { 0 };
		struct iovec part = { t->text + length, TEXT_BYTES - 1 - length };
		struct msghdr message = {
			.msg_iov = &part,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes),
		};
		ssize_t heard = recvmsg(t->connection, &message, MSG_CMSG_CLOEXEC);

		if (heard < 0 && errno == EINTR)
			continue;
		if (heard <= 0)
			return false;
		take_descriptors(&message, with, room);
		from = length;
		length += (size_t)heard;
	}
	/* A line has no NUL but its end. */
	return t->rest_at && strlen(t->text) + 1 == t->rest_at;
}

/* The stream has ended, and may have said where; if it has, that is there by now, perhaps behind an answer. */
void weigh_trace_end(weigh_trace *t)
{
	struct pollfd connection = { .fd = t->connection, .events = POLLIN };
	const char *ended = weigh_json_member(t->text, "ended");

	t->has_ended = true;
	for (int lines = 0; lines < 2 && !ended; lines++) {
		if ((!t->rest && poll(&connection, 1, 0) <= 0) || !listen_to(t, 0, 0))
			break;
		ended = weigh_json_member(t->text, "ended");
	}
	t->has_final = ended && weigh_trace_take_where(t, ended);
}

/* Asks, and has the answer in `text`. One who does not answer, or more than an answer, has gone. */
enum weigh_reason weigh_trace_ask(weigh_trace *t, const char *request, int *with, size_t room)
{
	for (size_t i = 0; i < room; i++)
		with[i] = -1;
	if (t->connection < 0 || t->has_ended)
		return WEIGH_GONE;
	if (say(t->connection, request) && say(t->connection, "\n") && listen_to(t, with, room) &&
	    !weigh_json_member(t->text, "ended"))
		return WEIGH_MEASURED;
	weigh_trace_end(t);
	return WEIGH_GONE;
}

static bool take_numbers(const char *array, uint64_t *numbers, uint64_t room)
{
	uint64_t count = 0;

	for (array = weigh_json_first(array); array; array = weigh_json_next(array)) {
		if (count >= room || !weigh_json_number(array, &numbers[count++]))
			return false;
	}
	return true;
}

bool weigh_trace_take_where(weigh_trace *t, const char *where)
{
	return take_numbers(weigh_json_member(where, "positions"), t->positions, t->ring_count) &&
	       take_numbers(weigh_json_member(where, "seen"), t->seen_now, MAX_EVENTS) &&
	       take_numbers(weigh_json_member(where, "lost"), t->missing_now, MAX_EVENTS);
}

/* Where the stream itself is. */
enum weigh_reason weigh_trace_where(weigh_trace *t)
{
	enum weigh_reason reason = weigh_trace_ask(t, "\"where\"", 0, 0);

	if (!reason && !weigh_trace_take_where(t, weigh_json_member(t->text, "where")))
		reason = WEIGH_NOT_UNDERSTOOD;
	return reason;
}

bool weigh_trace_take_description(weigh_trace *t, const char *description)
{
	const char *end = description ? weigh_json_past(description) : 0;
	const char *event;
	uint64_t id, bytes;

	if (!end || (size_t)(end - description) >= TEXT_BYTES)
		return false;
	memcpy(t->description, description, (size_t)(end - description));
	t->description[end - description] = 0;
	event = weigh_json_first(weigh_json_member(t->description, "events"));
	for (; event; event = weigh_json_next(event)) {
		if (!weigh_json_number(weigh_json_member(event, "id"), &id) || id >= MAX_EVENTS ||
		    !weigh_json_number(weigh_json_member(event, "record_bytes"), &bytes) ||
		    bytes < sizeof(struct weigh_event) || bytes > WEIGH_RING_MOST_RECORD)
			return false;
		t->sizes[id] = (uint32_t)bytes;
	}
	return true;
}

/* Which events there are now. */
bool weigh_trace_describe(weigh_trace *t)
{
	return !weigh_trace_ask(t, "\"describe\"", 0, 0) &&
	       weigh_trace_take_description(t, weigh_json_member(t->text, "description"));
}
