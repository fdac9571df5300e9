/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that does its worst: random bytes all over its page while its threads call into the kernel,
 * random messages, connections that come and go.
 *
 * usage: hostile FOLDER SECONDS
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include "../src/page.h"

static union element *page;
static volatile int over;
static const char *folder;

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int agent = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strncpy(address.sun_path, getenv(WEIGH_AGENT_VARIABLE), sizeof(address.sun_path) - 1);
	CHECK(!connect(agent, (struct sockaddr *)&address, sizeof(address)));
	return agent;
}

static int ask(int agent, uint64_t kind, uint64_t number, uint64_t value, int *with)
{
	struct weigh_request request = { WEIGH_LAYOUT, kind, number, value };
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct weigh_reply reply;
	struct iovec part = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };

	CHECK(send(agent, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request));
	CHECK(recvmsg(agent, &message, 0) == sizeof(reply));
	if (with && CMSG_FIRSTHDR(&message))
		memcpy(with, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return (int)reply.reason;
}

static uint64_t dice(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *scribble(void *argument)
{
	uint64_t state = 88172645463325252ULL + (uintptr_t)argument;
	uint64_t *words = (uint64_t *)page;

	while (!over) {
		uint64_t value = dice(&state);

		/* Often something that looks like a request. */
		if (value % 3 == 0)
			value = 1 + value % 2048;
		words[dice(&state) % (sizeof(union element) * ELEMENTS / 8)] = value;
		page[FIRST_SLOT_ELEMENT].slots[dice(&state) % 4].request = value;
	}
	return 0;
}

static void *work(void *agent)
{
	static char bytes[20000];
	char path[4096];
	int file, ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	snprintf(path, sizeof(path), "%s/hostile-%d", folder, (int)syscall(SYS_gettid));
	file = open(path, O_RDWR | O_CREAT, 0600);
	for (uint64_t slot = 0; !over; slot = (slot + 1) % 4) {
		ask((int)(intptr_t)agent, WEIGH_ASK_JOIN, (uint64_t)syscall(SYS_gettid), slot, 0);
		for (int i = 0; i < 20; i++) {
			CHECK(write(ends[0], bytes, 4097) == 4097);
			CHECK(read(ends[1], bytes, 4097) == 4097);
			CHECK(pwrite(file, bytes, sizeof(bytes), 0) == sizeof(bytes));
		}
		fdatasync(file);
	}
	unlink(path);
	return 0;
}

static void *chatter(void *argument)
{
	uint64_t state = 7 + (uintptr_t)argument;
	char bytes[4096];

	while (!over) {
		int agent = dial();

		for (int i = 0; i < 50; i++) {
			size_t length = dice(&state) % 3 ? 32 : dice(&state) % sizeof(bytes);

			for (size_t at = 0; at < length; at++)
				bytes[at] = (char)dice(&state);
			if (dice(&state) % 2) {
				uint64_t numbers[4] = { WEIGH_LAYOUT, dice(&state) % 10,
							dice(&state) % 100000, dice(&state) % 5000 };

				memcpy(bytes, numbers, sizeof(numbers));
			}
			/* It takes no answers: the agent must not wait for that. */
			if (send(agent, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
		}
		close(agent);
	}
	return 0;
}

int main(int count, char **arguments)
{
	int agent = dial(), array = -1, told = -1, other;
	pthread_t threads[5];
	void *mapping;

	CHECK(count == 3);
	folder = arguments[1];
	SAME(ask(agent, WEIGH_ASK_ENTER, 0, 0, &array), WEIGH_MEASURED);
	mapping = mmap(0, sizeof(union element) * ELEMENTS, PROT_READ | PROT_WRITE, MAP_SHARED, array, 0);
	CHECK(mapping != MAP_FAILED);
	page = mapping;
	/* What the configuration has made of the parts is the agent's to say: nobody else writes it. */
	SAME(ask(agent, WEIGH_ASK_CONFIGURED, 0, 0, &told), WEIGH_MEASURED);
	CHECK(pwrite(told, "x", 1, 0) < 0 && ftruncate(told, 0) < 0);
	CHECK(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, told, 0) == MAP_FAILED);
	close(told);
	/* Threads of others are not to be had: that of init, and the agent's. */
	SAME(ask(agent, WEIGH_ASK_JOIN, 1, 0, 0), WEIGH_NO_THREAD);
	SAME(ask(agent, WEIGH_ASK_JOIN, (uint64_t)getppid(), 0, 0), WEIGH_NO_THREAD);
	SAME(ask(agent, WEIGH_ASK_JOIN, (uint64_t)getpid(), MAX_SLOTS, 0), WEIGH_NOT_UNDERSTOOD);
	/* A program without a page has no threads either. */
	other = dial();
	SAME(ask(other, WEIGH_ASK_JOIN, (uint64_t)getpid(), 0, 0), WEIGH_NOT_UNDERSTOOD);
	SAME(ask(other, WEIGH_ASK_CONFIGURED, 0, 0, 0), WEIGH_NOT_UNDERSTOOD);
	close(other);
	CHECK(!pthread_create(&threads[0], 0, scribble, (void *)1));
	CHECK(!pthread_create(&threads[1], 0, scribble, (void *)2));
	CHECK(!pthread_create(&threads[2], 0, work, (void *)(intptr_t)agent));
	CHECK(!pthread_create(&threads[3], 0, chatter, (void *)1));
	CHECK(!pthread_create(&threads[4], 0, chatter, (void *)2));
	sleep((unsigned)atoi(arguments[2]));
	over = 1;
	for (int i = 0; i < 5; i++)
		CHECK(!pthread_join(threads[i], 0));
	return 0;
}
