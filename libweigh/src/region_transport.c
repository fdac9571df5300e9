/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Where a profile lies, and how it comes to who reads it: in memory whose descriptor is sent to a listener, or in a file.
 * A program with more rights than its user ignores both variables.
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

/* As the variables were when the library was loaded. */
static char listener[2 * DIGITS + 2];
static char file[PATH_MAX];
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

__attribute__((constructor(101))) static void read_variables(void)
{
	const char *text = secure_getenv(PROFILE_VARIABLE), *path = secure_getenv(PROFILE_FILE_VARIABLE);
	int before = errno;

	if (text && is_listener(text))
		memcpy(listener, text, sizeof(listener));
	if (path && *path)
		keep_file(path);
	weigh_regions_active = *listener || *file;
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

static int connect_listener(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t prefix = strlen(PROFILE_ADDRESS_PREFIX);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix + DIGITS);
	int socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (socket_ < 0)
		return -1;
	memcpy(address.sun_path + 1, PROFILE_ADDRESS_PREFIX, prefix);
	memcpy(address.sun_path + 1 + prefix, listener, DIGITS);
	for (int i = 0; i < CONNECT_TRIES; i++) {
		if (!connect(socket_, (struct sockaddr *)&address, length))
			return socket_;
		/* Its queue is full: many programs begin at once. */
		if (errno != EAGAIN && errno != EINTR)
			break;
		usleep(1000);
	}
	close(socket_);
	return -1;
}

static int new_memory(uint64_t bytes)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int memory = (int)syscall(SYS_memfd_create, "weigh-profile", flags | MFD_NOEXEC_SEAL);

	if (memory < 0 && errno == EINVAL)
		memory = (int)syscall(SYS_memfd_create, "weigh-profile", flags);
	if (memory < 0)
		return -1;
	if (!ftruncate(memory, (off_t)bytes) && !fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return memory;
	close(memory);
	return -1;
}

static int open_memory(uint64_t bytes, const char **why)
{
	int memory = -1;

	*why = "no listener is there";
	connection = *listener ? connect_listener() : -1;
	if (connection < 0)
		return -1;
	*why = "the listener is another user's";
	if (is_trusted(connection)) {
		*why = "there is no memory for a profile, or RLIMIT_FSIZE is too low";
		memory = may_be_so_long(bytes) ? new_memory(bytes) : -1;
	}
	if (memory < 0) {
		close(connection);
		connection = -1;
	}
	return memory;
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
		.token = { hexadecimal(listener + DIGITS + 1), hexadecimal(listener + DIGITS + 17) },
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

	memcpy(CMSG_DATA(&control.header), &memory, sizeof(int));
	do {
		sent = sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent == sizeof(hello);
}

static bool give_memory(int memory, bool is_ready, const char **why)
{
	bool is_given = is_ready && send_hello(memory);

	if (!is_given)
		*why = is_ready ? "the listener does not take the profile" : "there is no memory for a profile";
	close(memory);
	close(connection);
	connection = -1;
	return is_given;
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
	{ .open = open_file, .give = give_file, .share = FILE_SHARE },
};

/* The first one for NULL; NULL behind the last. */
const struct transport *weigh_transport_next(const struct transport *after)
{
	const struct transport *next = after ? after + 1 : transports;

	return next < transports + sizeof(transports) / sizeof(*transports) ? next : 0;
}
