/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libweigh: what a program's own system calls cost in each part of the kernel, read while it runs.
 *
 *	weigh *w = weigh_open();
 *	weigh_begin(w, 17, WEIGH_ALL);
 *	fsync(file);
 *	weigh_end(w);
 *	const struct weigh_account *a = weigh_read(w, 17);
 *	printf("%llu ns at the device\n", (unsigned long long)a->block.device_ns);
 *
 * A token is any number; all that is measured under the same token is added up in one account, whose
 * numbers only grow until weigh_release(). Units are in the names: _ns, _bytes, else counts. What
 * each number is stands in weigh_account.h.
 *
 * The rights to measure are those of an agent of weigh (`weigh agent`, or the weigh that has started
 * the program), which is found at $WEIGH_SOCKET, else at /run/weigh/agent.sock. Where none answers,
 * every function works all the same: only calls, time_ns and token of an account are filled, and
 * each function returns the reason. An agent that comes (again) later is found by itself: it is looked
 * for after 0.1 s, then after twice as long each time, to 60 s.
 *
 * Marking costs two stores into shared memory and the clock (clock_gettime, no system call). Once
 * a second, weigh_begin() or weigh_next() makes one system call to see whether the agent is there. The
 * thread that finds a new agent takes all threads to it, and waits for its answers: an agent that hangs
 * holds it up for 2 s, and is given up.
 *
 * Thread-safe: a handle is its thread's own, all other state is the process's. Nothing is allocated
 * after weigh_open() but what weigh_peer() maps. Nothing is printed, nothing ends the program, and
 * errno stays as it was. Signal handlers must not use the library.
 *
 * After fork() the child has no open handle: old ones return WEIGH_FORKED until it calls weigh_open().
 * After exec() nothing is left.
 */
#ifndef WEIGH_H
#define WEIGH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <weigh_account.h>
#include <weigh_event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All parts of the kernel; of some of them: (1ULL << WEIGH_BLOCK) | (1ULL << WEIGH_SCHED). */
#define WEIGH_ALL ((1ULL << WEIGH_SUBSYSTEMS) - 1)

/*
 * Counters of the CPU come on request: WEIGH_ALL | 1ULL << WEIGH_CYCLES | 1ULL << WEIGH_INSTRUCTIONS, or
 * WEIGH_ALL | WEIGH_COUNTERS. An account has what the thread did on a CPU from weigh_begin() to weigh_end(), in
 * the program and in the kernel; of weigh_next(), where it is exact, in the call alone. They are in a group, and
 * to read it takes two system calls at each end, and what a counter of the CPU costs: in a virtual machine some
 * microseconds each. What is not in `touched`, or has 0 for `counted_ns`, was not counted. If
 * `counted_ns` is less than `counting_ns`, cycles * counting_ns / counted_ns is an estimate. A thread whose
 * counters were asked for has one descriptor more for each, until its handle is closed.
 */

/*
 * WEIGH_BY_PART beside them has allocations, and the counters that are asked for, told of each part of the kernel: see
 * weigh_read_parts(). It is not in WEIGH_ALL.
 */

/* A thread that is measured. */
typedef struct weigh weigh;

/* Another process's accounts. */
typedef struct weigh_peer weigh_peer;

/*
 * The handle of the calling thread; the same one if it has one already. Never NULL: weigh_why() says
 * whether it is measured. It takes two messages to the agent, three if that has a configuration (at most 2 s
 * each; 30 s for the first at $WEIGH_SOCKET, where the server may have to get ready first) the first time in a
 * process, one in each further thread (at most 2 s). The handle ends with its thread.
 */
weigh *weigh_open(void);

/* Gives a handle back, as often as it was opened. An open interval is ended by it. */
void weigh_close(weigh *w);

/* Why the thread is not measured, as text; NULL if it is. */
const char *weigh_why(const weigh *w);

/* A reason as text; never NULL. */
const char *weigh_text(enum weigh_reason reason);

