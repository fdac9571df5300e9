/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads a profile, for programs that test regions: from a file, or as the listener of one's own process or of a child. */
#ifndef PROFILE_H
#define PROFILE_H

#include "../src/profile_layout.h"
#include "check.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#define BARRIER_GLOBAL_EXPEDITED 2 /* of membarrier(2) */
#define NOTHING UINT64_MAX

struct profile {
	const uint64_t *words;
	uint64_t pid;
};

static inline uint64_t head(const struct profile *p, unsigned word)
{
	return __atomic_load_n(&p->words[word], __ATOMIC_ACQUIRE);
}

static inline uint64_t used(const struct profile *p, unsigned section)
{
	return head(p, PROFILE_AT_USED + section);
}

static inline const uint64_t *record(const struct profile *p, unsigned section, uint64_t number, uint64_t words)
{
	uint64_t first = head(p, PROFILE_AT_SECTIONS + 2 * section);
	uint64_t records = head(p, PROFILE_AT_SECTIONS + 2 * section + 1);

	return p->words + first + number % records * words;
}

static inline const uint64_t *node_at(const struct profile *p, uint64_t number)
{
	return record(p, PROFILE_NODES, number, NODE_LENGTH);
}

static inline struct profile map_profile(int descriptor)
{
	struct profile p = { 0 };
	struct stat about;
	void *words;

	CHECK(!fstat(descriptor, &about));
	words = mmap(0, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	CHECK(words != MAP_FAILED);
	close(descriptor);
	p.words = words;
	SAME(head(&p, PROFILE_AT_MAGIC), PROFILE_IS);
	SAME(head(&p, PROFILE_AT_LAYOUT), PROFILE_LAYOUT);
	SAME(head(&p, PROFILE_AT_BYTES), about.st_size);
	p.pid = head(&p, PROFILE_AT_PID);
	return p;
}

static inline struct profile open_profile(const char *path)
{
	int descriptor = open(path, O_RDWR | O_CLOEXEC);

	CHECK(descriptor >= 0);
	return map_profile(descriptor);
}

/* Listens, and has the environment say so, which libweigh reads when the program begins. */
static inline int start_listener(void)
{
	static const char address[] = "0123456789abcdef0123456789abcdef", token[] = "00000000000000070000000000000009";
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	char unique[33], variable[66];
	int length, listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(listener >= 0);
	memcpy(unique, address, sizeof(unique));
	sprintf(unique, "%016x%016lx", (unsigned)getpid(), (unsigned long)time(0));
	length = sprintf(name.sun_path + 1, "%s%s", PROFILE_ADDRESS_PREFIX, unique);
	CHECK(!bind(listener, (struct sockaddr *)&name,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)));
	CHECK(!listen(listener, 64));
	sprintf(variable, "%s:%s", unique, token);
	setenv(PROFILE_VARIABLE, variable, 1);
	return listener;
}

