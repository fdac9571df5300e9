/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Where a profile lies, and how it comes to who reads it: in memory whose descriptor is sent to a listener or to the agent,
 * or in a file. A program with more rights than its user ignores all variables.
 */
#include "region.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define DIGITS 32
#define CONNECT_TRIES 20
#define FILE_SHARE 8
#define FILE_TRIES 10

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

/* As the variables were when the library was loaded. */
static char listener[2 * DIGITS + 2];
static char file[PATH_MAX];
/* Where the agent listens, if the profile is to go there. */
static char agent[sizeof(((struct sockaddr_un *)0)->sun_path)];
/* The connection, or the file's name, until the profile is ready. */
static int connection = -1;
static char made[PATH_MAX + 32];

static bool is_listener(const char *text)
{
	for (size_t i = 0; i < 2 * DIGITS + 1; i++) {
		bool is_digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');

		if (i == DIGITS ? text[i] != ':' : !is_digit)
			return false;
	}
	return !text[2 * DIGITS + 1];
}

/* The folder that is current now may not be later. */
static void keep_file(const char *path)
{
	size_t folder = 0;

	if (*path != '/') {
		if (!getcwd(file, sizeof(file)))
			return;
		folder = strlen(file);
		file[folder++] = '/';
	}
	if (folder + strlen(path) < sizeof(file))
		strcpy(file + folder, path);
	else
		*file = 0;
}

/* At a place whose name is too long for an address nobody can listen. */
static void keep_agent(void)
{
	const char *path = secure_getenv(WEIGH_AGENT_VARIABLE);

	path = path && *path ? path : WEIGH_AGENT_SOCKET;
	if (strlen(path) < sizeof(agent))
		strcpy(agent, path);
}

__attribute__((constructor(101))) static void read_variables(void)
{
	const char *text = secure_getenv(PROFILE_VARIABLE), *path = secure_getenv(PROFILE_FILE_VARIABLE);
	int before = errno;

	if (text && is_listener(text))
		memcpy(listener, text, sizeof(listener));
	else if (text && !strcmp(text, PROFILE_TO_AGENT))
		keep_agent();
	if (path && *path)
		keep_file(path);
	weigh_regions_active = *listener || *agent || *file;
	errno = before;
}

/* The limit's signal would end the program. */
static bool may_be_so_long(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= bytes;
}

static bool is_trusted(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (!peer.uid || peer.uid == geteuid());
}

static int connect_to(const struct sockaddr_un *address, socklen_t length)
{
	int socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (socket_ < 0)
		return -1;
	for (int i = 0; i < CONNECT_TRIES; i++) {
		if (!connect(socket_, (const struct sockaddr *)address, length))
			return socket_;
		/* Its queue is full: many programs begin at once. */
		if (errno != EAGAIN && errno != EINTR)
			break;
		usleep(1000);
	}
	close(socket_);
	return -1;
}

static int connect_listener(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t prefix = strlen(PROFILE_ADDRESS_PREFIX);

	memcpy(address.sun_path + 1, PROFILE_ADDRESS_PREFIX, prefix);
	memcpy(address.sun_path + 1 + prefix, listener, DIGITS);
	return connect_to(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix + DIGITS));
}

static int connect_agent(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, agent);
	return connect_to(&address, sizeof(address));
}

static int new_memory(uint64_t bytes)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int memory = (int)syscall(SYS_memfd_create, "weigh-profile", flags | MFD_NOEXEC_SEAL);

	if (memory < 0 && errno == EINVAL)
		memory = (int)syscall(SYS_memfd_create, "weigh-profile", flags);
	if (memory < 0)
		return -1;
	if (!ftruncate(memory, (off_t)bytes) && !fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return memory;
	close(memory);
	return -1;
}

static int memory_for_connection(uint64_t bytes, const char **why)
{
	int memory = may_be_so_long(bytes) ? new_memory(bytes) : -1;

	*why = "there is no memory for a profile, or RLIMIT_FSIZE is too low";
	if (memory < 0) {
		close(connection);
		connection = -1;
	}
	return memory;
}

static int open_memory(uint64_t bytes, const char **why)
{
	*why = "no listener is there";
	connection = *listener ? connect_listener() : -1;
	if (connection < 0)
		return -1;
	if (is_trusted(connection))
		return memory_for_connection(bytes, why);
	*why = "the listener is another user's";
	close(connection);
	connection = -1;
	return -1;
}