/* A number that is another one wherever an account is laid out in another way. */
uint64_t weigh_layout(void);

/* The parts of the kernel, and counters, that the agent can see, as bits; 0 if there is none. */
uint64_t weigh_subsystems(const weigh *w);

/*
 * Says which parts of the kernel the program, all its threads, wants from now on. The agent attaches
 * those that nobody else wants already, before this returns; others it lets go of when nobody wants
 * them any more and nothing is under way in them.
 *
 * Without it the program is taken to want what its requests have wanted so far: the first request
 * that wants a part asks the agent for it, and waits until it is attached (some 20 ms for all). After
 * it nothing is asked for: what a request wants besides is noted in its account's `unmeasured`.
 */
enum weigh_reason weigh_want(weigh *w, uint64_t parts);

/* Why a part of the kernel, or a counter, is not measured now; 0 (WEIGH_MEASURED) if it is. */
enum weigh_reason weigh_why_part(const weigh *w, unsigned subsystem);

/*
 * The same as text, cut to `room`, with what the agent says of it: the configuration that leaves a part out, why a part
 * of a configuration cannot be seen. Returns how long it is; 0 if the part is measured.
 */
size_t weigh_why_text(const weigh *w, unsigned subsystem, char *text, size_t room);

/*
 * Parts that the agent's configuration defines (`weigh agent --config FILE`, or --config of the `weigh calls` that has
 * started the program) have numbers behind the built-in ones, and names:
 *
 *	int link = weigh_part(w, "link_layer"), bytes = weigh_own(w, link, "bytes");
 *	if (link >= 0 && bytes >= 0) {
 *		weigh_begin(w, 17, 1ULL << link);
 *		send(s, data, size, 0);
 *		weigh_end(w);
 *		a = weigh_read(w, 17);
 *		printf("%llu bytes in %llu ns\n", (unsigned long long)a->own[bytes],
 *		       (unsigned long long)a->parts[link].time_ns);
 *	}
 *
 * Names are known once such an agent has been found, and stay what they are for as long as the process lives: while
 * an agent with other parts in its configuration serves, the program's are in `unmeasured` (WEIGH_OTHER_PARTS).
 */

/* The number of a part by its name, built in or a configuration's; -1 if there is none of that name. */
int weigh_part(const weigh *w, const char *name);

/* A part's name; NULL if there is no such part. */
const char *weigh_part_name(const weigh *w, unsigned part);

/*
 * Where a number of a configuration's part is in `own` of an account, by the name that it has in the file; of what comes
 * later "later.NAME", the number of times, and "later.NAME_ns", NAME being the part's. -1 if there is none.
 */
int weigh_own(const weigh *w, int part, const char *name);

/* A number of a configuration's part. */
struct weigh_own_number {
	uint32_t part;
	uint32_t is_ns; /* nanoseconds; else bytes, or things */
	const char *name;
};

/* Says what `own[number]` of an account is; 0 if it is nothing. */
int weigh_own_number(const weigh *w, unsigned number, struct weigh_own_number *told);

/*
 * Accounts for what the thread does until weigh_end(). `wanted` are the parts of the kernel that are
 * to be counted, as bits; sched and irq always are, for others' times depend on them. Returns 0
 * (WEIGH_MEASURED), or why it is not measured. WEIGH_NO_ACCOUNT: all WEIGH_ACCOUNTS tokens are in use,
 * the interval is not accounted at all, and weigh_refused() has counted it. WEIGH_BUSY: an interval
 * is open already, and stays. Where nobody measures, as without an agent, the interval is open all the
 * same, and gets calls and time_ns: so end it whatever this returns.
 */
enum weigh_reason weigh_begin(weigh *w, uint64_t token, uint64_t wanted);

/* Ends it: adds 1 to the account's calls, and the interval to its time_ns. */
enum weigh_reason weigh_end(weigh *w);

