/* past raw|number|named PATH
 *
 * Sends MESSAGES messages of 1013 bytes over a pair of sockets and receives them, and splices 997 bytes of PATH into a
 * pipe: by an instruction of its own, by syscall(3), or by the C library's functions of those names.
 *
 * Truth: sent_bytes, received_bytes, spliced_bytes. */
#include "common.h"

#include <sys/socket.h>

enum { MESSAGES = 11, MESSAGE = 1013, SPLICED = 997 };

enum way { RAW, NUMBER, NAMED };

static char buffer[MESSAGE];

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#endif
}

static long sends(enum way way, int fd)
{
	switch (way) {
	case RAW:
		return raw(SYS_sendto, fd, (long)buffer, MESSAGE, 0, 0, 0);
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
		return raw(SYS_recvfrom, fd, (long)buffer, MESSAGE, 0, 0, 0);
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
		return raw(SYS_splice, from, 0, to, 0, SPLICED, 0);
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
