/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests to programs under `weigh run`, as `weigh control` sends them.
 *
 * Reads the abstract addresses in /proc/net/unix; speaks with runs of this user or of root, as root with all. What a run
 * answers is held to its bounds.
 */
#include "internal.h"
#include "trace.h"
#include "../weigh_region.h"
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS "/proc/net/unix"
#define PREFIX "weigh-control-"
#define MESSAGE_BYTES (64 << 10)
#define MOST_TARGET PATH_MAX
/* Seconds that a run has to answer, which may be stopped; nanoseconds between two questions. */
#define RUN_PATIENCE 5
#define PACE_NS 10000000

/* JSON that is written; what has no room makes it too long. */
struct text {
	char *bytes;
	size_t length, room;
};

static void put(struct text *text, const char *bytes, size_t length)
{
	if (text->length + length < text->room)
		memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
}

static void put_text(struct text *text, const char *bytes)
{
	put(text, bytes, strlen(bytes));
}

static void put_string(struct text *text, const char *bytes, size_t room)
{
	char escape[8];

	put_text(text, "\"");
	for (size_t i = 0; i < room && bytes[i]; i++) {
		unsigned char byte = (unsigned char)bytes[i];

		if (byte >= ' ' && byte != '"' && byte != '\\') {
			put(text, &bytes[i], 1);
			continue;
		}
		snprintf(escape, sizeof(escape), "\\u%04x", byte);
		put_text(text, escape);
	}
	put_text(text, "\"");
}

/* Digits are a PID, a path of something that is there is a directory, and all else is a job's name. */
static void put_target(struct text *text, const char *target)
{
	char path[MOST_TARGET];
	size_t digits = strspn(target, "0123456789");
	uint64_t pid;
	bool is_directory;

	if (digits && !target[digits] && weigh_json_number(target, &pid) && pid <= INT_MAX) {
		snprintf(path, sizeof(path), "{\"pid\":%llu}", (unsigned long long)pid);
		put_text(text, path);
		return;
	}
	is_directory = realpath(target, path);
	put_text(text, is_directory ? "{\"directory\":" : "{\"job\":");
	put_string(text, is_directory ? path : target, MOST_TARGET);
	put_text(text, "}");
}

static bool put_pattern(struct text *text, const char *kind, const struct weigh_control *request)
{
	put_text(text, kind);
	put_string(text, request->key, sizeof(request->key));
	put_text(text, "}}");
	return true;
}

static bool put_value(struct text *text, const struct weigh_control *request)
{
	put_text(text, "{\"set\":{\"key\":");
	put_string(text, request->key, sizeof(request->key));
	put_text(text, ",\"value\":");
	put_string(text, request->text, sizeof(request->text));
	put_text(text, "}}");
	return true;
}

/* A number as JSON has it, whatever the program's locale: whole seconds, and nanoseconds. */
static bool put_rate(struct text *text, double seconds)
{
	char number[64];

	if (!(seconds >= 0 && seconds <= 1e9))
		return false;
	uint64_t whole = (uint64_t)seconds, rest = (uint64_t)((seconds - (double)whole) * 1e9);
	snprintf(number, sizeof(number), "{\"publish_every\":{\"seconds\":%llu.%09llu}}", (unsigned long long)whole,
		 (unsigned long long)rest);
	put_text(text, number);
	return true;
}

static bool put_request(struct text *text, const struct weigh_control *request)
{
	switch (request->kind) {
	case 1:
		return put_value(text, request);
	case 2:
		put_text(text, "\"publish\"");
		return true;
	case 3:
		return put_pattern(text, "{\"regions_on\":{\"pattern\":", request);
	case 4:
		return put_pattern(text, "{\"regions_off\":{\"pattern\":", request);
	case 5:
		return put_rate(text, request->number);
	default:
		return false;
	}
}

/* What a run is asked; without a request: how the programs stand. */
static bool put_ask(struct text *text, const char *target, const struct weigh_control *request)
{
	text->length = 0;
	put_text(text, "{\"target\":");
	put_target(text, target);
	put_text(text, ",\"requests\":[");
	if (request && !put_request(text, request))
		return false;
	put_text(text, "]}");
	return text->length < text->room;
}

static bool is_permitted(int connection)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return false;
	return !geteuid() || !peer.uid || peer.uid == geteuid();
}

/* A run that is asked; -1 if nobody is there, or another user. */
static int dial(const char *name, size_t length)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = RUN_PATIENCE };
	int connection;

	if (length >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path + 1, name, length);
	connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connection < 0)
		return -1;
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(connection, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) &&
	    is_permitted(connection))
		return connection;
	close(connection);
	return -1;
}

static bool ask(int connection, const struct text *question, char *answer)
{
	ssize_t length;

	do {
		length = send(connection, question->bytes, question->length, MSG_NOSIGNAL);
	} while (length < 0 && errno == EINTR);
	do {
		length = length < 0 ? -1 : recv(connection, answer, MESSAGE_BYTES - 1, 0);
	} while (length < 0 && errno == EINTR);
	answer[length > 0 ? length : 0] = 0;
	return length > 0;
}