/*
 * Accounts for the next system call, or the next `calls` ones.
 *
 * Exact where the agent follows every call (`weigh agent --every-call`; weigh_follows() tells): what
 * comes before the call and after it is not in the account. Elsewhere an interval begins here that
 * ends at the next weigh_ function of the thread: all of it is accounted, and time_ns is its length.
 * Use weigh_begin() and weigh_end(), or WEIGH_CALL, close around the call to keep it short.
 */
enum weigh_reason weigh_next(weigh *w, uint64_t token, uint64_t wanted);
enum weigh_reason weigh_next_n(weigh *w, uint64_t token, uint64_t wanted, uint32_t calls);

/* Whether the ends of calls are known, which makes weigh_next() exact. */
int weigh_follows(const weigh *w);

/*
 * The account of a token: shared memory, which changes while you read it; no copy, no system call.
 * NULL if the token has none. `touched` has the bits of the parts that were seen, `unmeasured` those of
 * parts that were wanted while nobody measured them: what these have is too little, and 0 means nothing. A part
 * that was not wanted is in neither, and its 0 means nothing either.
 * It stays readable until the process ends, and is the token's own until weigh_release().
 */
const struct weigh_account *weigh_read(weigh *w, uint64_t token);

/*
 * What the code of each part of the kernel did itself, of an account whose intervals wanted WEIGH_BY_PART: allocations, with
 * the part WEIGH_MEMORY, and the counters that were asked for. NULL if it has none: 128 accounts of a process can have them at
 * once, others have WEIGH_BY_PART in `unmeasured`. Memory as that of weigh_read(), until weigh_release().
 *
 *	weigh_begin(w, 17, WEIGH_ALL | WEIGH_BY_PART);
 *	write(file, page, size);
 *	weigh_end(w);
 *	p = weigh_read_parts(w, 17);
 *	if (p)
 *		printf("%llu objects in the file system\n", (unsigned long long)p->of[WEIGH_FS].allocations);
 */
const struct weigh_parts *weigh_read_parts(weigh *w, uint64_t token);

/*
 * Gives the account back. What is still pending of it is not charged to anybody. No thread may have
 * an interval open on it.
 */
enum weigh_reason weigh_release(weigh *w, uint64_t token);

/* How many times a token found no account. */
uint64_t weigh_refused(const weigh *w);

/*
 * What comes after the calls, in `later`: whether all of it has come that is followed. 1: yes; 0: something is
 * pending; -1: that is not known, for nothing was measured: the token has no account, or all that was wanted under it
 * was wanted while nobody measured it, as without an agent. A few loads, no system call.
 *
 * Followed is what belongs to the parts that were wanted. What is written to files is written back later: who wrote
 * it is known with WEIGH_PAGECACHE, and what became of it at the device with WEIGH_BLOCK. With WEIGH_BLOCK alone
 * `later` has direct reads and writes, and nothing of the page cache is pending: 0 means nothing there.
 */
int weigh_settled(weigh *w, uint64_t token);

/*
 * Wants to be told when a token has settled. Where there is no agent it says why, and nothing will be told: do not
 * wait then. A token of which nothing was measured has nothing under way, so it is told at once; weigh_settled()
 * says -1 of it still. The agent looks each 20 ms at first, then after an eighth
 * of the time since the last new wish, at least each second: it is told so much late. This makes a
 * system call only if the agent does not look often already.
 */
enum weigh_reason weigh_watch(weigh *w, uint64_t token);

/*
 * A descriptor that is readable (poll, epoll) when watched tokens have settled; -1 if there is no
 * agent. It is the process's, and libweigh's to close. When the agent has been replaced it has the
 * same number, but epoll wants it added again.
 */
int weigh_descriptor(weigh *w);

/*
 * Calls `settled` for each watched token that has settled since the last time, and makes the
 * descriptor unreadable. Returns how many. Never waits.
 */
int weigh_dispatch(weigh *w,
		   void (*settled)(uint64_t token, const struct weigh_account *account, void *data),
		   void *data);

