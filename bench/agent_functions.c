/* agent_functions ROUNDS CALLS
 *
 * What `weigh agent --functions vfs,socket` costs a process that has nothing to do with it: in each round a child, which
 * no one follows, does CALLS reads of a byte (pread) and CALLS datagrams of a byte to itself, while nobody wants the parts
 * and while this program wants them. Prints a line for each round: nanoseconds of CPU time for a read and a datagram,
 * without and with; and the reason where the parts are not to be had. The agent has to run.
 *
 *	cc -O2 -Ilibweigh bench/agent_functions.c libweigh/build/libweigh.a -pthread -o agent_functions */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <weigh.h>

/* The agent lets go of a part when nobody has wanted it for 2 to 4 seconds. */
#define LET_GO_SECONDS 8

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static int own_socket(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof own;
	int made = socket(AF_INET, SOCK_DGRAM, 0);

	if (made < 0 || bind(made, (void *)&own, length) || getsockname(made, (void *)&own, &length) ||
	    connect(made, (void *)&own, length))
		die("a socket");
	return made;
}

/* Does its calls each time it is asked, and says what they took. */
static void serve(int asked, int answer, long calls)
{
	int file = open("/proc/self/exe", O_RDONLY), datagrams = own_socket();
	char byte;

	while (read(asked, &byte, 1) == 1) {
		double began = cpu_ns(), took[2];

		for (long i = 0; i < calls; i++)
			if (pread(file, &byte, 1, 0) != 1)
				die("pread");
		took[0] = (cpu_ns() - began) / calls;
		began = cpu_ns();
		for (long i = 0; i < calls; i++)
			if (send(datagrams, &byte, 1, 0) != 1 || recv(datagrams, &byte, 1, 0) != 1)
				die("send");
		took[1] = (cpu_ns() - began) / calls;
		if (write(answer, took, sizeof took) != sizeof took)
			die("write");
	}
	_exit(0);
}

static void ask(int asked, int answer, double took[2])
{
	if (write(asked, "x", 1) != 1 || read(answer, took, 2 * sizeof *took) != 2 * sizeof *took)
		die("the child");
}

int main(int count, char **arguments)
{
	int asked[2], answer[2];

	if (count != 3)
		return fprintf(stderr, "usage: agent_functions ROUNDS CALLS\n"), 2;
	if (pipe(asked) || pipe(answer))
		die("pipe");
	if (!fork()) {
		close(asked[1]);
		serve(asked[0], answer[1], atol(arguments[2]));
	}
	weigh *w = weigh_open();
	if (!w)
		die("weigh_open");
	double without[2], with[2];

	ask(asked[1], answer[0], without);
	for (int round = 0; round < atoi(arguments[1]); round++) {
		weigh_want(w, 0);
		sleep(LET_GO_SECONDS);
		ask(asked[1], answer[0], without);
		/* Names of parts are known once an agent has answered. */
		int vfs = weigh_part(w, "vfs"), sockets = weigh_part(w, "socket");
		if (vfs < 0 || sockets < 0)
			return fprintf(stderr, "the agent was started without --functions vfs,socket, or does not run\n"), 1;
		enum weigh_reason reason = weigh_want(w, 1ULL << vfs | 1ULL << sockets);
		if (reason)
			return fprintf(stderr, "vfs and socket: %s\n", weigh_text(reason)), 1;
		sleep(1);
		ask(asked[1], answer[0], with);
		printf("pread %.0f %.0f send+recv %.0f %.0f\n", without[0], with[0], without[1], with[1]);
		fflush(stdout);
	}
	return 0;
}
