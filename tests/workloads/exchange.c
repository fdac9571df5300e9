/*
 * A connection over TCP on the loopback device whose ends both send: what comes while a thread has the socket to send
 * is taken in by the thread itself, and no softirq's.
 *
 * usage: exchange STEPS
 *
 * One thread sends STEPS times 100,003 bytes; another one reads, and answers with 3,001 bytes after each 4 MiB.
 *
 * Truth: sent_bytes, answered_bytes.
 */
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#define STEP 100003
#define ANSWER 3001

static int ends[2];
static uint64_t answered;

static void put(int to, size_t bytes)
{
	static char zeros[STEP];
	if (send(to, zeros, bytes, 0) != (ssize_t)bytes)
		die("send");
}

static void *answer(void *unused)
{
	static char data[1 << 16];
	uint64_t all = 0, next = 1 << 22;
	ssize_t got;

	(void)unused;
	while ((got = recv(ends[1], data, sizeof(data), 0)) > 0) {
		all += got;
		if (all < next)
			continue;
		put(ends[1], ANSWER);
		answered += ANSWER;
		next += 1 << 22;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(place);
	static char data[1 << 16];
	pthread_t other;
	uint64_t steps;

	if (argc != 2)
		die("usage: exchange STEPS");
	steps = number(argv[1], "STEPS");
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (void *)&place, length) || listen(listener, 1) ||
	    getsockname(listener, (void *)&place, &length))
		die("listen");
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ends[0], (void *)&place, length) || (ends[1] = accept(listener, NULL, NULL)) < 0)
		die("connect");
	if (pthread_create(&other, NULL, answer, NULL))
		die("pthread_create");
	for (uint64_t i = 0; i < steps; i++) {
		put(ends[0], STEP);
		recv(ends[0], data, sizeof(data), MSG_DONTWAIT);
	}
	shutdown(ends[0], SHUT_WR);
	pthread_join(other, NULL);
	truth("sent_bytes", steps * STEP);
	truth("answered_bytes", answered);
	truth_tell();
	return 0;
}