/*
 * A limit on a number of an account: when it has reached that value, weigh_descriptor() becomes readable, and
 * weigh_passed() tells of it, once.
 *
 *	weigh_limit(w, 17, WEIGH_NUMBER(block.written_bytes), 100 << 20);
 *	... poll(weigh_descriptor(w)) ...
 *	struct weigh_passed passed;
 *	while (weigh_passed(w, &passed, 1))
 *		throttle(passed.token);
 *
 * The agent compares each 20 ms at first, then more rarely, but at least each 100 ms: it is told so much late. The same
 * number of the same token has one limit, which takes the place of the one before; all together there are 32
 * (WEIGH_TOO_MANY_LIMITS). WEIGH_NO_TOKEN if nothing was accounted to the token yet; WEIGH_NO_NUMBER if an account has no
 * such number, or the value is 0. Without an agent it says why, and nothing will be told. An agent that takes the place of
 * another gets the limits when the program calls libweigh the next time. weigh_release() takes a token's limits back.
 */
#define WEIGH_NUMBER(name) offsetof(struct weigh_account, name)

enum weigh_reason weigh_limit(weigh *w, uint64_t token, size_t number, uint64_t value);

/* Takes a limit back. One that is passed already is not told any more. */
void weigh_unlimit(weigh *w, uint64_t token, size_t number);

/* A limit that was passed, and what the number was when that was told. */
struct weigh_passed {
	uint64_t token;
	size_t number;
	uint64_t value, reached;
};

/*
 * Tells of limits that are passed, as many as there is room for, and makes the descriptor unreadable. Returns how many;
 * call it until that is 0, and weigh_dispatch() as well if any account is watched. Never waits.
 */
int weigh_passed(weigh *w, struct weigh_passed *passed, int room);

/*
 * The accounts of another process, to be read only: of one whose links in /proc/PID/fd the reader may read (the
 * same user and group, or CAP_SYS_PTRACE). They are a copy that the agent renews every 20 ms. NULL, and `reason`
 * if it is not NULL, if that is not so, if that process does not use libweigh, or, WEIGH_TOO_MANY_PEERS, if this one
 * has 64 open. They
 * stay readable, as they were last, when the process or the agent has ended.
 */
weigh_peer *weigh_peer_open(weigh *w, pid_t pid, enum weigh_reason *reason);

/* The account of one of its tokens; NULL if it has none. */
const struct weigh_account *weigh_peer_read(const weigh_peer *peer, uint64_t token);

/* One account after the other: begin with *position = 0; NULL at the end. */
const struct weigh_account *weigh_peer_next(const weigh_peer *peer, uint32_t *position);

/* Unmaps them, and has the agent renew them no more. */
void weigh_peer_close(weigh_peer *peer);

/*
 * Streams of `weigh trace`: a reader of events that somebody else has the kernel tell, while they happen.
 *
 *	weigh_trace *t = weigh_trace_open(pid, 0, 0);
 *	struct weigh_trace_field length;
 *	weigh_trace_field(t, 0, "skb->len", &length);
 *	for (const struct weigh_event *e; (e = weigh_trace_next(t, -1));)
 *		printf("%llu\n", (unsigned long long)weigh_trace_number(e, &length));
 *
 * Each reader has its own position in the stream's rings, which it reads where they lie, without a copy and, while there
 * is something, without a system call. A reader that is too slow is overtaken: it loses events, no other does, and it
 * is told how many. Nothing is allocated after opening. A reader is one thread's at a time. None of this needs
 * an agent, nor any rights but those to ask the stream: its own user's, or root's.
 */
typedef struct weigh_trace weigh_trace;

/*
 * When the reader is waked: as soon as so many bytes or events have come, or so many milliseconds after something
 * has; 0: not by that. NULL: by 64 KiB, or after 100 ms. { .count = 1 }: for each event.
 */
struct weigh_trace_wake {
	uint64_t bytes, count, milliseconds;
};

