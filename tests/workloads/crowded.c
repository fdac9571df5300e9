/*
 * Datagrams to a socket of its own that takes its time, over loopback.
 *
 * usage: crowded COUNT BYTES
 *
 * Sends one and reads it; then sends COUNT without reading, into a socket with the smallest buffer
 * there is; waits until none comes any more, and reads what has found room.
 *
 * Truth: sent, received: datagrams; sent_bytes, received_bytes.
 */
#include "common.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static char bytes[65536];

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t length = sizeof(to);
	int in, out, small = 1;
	uint64_t count, size, received = 0;
	struct pollfd comes;

	if (argc != 3)
		die("usage: crowded COUNT BYTES");
	count = number(argv[1], "COUNT");
	size = number(argv[2], "BYTES");
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in = socket(AF_INET, SOCK_DGRAM, 0);
	out = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(in, (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(in, (struct sockaddr *)&to, &length) ||
	    connect(out, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(in, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)))
		die("sockets");
	comes = (struct pollfd){ .fd = in, .events = POLLIN };
	if (send(out, bytes, size, 0) != (ssize_t)size || recv(in, bytes, size, 0) != (ssize_t)size)
		die("the first");
	for (uint64_t i = 0; i < count; i++)
		/* A queue that has no room says so. */
		if (send(out, bytes, size, 0) != (ssize_t)size && errno != ENOBUFS)
			die("send");
	for (int quiet = 0; !quiet;) {
		sleep_us(300000);
		quiet = 1;
		while (poll(&comes, 1, 0) == 1) {
			if (recv(in, bytes, size, 0) != (ssize_t)size)
				die("recv");
			received++;
			quiet = 0;
		}
	}
	truth("sent", count + 1);
	truth("sent_bytes", (count + 1) * size);
	truth("received", received + 1);
	truth("received_bytes", (received + 1) * size);
	truth_tell();
	return 0;
}
