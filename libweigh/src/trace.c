/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A reader of a stream of `weigh trace` that somebody else runs: it is given the rings, to be read only, and is told
 * by a descriptor when there is something; the stream knows of it, and forgets it when it has gone.
 */
#include "trace.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOTS_FOLDER "/run/weigh"
#define USERS_FOLDER "XDG_RUNTIME_DIR"
enum { RINGS, EVENTFD, TOLD, DESCRIPTORS };

/* The largest of all is what nobody touches: pages that nothing is written to are none. */
static weigh_trace *allocate(void)
{
	size_t bytes = sizeof(weigh_trace) + 2 * TEXT_BYTES;
	weigh_trace *t = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		return 0;
	t->text = (char *)(t + 1);
	t->description = t->text + TEXT_BYTES;
	t->connection = t->eventfd = t->poll = -1;
	t->given = -1;
	t->mapped = bytes;
	return t;
}

/* A place and a position for each ring. */
static size_t bytes_of_places(const weigh_trace *t)
{
	return t->ring_count * (sizeof(*t->places) + sizeof(*t->positions));
}

static bool make_places(weigh_trace *t)
{
	void *both = mmap(0, bytes_of_places(t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (both == MAP_FAILED)
		return false;
	t->places = both;
	t->positions = (uint64_t *)(t->places + t->ring_count);
	return true;
}

static bool watch(int poll, int what, uint32_t events)
{
	struct epoll_event event = { .events = events };

	return !epoll_ctl(poll, EPOLL_CTL_ADD, what, &event);
}

static enum weigh_reason take_in(weigh_trace *t, int *with)
{
	const char *answer = weigh_json_member(t->text, "attached");
	const char *where = weigh_json_member(answer, "where");

	if (!answer)
		return weigh_json_member(t->text, "no_buffer") ? WEIGH_NO_BUFFER :
		       weigh_json_member(t->text, "refused")   ? WEIGH_NOT_PERMITTED :
								 WEIGH_NOT_UNDERSTOOD;
	if (with[RINGS] < 0 || with[EVENTFD] < 0 || with[TOLD] < 0 || !weigh_trace_map(t, with[RINGS]))
		return WEIGH_NOT_UNDERSTOOD;
	if (!make_places(t))
		return WEIGH_NO_MEMORY;
	if (!weigh_trace_take_description(t, weigh_json_member(answer, "description")) ||
	    !weigh_trace_take_where(t, where))
		return WEIGH_NOT_UNDERSTOOD;
	memcpy(t->seen_first, t->seen_now, sizeof(t->seen_now));
	memcpy(t->missing_first, t->missing_now, sizeof(t->missing_now));
	for (uint64_t ring = 0; ring < t->ring_count; ring++)
		t->places[ring].position = t->positions[ring];
	t->told = mmap(0, sizeof(*t->told), PROT_READ | PROT_WRITE, MAP_SHARED, with[TOLD], 0);
	if (t->told == MAP_FAILED)
		t->told = 0;
	t->eventfd = with[EVENTFD];
	with[EVENTFD] = -1;
	t->poll = epoll_create1(EPOLL_CLOEXEC);
	return t->poll >= 0 && watch(t->poll, t->eventfd, EPOLLIN) && watch(t->poll, t->connection, EPOLLRDHUP) ?
		       WEIGH_MEASURED :
		       WEIGH_NO_MEMORY;
}

/* Names of buffers are of letters, digits, '-' and '_': no other is one. */
static bool is_name(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

	return length && !name[length] && length < MAX_NAME;
}

static enum weigh_reason attach(weigh_trace *t, const char *buffer, const struct weigh_trace_wake *wake)
{
	static const struct weigh_trace_wake usual;
	int with[DESCRIPTORS];
	char request[192 + MAX_NAME], named[16 + MAX_NAME] = "";
	enum weigh_reason reason;

	if (buffer && !is_name(buffer))
		return WEIGH_NO_BUFFER;
	if (buffer)
		snprintf(named, sizeof(named), ",\"buffer\":\"%s\"", buffer);
	wake = wake ? wake : &usual;
	snprintf(request, sizeof(request), "{\"attach\":{\"bytes\":%llu,\"count\":%llu,\"ms\":%llu%s}}",
		 (unsigned long long)wake->bytes, (unsigned long long)wake->count,
		 (unsigned long long)wake->milliseconds, named);
	reason = weigh_trace_ask(t, request, with, DESCRIPTORS);
	if (!reason)
		reason = take_in(t, with);
	for (int i = 0; i < DESCRIPTORS; i++) {
		if (with[i] >= 0)
			close(with[i]);
	}
	return reason;
}

EXPORT weigh_trace *weigh_trace_open_buffer_at(const char *path, const char *buffer,
					       const struct weigh_trace_wake *wake, enum weigh_reason *told)
{
	weigh_trace *t = allocate();
	enum weigh_reason reason = t ? weigh_trace_dial(t, path) : WEIGH_NO_MEMORY;
	int kept = errno;

	if (!reason)
		reason = attach(t, buffer, wake);
	if (t && reason) {
		weigh_trace_close(t);
		t = 0;
	}
	if (told)
		*told = reason;
	errno = kept;
	return t;
}

EXPORT weigh_trace *weigh_trace_open_at(const char *path, const struct weigh_trace_wake *wake,
					enum weigh_reason *told)
{
	return weigh_trace_open_buffer_at(path, 0, wake, told);
}

EXPORT weigh_trace *weigh_trace_open_buffer(pid_t pid, const char *buffer, const struct weigh_trace_wake *wake,
					    enum weigh_reason *told)
{
	const char *runtime = getenv(USERS_FOLDER);
	enum weigh_reason reason;
	char path[108];
	weigh_trace *t;

	snprintf(path, sizeof(path), "%s/trace-%d.sock", ROOTS_FOLDER, (int)pid);
	t = weigh_trace_open_buffer_at(path, buffer, wake, &reason);
	if (!t && (reason == WEIGH_NO_STREAM || reason == WEIGH_NOT_PERMITTED) && runtime && *runtime &&
	    (size_t)snprintf(path, sizeof(path), "%s/weigh/trace-%d.sock", runtime, (int)pid) < sizeof(path))
		t = weigh_trace_open_buffer_at(path, buffer, wake, reason == WEIGH_NO_STREAM ? &reason : 0);
	if (told)
		*told = t ? WEIGH_MEASURED : reason;
	return t;
}

EXPORT weigh_trace *weigh_trace_open(pid_t pid, const struct weigh_trace_wake *wake, enum weigh_reason *told)
{
	return weigh_trace_open_buffer(pid, 0, wake, told);
}

static bool hung_up(const weigh_trace *t)
{
	struct pollfd connection = { .fd = t->connection, .events = POLLRDHUP };

	return poll(&connection, 1, 0) > 0;
}

/* What it is told by is not readable any more until there is something again. */
static void hear(const weigh_trace *t)
{
	uint64_t times;

	while (read(t->eventfd, &times, sizeof(times)) < 0 && errno == EINTR)
		;
}

EXPORT const struct weigh_event *weigh_trace_next(weigh_trace *t, int timeout_ms)
{
	uint64_t until = clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	const struct weigh_event *event;
	int kept = errno;

	weigh_trace_let_go(t);
	while (!(event = weigh_trace_take(t)) && !t->has_ended) {
		struct pollfd ready = { .fd = t->poll, .events = POLLIN };
		int64_t left = (int64_t)(until - clock_now());
		int wait = timeout_ms < 0 ? -1 : left > 0 ? (int)(left / 1000000) + 1 : 0;
		int found = poll(&ready, 1, wait);

		if (found > 0) {
			/* What came before it was told of is looked for once more. */
			hear(t);
			if (hung_up(t))
				weigh_trace_end(t);
		} else if (!found && timeout_ms >= 0) {
			break;
		}
	}
	errno = kept;
	return event;
}

EXPORT enum weigh_reason weigh_trace_why(const weigh_trace *t)
{
	return t->has_ended ? WEIGH_GONE : WEIGH_MEASURED;
}

EXPORT int weigh_trace_fd(const weigh_trace *t)
{
	return t->poll;
}

EXPORT void weigh_trace_lost(weigh_trace *t, uint32_t event, struct weigh_trace_lost *lost)
{
	int kept = errno;

	weigh_trace_account(t);
	lost->overrun = event == WEIGH_EVERY_EVENT ? t->unknown : 0;
	lost->missing = 0;
	for (uint32_t i = 0; i < MAX_EVENTS; i++) {
		if (event == WEIGH_EVERY_EVENT || event == i) {
			lost->overrun += t->lost[i];
			lost->missing += t->missing_now[i] - t->missing_first[i];
		}
	}
	errno = kept;
}

EXPORT const char *weigh_trace_description(const weigh_trace *t)
{
	return t->description;
}

/* An event's part of the description. */
static const char *event_of(const weigh_trace *t, uint32_t number)
{
	const char *event = weigh_json_first(weigh_json_member(t->description, "events"));
	uint64_t id;

	for (; event; event = weigh_json_next(event)) {
		if (weigh_json_number(weigh_json_member(event, "id"), &id) && id == number)
			return event;
	}
	return 0;
}

EXPORT size_t weigh_trace_name(const weigh_trace *t, uint32_t event, char *name, size_t room)
{
	return weigh_json_copy(weigh_json_member(event_of(t, event), "event"), name, room);
}

static bool take_field(const char *text, struct weigh_trace_field *field)
{
	static const char *const kinds[] = WEIGH_TRACE_KIND_NAMES;
	const char *kind = weigh_json_member(text, "kind");
	uint64_t offset, bytes, bit;
	size_t number = 0;

	while (number < sizeof(kinds) / sizeof(*kinds) && !weigh_json_is(kind, kinds[number]))
		number++;
	if (number == sizeof(kinds) / sizeof(*kinds) ||
	    !weigh_json_number(weigh_json_member(text, "offset"), &offset) ||
	    !weigh_json_number(weigh_json_member(text, "bytes"), &bytes) ||
	    !weigh_json_number(weigh_json_member(text, "bit"), &bit) || bit > 31)
		return false;
	*field = (struct weigh_trace_field){
		.offset = (uint32_t)offset,
		.bytes = (uint32_t)bytes,
		.kind = (enum weigh_trace_kind)number,
		.absent = 1U << bit,
	};
	return offset <= WEIGH_RING_MOST_RECORD && bytes <= WEIGH_RING_MOST_RECORD;
}

EXPORT enum weigh_reason weigh_trace_field(const weigh_trace *t, uint32_t event, const char *name,
					   struct weigh_trace_field *field)
{
	const char *text = weigh_json_first(weigh_json_member(event_of(t, event), "fields"));

	for (; text; text = weigh_json_next(text)) {
		if (!weigh_json_is(weigh_json_member(text, "name"), name))
			continue;
		if (!take_field(text, field) || field->offset + field->bytes > t->sizes[event])
			return WEIGH_NOT_UNDERSTOOD;
		return WEIGH_MEASURED;
	}
	return WEIGH_NO_FIELD;
}

EXPORT enum weigh_reason weigh_trace_control(weigh_trace *t, const char *request, char *answer, size_t room)
{
	int kept = errno;
	enum weigh_reason reason = strchr(request, '\n') ? WEIGH_NOT_UNDERSTOOD : weigh_trace_ask(t, request, 0, 0);

	if (room)
		snprintf(answer, room, "%s", reason ? "" : t->text);
	if (!reason && weigh_json_member(t->text, "refused"))
		reason = WEIGH_REFUSED;
	errno = kept;
	return reason;
}

EXPORT void weigh_trace_close(weigh_trace *t)
{
	int kept = errno, all[] = { t->connection, t->eventfd, t->poll };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i] >= 0)
			close(all[i]);
	}
	if (t->rings)
		munmap((void *)t->rings, t->bytes);
	if (t->told)
		munmap(t->told, sizeof(*t->told));
	if (t->places)
		munmap(t->places, bytes_of_places(t));
	munmap(t, t->mapped);
	errno = kept;
}