/* Where a field lies in an event. */
struct weigh_trace_field {
	uint32_t offset, bytes;
	enum weigh_trace_kind kind;
	uint32_t absent; /* its bit in `absent` of an event that does not have it */
};

/* What a reader has not got since it was opened. */
struct weigh_trace_lost {
	uint64_t overrun; /* it was overtaken by the stream */
	uint64_t missing; /* nobody got it: the rings were full, or the kernel passed over the probe */
};

/* All events together. */
#define WEIGH_EVERY_EVENT UINT32_MAX

/*
 * Reads the stream of a `weigh trace`, by its process, or by the socket that it listens at (WEIGH_NO_STREAM if there
 * is none). NULL, and `reason` if it is not NULL, if that cannot be. Everything that comes from then on is seen.
 */
weigh_trace *weigh_trace_open(pid_t pid, const struct weigh_trace_wake *wake, enum weigh_reason *reason);
weigh_trace *weigh_trace_open_at(const char *path, const struct weigh_trace_wake *wake,
				 enum weigh_reason *reason);

/*
 * The same of one of its buffers (`weigh trace --into`), by the name that it has there; NULL: the first that there is.
 * WEIGH_NO_BUFFER if it has none of that name. When that buffer is removed, or its file cannot be written any
 * more, it has ended for this reader.
 */
weigh_trace *weigh_trace_open_buffer(pid_t pid, const char *buffer, const struct weigh_trace_wake *wake,
				     enum weigh_reason *reason);
weigh_trace *weigh_trace_open_buffer_at(const char *path, const char *buffer, const struct weigh_trace_wake *wake,
					enum weigh_reason *reason);

/*
 * The next event, the oldest of those that are there: of one CPU they come in order. It waits so many milliseconds;
 * -1: until there is one. NULL if there is none by then, or, weigh_trace_why() says WEIGH_GONE, if the stream has ended
 * and all of it was read. The event lies in the ring: it is good until the next call, or until the stream has
 * overtaken the reader, which weigh_trace_intact() says, asked when it has been read. One that was
 * overtaken counts as lost.
 */
const struct weigh_event *weigh_trace_next(weigh_trace *t, int timeout_ms);

/*
 * Copies the event that weigh_trace_next() gave, cut to `room`; returns how many bytes it has, or 0 if it has been
 * written over: then what was copied is no event, and is counted as lost.
 */
size_t weigh_trace_copy(weigh_trace *t, void *to, size_t room);

/* 1 as long as the event that weigh_trace_next() gave has not been written over; then it counts as seen. */
int weigh_trace_intact(weigh_trace *t);

/* WEIGH_MEASURED while the stream runs, WEIGH_GONE when it has ended. */
enum weigh_reason weigh_trace_why(const weigh_trace *t);

/*
 * Readable (poll, epoll) when the reader is waked, and when the stream has ended. weigh_trace_next() clears it. It is a
 * descriptor of epoll(7): the kernel sends no SIGIO for those, and F_SETFL with O_ASYNC changes nothing, without an
 * error. For a signal, have a thread poll it.
 */
int weigh_trace_fd(const weigh_trace *t);

/*
 * What was lost of an event, by its number, or of WEIGH_EVERY_EVENT, since it was opened. This asks the
 * stream. `missing` is what any of its buffers had no room for. The numbers are exact; while the stream overtakes the reader again and again they are those of the last
 * time that it did not.
 */
void weigh_trace_lost(weigh_trace *t, uint32_t event, struct weigh_trace_lost *lost);

/* A field of an event, by the name that the stream has for it; WEIGH_NO_FIELD if there is none. */
enum weigh_reason weigh_trace_field(const weigh_trace *t, uint32_t event, const char *name,
				    struct weigh_trace_field *field);

/* An event's name, cut to `room`; returns how long it is, 0 if there is no such event. */
size_t weigh_trace_name(const weigh_trace *t, uint32_t event, char *name, size_t room);