/* It is known by its place: a user's own, or root's. */
static int open_agent(uint64_t bytes, const char **why)
{
	*why = "no agent is there";
	connection = *agent ? connect_agent() : -1;
	return connection < 0 ? -1 : memory_for_connection(bytes, why);
}

static uint64_t hexadecimal(const char *text)
{
	uint64_t number = 0;

	for (int i = 0; i < 16; i++)
		number = number << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
	return number;
}

static bool send_hello(int memory)
{
	struct profile_hello hello = {
		.layout = PROFILE_LAYOUT,
		.pid = (uint64_t)getpid(),
	};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec part = { &hello, sizeof(hello) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	ssize_t sent;

	if (*listener) {
		hello.token[0] = hexadecimal(listener + DIGITS + 1);
		hello.token[1] = hexadecimal(listener + DIGITS + 17);
	}
	memcpy(CMSG_DATA(&control.header), &memory, sizeof(int));
	do {
		sent = sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent == sizeof(hello);
}

static bool give_sealed(int memory, int seals, bool is_ready, const char **why)
{
	bool is_given = is_ready && !fcntl(memory, F_ADD_SEALS, seals | F_SEAL_SEAL) && send_hello(memory);

	if (!is_given)
		*why = is_ready ? "the listener does not take the profile" : "there is no memory for a profile";
	close(memory);
	close(connection);
	connection = -1;
	return is_given;
}

static bool give_memory(int memory, bool is_ready, const char **why)
{
	return give_sealed(memory, 0, is_ready, why);
}

/* What was written stays there from now on: the agent never makes memory by reading. It cannot write. */
static bool give_agent(int memory, bool is_ready, const char **why)
{
	return give_sealed(memory, F_SEAL_FUTURE_WRITE, is_ready, why);
}

/* $WEIGH_PROFILE with the process's number in the place of %p, and behind it in later tries. */
static bool name_file(int try)
{
	const char *place = strstr(file, "%p");
	int before = place ? (int)(place - file) : (int)strlen(file), length;
	const char *behind = place ? place + 2 : "";
	char pid[16] = "", suffix[40] = "";

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (try == 1)
		snprintf(suffix, sizeof(suffix), ".%s", place ? "2" : pid);
	if (try > 1 && place)
		snprintf(suffix, sizeof(suffix), ".%d", try + 1);
	else if (try > 1)
		snprintf(suffix, sizeof(suffix), ".%s.%d", pid, try);
	length = snprintf(made, sizeof(made), "%.*s%s%s%s", before, file, place ? pid : "", behind, suffix);
	return length > 0 && (size_t)length < sizeof(made);
}

static int new_file(void)
{
	int descriptor = -1;

	for (int i = 0; i < FILE_TRIES && descriptor < 0; i++) {
		if (!name_file(i))
			return -1;
		descriptor = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (descriptor < 0 && errno != EEXIST)
			return -1;
	}
	return descriptor;
}

static int open_file(uint64_t bytes, const char **why)
{
	int descriptor;

	*why = "no file is named";
	if (!*file)
		return -1;
	*why = "the file's length is above RLIMIT_FSIZE";
	if (!may_be_so_long(bytes))
		return -1;
	*why = "the file cannot be made";
	descriptor = new_file();
	if (descriptor < 0)
		return -1;
	*why = "the file system has no room for the file";
	/* A page that finds no room later would end the program. */
	if (!posix_fallocate(descriptor, 0, (off_t)bytes))
		return descriptor;
	unlink(made);
	close(descriptor);
	return -1;
}

static bool give_file(int descriptor, bool is_ready, const char **why)
{
	if (!is_ready) {
		*why = "there is no memory for a profile";
		unlink(made);
	}
	close(descriptor);
	return is_ready;
}

static const struct transport transports[] = {
	{ .open = open_memory, .give = give_memory, .share = 1 },
	{ .open = open_agent, .give = give_agent, .share = 1 },
	{ .open = open_file, .give = give_file, .share = FILE_SHARE },
};

/* The first one for NULL; NULL behind the last. */
const struct transport *weigh_transport_next(const struct transport *after)
{
	const struct transport *next = after ? after + 1 : transports;

	return next < transports + sizeof(transports) / sizeof(*transports) ? next : 0;
}
