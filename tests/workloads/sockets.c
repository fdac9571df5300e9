/* sockets
 *
 * Sends and receives by sockets, and moves bytes by other things under the same numbers in between: a
 * socket's number becomes a file's, by close and inside of fclose, and a file's a socket's, by dup2 and
 * by a message.
 *
 * Truth: sent_bytes and received_bytes of what went by sockets, as the calls returned them, and how
 * many calls on sockets moved any: moving_calls; looking_calls were those that looked without taking. */
#include "common.h"

#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static char buffer[4096];
static uint64_t sent, received, calls, looks;

static void moves(uint64_t *side, ssize_t bytes, const char *what)
{
	if (bytes <= 0)
		die("%s", what);
	*side += bytes;
	calls++;
}

static void pair_of(int pair[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die("socketpair");
}

static void must_be(int fd, int expected)
{
	if (fd != expected)
		die("descriptor %d instead of %d", fd, expected);
}

static ssize_t two_parts(int fd)
{
	struct iovec parts[] = { { buffer, 5 }, { buffer, 6 } };

	return sendmsg(fd, &(struct msghdr){ .msg_iov = parts, .msg_iovlen = 2 }, 0);
}

static ssize_t in_a_message(int fd)
{
	struct iovec part = { buffer, 1000 };

	return recvmsg(fd, &(struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 }, 0);
}

union with_a_descriptor {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static ssize_t give(int fd, int given)
{
	union with_a_descriptor also = { .head = { CMSG_LEN(sizeof given), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec part = { buffer, 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &also, .msg_controllen = sizeof also };

	memcpy(CMSG_DATA(&also.head), &given, sizeof given);
	return sendmsg(fd, &m, 0);
}

static ssize_t take(int fd, int *taken)
{
	union with_a_descriptor also;
	struct iovec part = { buffer, 100 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &also, .msg_controllen = sizeof also };
	ssize_t bytes = recvmsg(fd, &m, 0);

	memcpy(taken, CMSG_DATA(&also.head), sizeof *taken);
	return bytes;
}

static void exchange(int a, int b)
{
	for (int i = 0; i < 7; i++) {
		moves(&sent, send(a, buffer, 101, 0), "send");
		moves(&sent, write(a, buffer, 13), "write");
		moves(&sent, two_parts(a), "sendmsg");
		if (recv(b, buffer, 30, MSG_PEEK) != 30)
			die("looking");
		looks++;
		moves(&received, recv(b, buffer, 64, 0), "recv");
		moves(&received, read(b, buffer, 32), "read");
		moves(&received, in_a_message(b), "recvmsg");
	}
}

static void datagram(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof to;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (void *)&to, sizeof to) || getsockname(fd, (void *)&to, &length))
		die("a datagram's socket");
	moves(&sent, sendto(fd, buffer, 211, 0, (void *)&to, length), "sendto");
	moves(&received, recvfrom(fd, buffer, 1000, 0, 0, 0), "recvfrom");
}

int main(void)
{
	int one[2], other[2], last[2], null, again, came, exe;
	FILE *stream;

	pair_of(one);
	exchange(one[0], one[1]);
	/* A socket's number becomes a file's. */
	close(one[0]);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	must_be(null, one[0]);
	if (write(null, buffer, 1009) != 1009)
		die("/dev/null");
	/* A stream closes a socket inside of the C library, and opens another file there. */
	pair_of(other);
	moves(&sent, write(other[0], buffer, 17), "write");
	stream = fdopen(other[0], "r+");
	if (!stream || fclose(stream))
		die("a stream");
	stream = fopen("/dev/null", "r+e");
	if (!stream)
		die("another stream");
	again = fileno(stream);
	must_be(again, other[0]);
	if (write(again, buffer, 2003) != 2003)
		die("/dev/null");
	/* A file's number becomes a socket's: by dup2, and by a message. */
	pair_of(last);
	must_be(dup2(last[0], again), again);
	moves(&sent, write(again, buffer, 19), "write");
	moves(&sent, give(last[0], last[1]), "sendmsg");
	close(null);
	moves(&received, take(last[1], &came), "recvmsg");
	must_be(came, null);
	moves(&sent, write(came, buffer, 23), "write");
	/* A file by a socket, and a datagram. */
	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	moves(&sent, sendfile(last[0], exe, 0, 3001), "sendfile");
	datagram();
	truth("sent_bytes", sent);
	truth("received_bytes", received);
	truth("moving_calls", calls);
	truth("looking_calls", looks);
	truth_tell();
	return 0;
}