/* All events with their fields, as JSON. It changes when weigh_trace_next() meets an event that is new. */
const char *weigh_trace_description(const weigh_trace *t);

/*
 * Asks the stream what `weigh trace ctl` can ask, as a line of JSON: {"filter":{"id":0,"filter":"skb->len > 500"}}. Its
 * answer, cut to `room`, is JSON, too; WEIGH_REFUSED if that says why not. It waits for the answer.
 */
enum weigh_reason weigh_trace_control(weigh_trace *t, const char *request, char *answer, size_t room);

/* Takes leave of the stream, which goes on. Events must not be used after it. */
void weigh_trace_close(weigh_trace *t);

/*
 * What several events say together there (`weigh trace --latency … --rate … --top …`), as the stream finds it while it
 * runs: a JSON object of `weigh.synthesis/1` every so many milliseconds, 100 at least, and a last one when the stream
 * ends. Nobody waits for the reader: a report that finds the one before it not read is left out, and the next says in
 * `reports_missed_total` how many were. WEIGH_REFUSED: that stream was started without any of these options, or the time
 * is not one from 100 ms to an hour.
 */
typedef struct weigh_reports weigh_reports;

weigh_reports *weigh_reports_open(pid_t pid, uint64_t every_ms, enum weigh_reason *reason);
weigh_reports *weigh_reports_open_at(const char *path, uint64_t every_ms, enum weigh_reason *reason);

/*
 * The next report, which is good until the next call. It waits so many milliseconds; -1: until there is one. NULL if there
 * is none by then, or, weigh_reports_why() says WEIGH_GONE, if the stream has ended.
 */
const char *weigh_reports_next(weigh_reports *r, int timeout_ms);

/* WEIGH_MEASURED while the stream runs, WEIGH_GONE when it has ended and all was read. */
enum weigh_reason weigh_reports_why(const weigh_reports *r);

/* Readable (poll, epoll) when there may be a report. */
int weigh_reports_fd(const weigh_reports *r);

/* Takes leave of the stream, which goes on. */
void weigh_reports_close(weigh_reports *r);

/* Whether an event has a field: a pointer on the way may have been NULL. */
static inline int weigh_trace_has(const struct weigh_event *event, const struct weigh_trace_field *field)
{
	return !(event->absent & field->absent);
}

/* Where a field's value lies: a text of at most `bytes`, bytes, or addresses of a stack; it ends with the event's `size`. */
static inline const void *weigh_trace_value(const struct weigh_event *event,
					    const struct weigh_trace_field *field)
{
	return (const unsigned char *)event + field->offset;
}

/* A field that is a number; one that can be below 0 is to be taken for an int64_t. */
static inline uint64_t weigh_trace_number(const struct weigh_event *event, const struct weigh_trace_field *field)
{
	const unsigned char *bytes = (const unsigned char *)weigh_trace_value(event, field);
	uint32_t length = field->bytes < 8 ? field->bytes : 8;
	uint64_t number = 0;

	for (uint32_t i = length; i--;)
		number = number << 8 | bytes[i];
	if (field->kind == WEIGH_TRACE_SIGNED && length && length < 8 && number >> (8 * length - 1))
		number |= ~0ULL << 8 * length;
	return number;
}

/* An expression with a value, accounted: ssize_t n = WEIGH_CALL(w, 17, WEIGH_ALL, read(fd, b, s)); */
#ifdef __cplusplus
#define WEIGH_TYPE_OF_VALUE auto
#else
#define WEIGH_TYPE_OF_VALUE __auto_type
#endif
#define WEIGH_CALL(w, token, wanted, expression)                                                   \
	__extension__({                                                                            \
		weigh_begin((w), (token), (wanted));                                               \
		WEIGH_TYPE_OF_VALUE weigh_value_ = (expression);                                   \
		weigh_end((w));                                                                    \
		weigh_value_;                                                                      \
	})

#ifdef __cplusplus
}
#endif
#endif
