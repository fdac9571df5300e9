/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads a stream of `weigh trace` until it ends, and says what it has seen and lost.
 *
 * usage: stream PID BYTES COUNT MILLISECONDS [FIELD [REQUEST [BUFFER]]]
 *
 * Says "ready"; in the end, a line: seen, lost, missing, the sum of the field in all events, and the number of times
 * that it was waked. REQUEST, if it is not empty, is asked first, and its answer is told.
 */
#include "check.h"
#include <poll.h>

int main(int count, char **words)
{
	struct weigh_trace_field field = { 0 };
	struct weigh_trace_wake wake;
	struct weigh_trace_lost lost;
	const struct weigh_event *event;
	uint64_t seen = 0, sum = 0, waked = 0;
	enum weigh_reason reason;
	char answer[4096], name[64];
	weigh_trace *t;

	CHECK(count >= 5);
	wake = (struct weigh_trace_wake){ strtoull(words[2], 0, 0), strtoull(words[3], 0, 0),
					  strtoull(words[4], 0, 0) };
	t = count > 7 ? weigh_trace_open_buffer(atoi(words[1]), words[7], &wake, &reason) :
			weigh_trace_open(atoi(words[1]), &wake, &reason);
	if (!t) {
		printf("%s\n", weigh_text(reason));
		return 2;
	}
	SAME(weigh_trace_why(t), WEIGH_MEASURED);
	CHECK(strstr(weigh_trace_description(t), "\"events\""));
	CHECK(weigh_trace_name(t, 0, name, sizeof(name)) > 4 && strchr(name, ':'));
	SAME(weigh_trace_name(t, 999, name, sizeof(name)), 0);
	SAME(weigh_trace_field(t, 0, "no such field", &field), WEIGH_NO_FIELD);
	if (count > 5)
		SAME(weigh_trace_field(t, 0, words[5], &field), WEIGH_MEASURED);
	SAME(weigh_trace_control(t, "{\"remove\":{\"id\":77}}", answer, sizeof(answer)), WEIGH_REFUSED);
	CHECK(strstr(answer, "no probe 77"));
	if (count > 6 && *words[6]) {
		SAME(weigh_trace_control(t, words[6], answer, sizeof(answer)), WEIGH_MEASURED);
		printf("%s\n", answer);
	}
	CHECK(!weigh_trace_next(t, 0) && weigh_trace_why(t) == WEIGH_MEASURED);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct pollfd ready = { .fd = weigh_trace_fd(t), .events = POLLIN };

		SAME(poll(&ready, 1, -1), 1);
		waked++;
		while ((event = weigh_trace_next(t, 0))) {
			uint64_t number = count > 5 && weigh_trace_has(event, &field) ?
						  weigh_trace_number(event, &field) :
						  0;

			if (weigh_trace_intact(t)) {
				CHECK(event->event < 8 && event->size >= sizeof(*event));
				seen++;
				sum += number;
			}
		}
		if (weigh_trace_why(t) == WEIGH_GONE)
			break;
	}
	weigh_trace_lost(t, WEIGH_EVERY_EVENT, &lost);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seen, lost.overrun, lost.missing,
	       sum, waked);
	weigh_trace_close(t);
	return 0;
}
