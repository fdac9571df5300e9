/* net BYTES CONNECTIONS [tcp|udp|tcp6]
 *
 * A server and a client (its child) in one program, over loopback (lo must be up). tcp, tcp6: the
 * client makes CONNECTIONS connections, one after the other, and sends BYTES/CONNECTIONS over each
 * (the last one also the rest) by write, send and sendmsg in turn; the server answers each with 7
 * bytes. udp: the client sends BYTES from CONNECTIONS sockets in turn, in datagrams of 1,400 bytes
 * at most; the server answers every one with 7 bytes, and the client waits for the answer.
 *
 * Truth, both processes together: net_sent_bytes, net_received_bytes (payload, from return values),
 * datagrams (udp), tcp_connects, tcp_accepts, client_sent_bytes, server_sent_bytes,
 * processes_total. */
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { ANSWER = 7, DATAGRAM = 1400, CHUNK = 65536 };

static char buffer[CHUNK];

static union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} address;
static socklen_t address_length;

/* Bytes of connection (or datagrams of the whole) number i of n. */
static uint64_t share_of(uint64_t i, uint64_t n, uint64_t bytes)
{
	return i == n - 1 ? bytes - bytes / n * (n - 1) : bytes / n;
}

static int listening(bool udp, bool v6)
{
	address_length = v6 ? sizeof address.v6 : sizeof address.v4;
	if (v6)
		address.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	else
		address.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(address.any.sa_family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, &address.any, address_length) || (!udp && listen(fd, 16)) ||
	    getsockname(fd, &address.any, &address_length))
		die("listening on loopback");
	return fd;
}

static uint64_t send_all(int fd, uint64_t bytes)
{
	for (uint64_t left = bytes, turn = 0; left; turn++) {
		size_t part = left < CHUNK ? left : CHUNK;
		struct iovec v = { buffer, part };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
		ssize_t n = turn % 3 == 0 ? write(fd, buffer, part) :
			    turn % 3 == 1 ? send(fd, buffer, part, 0) : sendmsg(fd, &m, 0);
		if (n <= 0)
			die("sending");
		left -= n;
	}
	return bytes;
}

static uint64_t receive_all(int fd, uint64_t bytes)
{
	for (uint64_t left = bytes, turn = 0; left; turn++) {
		size_t part = left < CHUNK ? left : CHUNK;
		ssize_t n = turn % 2 ? read(fd, buffer, part) : recv(fd, buffer, part, 0);
		if (n <= 0)
			die("receiving");
		left -= n;
	}
	return bytes;
}

static void tcp_client(uint64_t bytes, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, &address.any, address_length))
			die("connecting");
		send_all(fd, share_of(i, n, bytes));
		receive_all(fd, ANSWER);
		close(fd);
	}
}

static void tcp_server(int listener, uint64_t bytes, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			die("accept");
		receive_all(fd, share_of(i, n, bytes));
		send_all(fd, ANSWER);
		close(fd);
	}
}

static void udp_client(uint64_t bytes, uint64_t n)
{
	int *sockets = calloc(n, sizeof *sockets);
	for (uint64_t i = 0; i < n; i++)
		if ((sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
			die("socket");
	for (uint64_t left = bytes, i = 0; left; i++) {
		size_t part = left < DATAGRAM ? left : DATAGRAM;
		if (sendto(sockets[i % n], buffer, part, 0, &address.any, address_length) != (ssize_t)part ||
		    recv(sockets[i % n], buffer, CHUNK, 0) != ANSWER)
			die("a datagram");
		left -= part;
	}
}

static void udp_server(int fd, uint64_t bytes)
{
	for (uint64_t left = bytes; left;) {
		union address from;
		socklen_t length = sizeof from;
		ssize_t n = recvfrom(fd, buffer, CHUNK, 0, &from.any, &length);
		if (n <= 0 || sendto(fd, buffer, ANSWER, 0, &from.any, length) != ANSWER)
			die("a datagram");
		left -= n;
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 3 ? argv[3] : "tcp";
	if (argc < 3 || argc > 4 || (strcmp(kind, "tcp") && strcmp(kind, "udp") && strcmp(kind, "tcp6")))
		die("usage: net BYTES CONNECTIONS [tcp|udp|tcp6]");
	uint64_t bytes = number(argv[1], "BYTES"), n = number(argv[2], "CONNECTIONS");
	if (n == 0)
		die("CONNECTIONS must be at least 1");
	bool udp = !strcmp(kind, "udp");
	int listener = listening(udp, !strcmp(kind, "tcp6"));
	pid_t client = fork();
	if (client < 0)
		die("fork");
	if (client == 0) {
		close(listener);
		if (udp)
			udp_client(bytes, n);
		else
			tcp_client(bytes, n);
		_exit(0);
	}
	if (udp)
		udp_server(listener, bytes);
	else
		tcp_server(listener, bytes, n);
	reap(client);

	uint64_t datagrams = (bytes + DATAGRAM - 1) / DATAGRAM;
	uint64_t answers = ANSWER * (udp ? datagrams : n);
	truth("net_sent_bytes", bytes + answers);
	truth("net_received_bytes", bytes + answers);
	truth("client_sent_bytes", bytes);
	truth("server_sent_bytes", answers);
	if (udp)
		truth("datagrams", 2 * datagrams);
	truth("tcp_connects", udp ? 0 : n);
	truth("tcp_accepts", udp ? 0 : n);
	truth("processes_total", 2);
	truth_tell();
	return 0;
}