/* The next profile that was sent; false if there is none. */
static inline bool receive_profile(int listener, struct profile *p)
{
	struct profile_hello hello;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { &hello, sizeof(hello) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	int connection = accept4(listener, 0, 0, SOCK_CLOEXEC), memory, seals;

	if (connection < 0)
		return false;
	SAME(recvmsg(connection, &message, MSG_CMSG_CLOEXEC), sizeof(hello));
	SAME(hello.layout, PROFILE_LAYOUT);
	SAME(hello.token[0], 7);
	SAME(hello.token[1], 9);
	CHECK(CMSG_FIRSTHDR(&message));
	memcpy(&memory, CMSG_DATA(&control.header), sizeof(memory));
	seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	SAME(fcntl(memory, F_GET_SEALS) & seals, seals);
	*p = map_profile(memory);
	SAME(hello.pid, p->pid);
	/* Nothing more comes: the program keeps no connection. */
	SAME(recv(connection, &hello, sizeof(hello), 0), 0);
	close(connection);
	return true;
}

/* A program's own profile: its first begin sends it. The program runs itself again, with the variable. */
static inline int listener_of_this(char **arguments)
{
	const char *number = getenv("TEST_LISTENER");
	char text[16];
	int listener;

	if (number)
		return atoi(number);
	listener = start_listener();
	CHECK(!fcntl(listener, F_SETFD, 0));
	sprintf(text, "%d", listener);
	setenv("TEST_LISTENER", text, 1);
	execv("/proc/self/exe", arguments);
	exit(1);
}

static inline bool has_name(const struct profile *p, uint64_t name, const char *text)
{
	const uint64_t *n = record(p, PROFILE_NAMES, name, NAME_LENGTH);
	size_t bytes = strlen(text);

	return n[NAME_AT_BYTES] == bytes && !memcmp(record(p, PROFILE_TEXTS, n[NAME_AT_TEXT], 1), text, bytes);
}

/* A node below another by its name and kind; NOTHING if there is none. */
static inline uint64_t child_node(const struct profile *p, uint64_t parent, enum profile_kind kind, const char *name)
{
	for (uint64_t i = 0; i < used(p, PROFILE_NODES); i++) {
		const uint64_t *node = node_at(p, i);

		if (i != parent && node[NODE_AT_PARENT] == parent && node[NODE_AT_KIND] == kind &&
		    has_name(p, node[NODE_AT_NAME], name))
			return i;
	}
	return NOTHING;
}

/* The thread's record; the first of its number. */
static inline const uint64_t *thread_of(const struct profile *p, pid_t tid)
{
	for (uint64_t i = 0; i < used(p, PROFILE_THREADS); i++) {
		const uint64_t *thread = record(p, PROFILE_THREADS, i, THREAD_LENGTH);

		if (thread[THREAD_AT_TID] == (uint64_t)tid)
			return thread;
	}
	return 0;
}

static inline const uint64_t *this_thread(const struct profile *p)
{
	const uint64_t *thread = thread_of(p, (pid_t)syscall(SYS_gettid));

	CHECK(thread);
	return thread;
}

/* A path below the calling thread's root. */
static inline uint64_t region_at(const struct profile *p, const char *const *names)
{
	uint64_t node = this_thread(p)[THREAD_AT_ROOT];

	for (; *names && node != NOTHING; names++)
		node = child_node(p, node, PROFILE_REGION, *names);
	return node;
}
#define REGION(p, ...) region_at((p), (const char *const[]){ __VA_ARGS__, 0 })

/* A number of the newest version of a node that is older than an epoch. */
static inline const uint64_t *version_below(const uint64_t *node, uint64_t epoch)
{
	const uint64_t *found = 0;

	for (int i = 0; i < 2; i++) {
		const uint64_t *version = node + NODE_AT_VERSIONS + i * VERSION_LENGTH;

		if (version[VERSION_AT_EPOCH] && version[VERSION_AT_EPOCH] < epoch &&
		    (!found || version[VERSION_AT_EPOCH] > found[VERSION_AT_EPOCH]))
			found = version;
	}
	return found;
}

static inline uint64_t number_of(const struct profile *p, uint64_t node, unsigned word)
{
	const uint64_t *version;

	CHECK(node != NOTHING);
	version = version_below(node_at(p, node), UINT64_MAX);
	return version ? version[word] : 0;
}

static inline uint64_t calls_of(const struct profile *p, uint64_t node)
{
	return number_of(p, node, VERSION_AT_CALLS);
}

static inline uint64_t unbalanced_of(const struct profile *p, uint64_t node)
{
	CHECK(node != NOTHING);
	return node_at(p, node)[NODE_AT_UNBALANCED];
}

/* The account of a node, as the profile has it. */
static inline const struct weigh_account *account_of(const struct profile *p, uint64_t node)
{
	const uint64_t *found;

	CHECK(node != NOTHING && node_at(p, node)[NODE_AT_COSTS]);
	found = record(p, PROFILE_COSTS, node_at(p, node)[NODE_AT_COSTS] - 1, COSTS_LENGTH);
	SAME(found[COSTS_AT_NODE], node);
	return (const struct weigh_account *)(found + COSTS_AT_NUMBERS);
}

/* Over all nodes of a name. */
static inline uint64_t sum_of_name(const struct profile *p, const char *name, enum profile_kind kind, unsigned word)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < used(p, PROFILE_NODES); i++) {
		if (node_at(p, i)[NODE_AT_KIND] == kind && has_name(p, node_at(p, i)[NODE_AT_NAME], name))
			sum += number_of(p, i, word);
	}
	return sum;
}

/* Nanoseconds of so many ticks. The later pair has to be there. */
static inline double ns_of(const struct profile *p, uint64_t ticks)
{
	double passed = (double)(head(p, PROFILE_AT_LAST_TICKS) - head(p, PROFILE_AT_FIRST_TICKS));

	CHECK(passed > 0);
	return (double)ticks * (double)(head(p, PROFILE_AT_LAST_NS) - head(p, PROFILE_AT_FIRST_NS)) / passed;
}

/* A node as it stood at a publish; false if that is lost. */
static inline bool node_at_publish(const uint64_t *node, uint64_t epoch, uint64_t numbers[VERSION_LENGTH])
{
	const uint64_t *version;
	uint64_t before, after;

	do {
		before = __atomic_load_n(&node[NODE_AT_SEQUENCE], __ATOMIC_ACQUIRE);
		version = version_below(node, epoch);
		if (version)
			memcpy(numbers, version, VERSION_LENGTH * sizeof(*numbers));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = __atomic_load_n(&node[NODE_AT_SEQUENCE], __ATOMIC_RELAXED);
	} while (before & 1 || before != after);
	return version;
}

static inline uint64_t epoch_after_barrier(const struct profile *p)
{
	uint64_t epoch = head(p, PROFILE_AT_EPOCH);

	CHECK(!syscall(SYS_membarrier, BARRIER_GLOBAL_EXPEDITED, 0));
	return epoch;
}

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void spin(uint64_t ns)
{
	for (uint64_t begun = monotonic_ns(); monotonic_ns() - begun < ns;)
		;
}

#endif
