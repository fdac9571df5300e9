/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages to the agent, and its answers. The lock is held.
 *
 * The descriptor is the program's too: it may have closed it, and have another file there by now. So
 * it is used and closed only while it is what it was.
 */
#include "internal.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* A number that another open file does not have; 0 if there is none. */
uint64_t weigh_identity(int descriptor)
{
	struct stat about;

	if (descriptor < 0 || fstat(descriptor, &about))
		return 0;
	return ((uint64_t)about.st_dev << 32 ^ about.st_ino) | 1ULL << 63;
}

static bool has_socket(void)
{
	struct process *process = &weigh_process;

	return process->socket >= 0 && weigh_identity(process->socket) == process->socket_identity;
}

void weigh_hang_up(void)
{
	if (has_socket())
		close(weigh_process.socket);
	weigh_process.socket = -1;
}

bool weigh_hung_up(void)
{
	char byte;

	if (!has_socket())
		return true;
	/* What the agent would say unasked is that it drops the program. */
	return recv(weigh_process.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EINTR);
}

/* Takes those that came, as many as there is room for; others are closed. */
static void take_descriptors(struct msghdr *message, int *with, size_t room)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int descriptor;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return;
	for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= control->cmsg_len; i++) {
		memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
		if (i < room)
			with[i] = descriptor;
		else
			close(descriptor);
	}
}

static ssize_t receive(struct weigh_reply *reply, int *with, size_t room)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(WEIGH_MAX_DESCRIPTORS * sizeof(int))];
	} control = { 0 };
	struct iovec part = { reply, sizeof(*reply) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	bool reset = false;
	ssize_t length;

	for (;;) {
		length = recvmsg(weigh_process.socket, &message, MSG_CMSG_CLOEXEC);
		if (length >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
			break;
		/* An agent that turns the program away without having read is told first, its answer then. */
		reset = reset || errno == ECONNRESET;
	}
	if (length >= 0)
		take_descriptors(&message, with, room);
	return length;
}

/* Asks, and waits for the answer. With it come descriptors, or -1. */
enum weigh_reason weigh_talk_for(const struct weigh_request *request, struct weigh_reply *reply, int *with,
				 size_t room)
{
	ssize_t length;

	for (size_t i = 0; i < room; i++)
		with[i] = -1;
	if (!has_socket())
		return WEIGH_GONE;
	do {
		length = send(weigh_process.socket, request, sizeof(*request), MSG_NOSIGNAL);
	} while (length < 0 && errno == EINTR);
	/* A client that was turned away finds the reason there, though nothing listens any more. */
	length = receive(reply, with, room);
	if (length == sizeof(*reply) && reply->layout == WEIGH_LAYOUT && reply->reason == WEIGH_MEASURED)
		return WEIGH_MEASURED;
	for (size_t i = 0; i < room; i++) {
		if (with[i] >= 0)
			close(with[i]);
		with[i] = -1;
	}
	if (length <= 0) {
		/* An answer that comes after all must not be taken for that to the next message. */
		weigh_hang_up();
		atomic_store(&weigh_process.reason, WEIGH_GONE);
		return WEIGH_GONE;
	}
	if (length != sizeof(*reply) || reply->layout != WEIGH_LAYOUT)
		return WEIGH_OTHER_VERSION;
	return (enum weigh_reason)reply->reason;
}

/* The same with one descriptor, or none. */
enum weigh_reason weigh_talk(const struct weigh_request *request, struct weigh_reply *reply, int *with)
{
	return weigh_talk_for(request, reply, with, 1);
}

static int dial(const char path[108])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct process *process = &weigh_process;
	struct timeval patience = { .tv_sec = process->waits_long ? 30 : 2 };
	int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (descriptor < 0)
		return -1;
	memcpy(address.sun_path, path, sizeof(address.sun_path));
	/* The weigh that has started the program may have to load what it needs when the first one comes. */
	process->waits_long = false;
	setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(descriptor, (struct sockaddr *)&address, sizeof(address))) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

/* Writes the accounts as they stand into the agent's array. */
static bool carry_over(int array)
{
	union element *fresh = mmap(0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, array, 0);
	union element *page = weigh_process.page;

	if (fresh == MAP_FAILED)
		return false;
	for (uint32_t i = 0; i < MAX_ACCOUNTS; i++) {
		if (!page[FIRST_ACCOUNT + i].account.generation)
			continue;
		fresh[FIRST_ACCOUNT + i] = page[FIRST_ACCOUNT + i];
		/* Who would have told that it is done is gone. */
		fresh[FIRST_ACCOUNT + i].account.later.pending = 0;
	}
	weigh_carry_parts(fresh);
	fresh[0].head.refused = page[0].head.refused;
	munmap(fresh, PAGE_BYTES);
	return true;
}

/* Puts the agent's array where the page is. In a page without accounts each look would be a page fault. */
static bool adopt(int array)
{
	void *page = weigh_process.page;

	if (weigh_has_had_accounts() && !carry_over(array))
		return false;
	return mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, array, 0) == page;
}

/* Finds the agent, and gets a page of it. */
enum weigh_reason weigh_connect(void)
{
	struct process *process = &weigh_process;
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_ENTER,
		.value = atomic_load(&process->wants),
	};
	struct weigh_reply reply;
	enum weigh_reason reason;
	int array;

	process->socket = dial(process->path);
	if (process->socket < 0)
		return WEIGH_NO_SERVER;
	process->socket_identity = weigh_identity(process->socket);
	reason = weigh_talk(&request, &reply, &array);
	if (!reason && (array < 0 || !adopt(array)))
		reason = WEIGH_NO_MEMORY;
	if (array >= 0)
		close(array);
	if (reason) {
		weigh_hang_up();
		return reason;
	}
	process->follows_calls = reply.flags & WEIGH_FOLLOWS_CALLS;
	weigh_learn_parts(reply.flags & WEIGH_CONFIGURED);
	weigh_renew_limits();
	return WEIGH_MEASURED;
}
