/* past raw|number|named PATH
 *
 * Sends MESSAGES messages of 1013 bytes over a pair of sockets and receives them, and splices 997 bytes of PATH into a
 * pipe: by an instruction of its own, by syscall(3), or by the C library's functions of those names.
 *
 * Truth: sent_bytes, received_bytes, spliced_bytes. */
#include "common.h"
#include "raw.h"

#include <sys/socket.h>

enum { MESSAGES = 11, MESSAGE = 1013, SPLICED = 997 };

enum way { RAW, NUMBER, NAMED };

static char buffer[MESSAGE];

static long sends(enum way way, int fd)
{
	switch (way) {
	case RAW:
		return raw6(SYS_sendto, fd, (long)buffer, MESSAGE, 0, 0, 0);
	case NUMBER:
		return syscall(SYS_sendto, fd, buffer, (long)MESSAGE, 0L, 0L, 0L);
	default:
		return send(fd, buffer, MESSAGE, 0);
	}
}

static long receives(enum way way, int fd)
{
	switch (way) {
	case RAW:
		return raw6(SYS_recvfrom, fd, (long)buffer, MESSAGE, 0, 0, 0);
	case NUMBER:
		return syscall(SYS_recvfrom, fd, buffer, (long)MESSAGE, 0L, 0L, 0L);
	default:
		return recv(fd, buffer, MESSAGE, 0);
	}
}

static long splices(enum way way, int from, int to)
{
	switch (way) {
	case RAW:
		return raw6(SYS_splice, from, 0, to, 0, SPLICED, 0);
	case NUMBER:
		return syscall(SYS_splice, from, 0L, to, 0L, (long)SPLICED, 0L);
	default:
		return splice(from, NULL, to, NULL, SPLICED, 0);
	}
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { "raw", "number", "named" };
	uint64_t sent = 0, received = 0;
	enum way way = RAW;
	int pair[2], ends[2];

	if (argc != 3)
		die("usage: past raw|number|named PATH");
	while (way <= NAMED && strcmp(argv[1], ways[way]))
		way++;
	int file = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (way > NAMED || file < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(ends))
		die("%s %s", argv[1], argv[2]);
	for (int i = 0; i < MESSAGES; i++) {
		sent += sends(way, pair[0]);
		received += receives(way, pair[1]);
	}
	truth("sent_bytes", sent);
	truth("received_bytes", received);
	truth("spliced_bytes", splices(way, file, ends[1]));
	truth_tell();
	return 0;
}
