/*
 * Many connections over TCP on the loopback device, all open at once.
 *
 * usage: senders COUNT
 *
 * Each connection sends 1,003 bytes and one more than the one before it; then each, while all are open, 7 more. Byte i
 * of what a call sends is 31 * i + 7.
 *
 * Truth: sender: the thread's number; written_bytes: what its calls returned; sent_bytes,
 * repeated_bytes: of all connections, as the kernel counts them (TCP_INFO).
 */
#include "common.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define FIRST 1003
#define MORE 7

static uint64_t written;

static void put(int to, size_t bytes)
{
	static unsigned char sent[1 << 16];
	for (size_t i = 0; i < bytes; i++)
		sent[i] = (unsigned char)(i * 31 + 7);
	if (send(to, sent, bytes, 0) != (ssize_t)bytes)
		die("send");
	written += bytes;
}

static void take(int from, size_t bytes)
{
	static char read_bytes[1 << 16];
	if (recv(from, read_bytes, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("recv");
}

int main(int argc, char **argv)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(place), info_length = sizeof(struct tcp_info);
	uint64_t count, sent = 0, repeated = 0;
	struct rlimit files;
	struct tcp_info info;
	int *ends, *others;

	if (argc != 2)
		die("usage: senders COUNT");
	count = number(argv[1], "COUNT");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	if (count > 20000 || files.rlim_max < 2 * count + 16 || setrlimit(RLIMIT_NOFILE, &files))
		die("so many open connections");
	ends = calloc(count, sizeof(*ends));
	others = calloc(count, sizeof(*others));
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (!ends || !others || listener < 0 || bind(listener, (void *)&place, length) ||
	    listen(listener, 16) || getsockname(listener, (void *)&place, &length))
		die("listen");
	for (uint64_t i = 0; i < count; i++) {
		ends[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (ends[i] < 0 || connect(ends[i], (void *)&place, length))
			die("connect");
		others[i] = accept(listener, NULL, NULL);
		if (others[i] < 0)
			die("accept");
		put(ends[i], FIRST + i);
		take(others[i], FIRST + i);
	}
	for (uint64_t i = 0; i < count; i++) {
		put(ends[i], MORE);
		take(others[i], MORE);
	}
	for (uint64_t i = 0; i < count; i++) {
		if (getsockopt(ends[i], IPPROTO_TCP, TCP_INFO, &info, &info_length))
			die("TCP_INFO");
		sent += info.tcpi_bytes_sent;
		repeated += info.tcpi_bytes_retrans;
		close(ends[i]);
		close(others[i]);
	}
	truth("sender", syscall(SYS_gettid));
	truth("written_bytes", written);
	truth("sent_bytes", sent);
	truth("repeated_bytes", repeated);
	truth_tell();
	return 0;
}
