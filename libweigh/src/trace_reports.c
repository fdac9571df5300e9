/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reports of a stream of `weigh trace`: what several events say together, a line of JSON each, while it runs. */
#include "trace.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOTS_FOLDER "/run/weigh"
#define USERS_FOLDER "XDG_RUNTIME_DIR"

/* Of a reader of events that has no rings: the connection, and room for an answer. */
struct weigh_reports {
	weigh_trace trace;
};

static weigh_reports *allocate(void)
{
	size_t bytes = sizeof(weigh_reports) + TEXT_BYTES;
	weigh_reports *r = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return 0;
	r->trace.text = (char *)(r + 1);
	r->trace.connection = -1;
	r->trace.mapped = bytes;
	return r;
}

/*
 * Takes a line that is there whole, without its end; what lies behind it stays for the next. `text` has `rest` bytes from
 * `rest_at` on that were not given out yet.
 */
static char *take_line(weigh_trace *t)
{
	char *begin = t->text + t->rest_at, *end = memchr(begin, '\n', t->rest);

	if (!end)
		return 0;
	*end = 0;
	t->rest -= (size_t)(end - begin) + 1;
	t->rest_at += (size_t)(end - begin) + 1;
	return begin;
}

/* Hears what is there. A line that is too long is of no stream of weigh's. */
static void hear(weigh_trace *t)
{
	ssize_t heard;

	memmove(t->text, t->text + t->rest_at, t->rest);
	t->rest_at = 0;
	if (t->rest + 1 >= TEXT_BYTES) {
		t->has_ended = true;
		return;
	}
	heard = recv(t->connection, t->text + t->rest, TEXT_BYTES - 1 - t->rest, MSG_DONTWAIT);
	if (heard > 0)
		t->rest += (size_t)heard;
	else if (!heard || (errno != EINTR && errno != EAGAIN))
		t->has_ended = true;
}

/* The report in a line; its object is cut out of the line. NULL: the line has none. */
static const char *report_of(weigh_trace *t, char *line)
{
	const char *report = weigh_json_member(line, "report");
	const char *end = report ? weigh_json_past(report) : 0;

	if (weigh_json_member(line, "ended"))
		t->has_ended = true;
	if (!end)
		return 0;
	line[end - line] = 0;
	return report;
}

static const char *next(weigh_trace *t, int timeout_ms)
{
	uint64_t until = clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;

	for (;;) {
		struct pollfd ready = { .fd = t->connection, .events = POLLIN };
		const char *report;
		char *line;
		int64_t left;

		while ((line = take_line(t))) {
			report = report_of(t, line);
			if (report)
				return report;
		}
		if (t->has_ended)
			return 0;
		left = (int64_t)(until - clock_now());
		if (!poll(&ready, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)(left / 1000000) + 1 : 0))
			return 0;
		hear(t);
	}
}

EXPORT const char *weigh_reports_next(weigh_reports *r, int timeout_ms)
{
	int kept = errno;
	const char *report = next(&r->trace, timeout_ms);

	errno = kept;
	return report;
}

EXPORT weigh_reports *weigh_reports_open_at(const char *path, uint64_t every_ms, enum weigh_reason *told)
{
	weigh_reports *r = allocate();
	enum weigh_reason reason = r ? weigh_trace_dial(&r->trace, path) : WEIGH_NO_MEMORY;
	char request[64];
	int kept = errno;

	snprintf(request, sizeof(request), "{\"reports\":{\"ms\":%llu}}", (unsigned long long)every_ms);
	if (!reason)
		reason = weigh_trace_ask(&r->trace, request, 0, 0);
	if (!reason && !weigh_json_member(r->trace.text, "done"))
		reason = weigh_json_member(r->trace.text, "refused") ? WEIGH_REFUSED : WEIGH_NOT_UNDERSTOOD;
	if (r && reason) {
		weigh_reports_close(r);
		r = 0;
	}
	if (told)
		*told = reason;
	errno = kept;
	return r;
}

EXPORT weigh_reports *weigh_reports_open(pid_t pid, uint64_t every_ms, enum weigh_reason *told)
{
	const char *runtime = getenv(USERS_FOLDER);
	enum weigh_reason reason;
	char path[108];
	weigh_reports *r;

	snprintf(path, sizeof(path), "%s/trace-%d.sock", ROOTS_FOLDER, (int)pid);
	r = weigh_reports_open_at(path, every_ms, &reason);
	if (!r && (reason == WEIGH_NO_STREAM || reason == WEIGH_NOT_PERMITTED) && runtime && *runtime &&
	    (size_t)snprintf(path, sizeof(path), "%s/weigh/trace-%d.sock", runtime, (int)pid) < sizeof(path))
		r = weigh_reports_open_at(path, every_ms, reason == WEIGH_NO_STREAM ? &reason : 0);
	if (told)
		*told = r ? WEIGH_MEASURED : reason;
	return r;
}

EXPORT enum weigh_reason weigh_reports_why(const weigh_reports *r)
{
	return r->trace.has_ended && !memchr(r->trace.text + r->trace.rest_at, '\n', r->trace.rest) ? WEIGH_GONE :
												      WEIGH_MEASURED;
}

EXPORT int weigh_reports_fd(const weigh_reports *r)
{
	return r->trace.connection;
}

EXPORT void weigh_reports_close(weigh_reports *r)
{
	int kept = errno;

	if (!r)
		return;
	if (r->trace.connection >= 0)
		close(r->trace.connection);
	munmap(r, r->trace.mapped);
	errno = kept;
}
