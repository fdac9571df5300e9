/* datagrams COUNT BYTES ODD [drain]
 *
 * One thread sends COUNT datagrams of BYTES bytes over loopback (lo must be up), one call each; ODD
 * of them, evenly spread, have one byte more. They go to a socket that nobody reads, so that most are
 * dropped where they arrive, or, with drain, to a child that reads until it has not got any for a
 * second.
 *
 * Truth: datagrams, odd, sender_cpu_ns (CPU time of the sending thread, from the first send to the
 * last). */
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

static char buffer[65536];

static int receiver(struct sockaddr_in *address)
{
	socklen_t length = sizeof *address;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof *address) ||
	    getsockname(fd, (struct sockaddr *)address, &length))
		die("a socket on loopback");
	return fd;
}

static void drain(int fd)
{
	struct timeval second = { .tv_sec = 1 };

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second))
		die("a time limit on the socket");
	while (recv(fd, buffer, sizeof buffer, 0) >= 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 4 && !(argc == 5 && !strcmp(argv[4], "drain")))
		die("usage: datagrams COUNT BYTES ODD [drain]");
	uint64_t count = number(argv[1], "COUNT"), bytes = number(argv[2], "BYTES");
	uint64_t odd = number(argv[3], "ODD"), told = 0;
	struct sockaddr_in address;

	if (bytes + 1 > sizeof buffer || odd > count)
		die("too many bytes, or more odd ones than there are");
	int from = receiver(&address);
	pid_t child = argc == 5 ? fork() : 0;
	if (argc == 5 && child == 0)
		drain(from);
	int to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (child < 0 || to < 0 || connect(to, (struct sockaddr *)&address, sizeof address))
		die("a sender");
	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < count; i++) {
		/* Spread: after i+1 of them, odd*(i+1)/count are odd. */
		size_t more = odd * (i + 1) / count > told;
		told += more;
		if (send(to, buffer, bytes + more, 0) != (ssize_t)(bytes + more))
			die("sending");
	}
	uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	truth("datagrams", count);
	truth("odd", told);
	truth("sender_cpu_ns", took);
	truth_tell();
	return 0;
}