/* How one process stands in an answer; NULL if it is not in it. */
static const char *process_of(const char *answer, uint64_t pid)
{
	const char *process = weigh_json_first(weigh_json_member(answer, "processes"));
	uint64_t found;

	for (; process; process = weigh_json_next(process)) {
		if (weigh_json_number(weigh_json_member(process, "pid"), &found) && found == pid)
			return process;
	}
	return 0;
}

static uint64_t number_of(const char *process, const char *name)
{
	uint64_t number = 0;

	weigh_json_number(weigh_json_member(process, name), &number);
	return number;
}

/* What became of what was sent, by the answer to it and a later one. */
static void judge(const char *sent, const char *now, struct weigh_sent *outcome)
{
	const char *process = weigh_json_first(weigh_json_member(sent, "processes")), *state, *refused;

	outcome->processes = outcome->taken = outcome->waiting = outcome->ended = outcome->refused = 0;
	for (; process; process = weigh_json_next(process), outcome->processes++) {
		refused = weigh_json_member(process, "refused");
		state = process_of(now, number_of(process, "pid"));
		if (refused) {
			weigh_json_copy(refused, outcome->why, sizeof(outcome->why));
			outcome->refused++;
		} else if (!state) {
			outcome->ended++;
		} else if (number_of(state, "taken") >= number_of(process, "sent")) {
			outcome->taken++;
		} else {
			outcome->waiting++;
		}
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Until all have taken it, or so much time has passed. */
static void await(int connection, const char *target, struct text *question, const char *sent, char *now, double seconds,
		  struct weigh_sent *outcome)
{
	uint64_t begun = now_ns(), patience = seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9) : 0;
	const struct timespec pace = { .tv_nsec = PACE_NS };

	judge(sent, sent, outcome);
	while (outcome->waiting && now_ns() - begun < patience) {
		nanosleep(&pace, 0);
		/* A run that has ended has read its programs to their end. */
		if (!put_ask(question, target, 0) || !ask(connection, question, now))
			*now = 0;
		judge(sent, now, outcome);
	}
}

static bool fail(struct weigh_sent *outcome, const char *why)
{
	snprintf(outcome->why, sizeof(outcome->why), "%s", why);
	return false;
}

/* Whether that run has the target, and has answered for its programs; else `why` may say more. */
static bool has_target(int connection, const struct text *question, char *answer, struct weigh_sent *outcome)
{
	if (!ask(connection, question, answer))
		return fail(outcome, "no `weigh run` that may be asked has that target; one did not answer: it is another user's, or stopped");
	if (weigh_json_member(answer, "refused"))
		weigh_json_copy(weigh_json_member(answer, "refused"), outcome->why, sizeof(outcome->why));
	return weigh_json_member(answer, "processes");
}

/* Asks the runs one after the other; the connection to that which has the target, or -1. */
static int find_run(const struct text *question, char *answer, struct weigh_sent *outcome)
{
	FILE *sockets = fopen(SOCKETS, "re");
	char line[512];
	int connection = -1;

	while (connection < 0 && sockets && fgets(line, sizeof(line), sockets)) {
		char *name = strstr(line, " @" PREFIX);

		if (!name)
			continue;
		connection = dial(name + 2, strcspn(name + 2, "\n"));
		if (connection < 0 || has_target(connection, question, answer, outcome))
			continue;
		close(connection);
		connection = -1;
	}
	if (sockets)
		fclose(sockets);
	return connection;
}

static bool send_to(const char *target, const struct weigh_control *request, double seconds, char *memory,
		    struct weigh_sent *outcome)
{
	char *sent = memory + MESSAGE_BYTES, *now = sent + MESSAGE_BYTES;
	struct text question = { .bytes = memory, .room = MESSAGE_BYTES };
	int connection;

	if (!put_ask(&question, target, request))
		return fail(outcome, "a request is 1 to 5, with a rate of 0 or more seconds");
	connection = find_run(&question, sent, outcome);
	if (connection < 0)
		return *outcome->why ? false : fail(outcome, "no `weigh run` that may be asked has that target");
	await(connection, target, &question, sent, now, seconds, outcome);
	close(connection);
	if (!outcome->processes)
		return fail(outcome, "no program of the job names regions now");
	return outcome->refused == 0;
}

EXPORT int weigh_control_send(const char *target, const struct weigh_control *request, double seconds,
			      struct weigh_sent *outcome)
{
	int kept = errno;
	char *memory = mmap(NULL, 3 * MESSAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has_memory = memory != MAP_FAILED, is_sent;

	*outcome = (struct weigh_sent){ 0 };
	is_sent = has_memory ? send_to(target, request, seconds, memory, outcome) : fail(outcome, "no memory");
	if (has_memory)
		munmap(memory, 3 * MESSAGE_BYTES);
	errno = kept;
	return is_sent ? 0 : -1;
}
