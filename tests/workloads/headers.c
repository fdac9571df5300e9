/* headers PORT COUNT4 COUNT6
 *
 * Packets with known headers over loopback (lo must be up). PORT and the port above it have receivers for IPv4
 * and IPv6, and each datagram is read before the next one is sent. IPv4 goes from 127.9.53.2 to 127.9.53.3,
 * by sockets that were given no port:
 *
 *   COUNT4 datagrams to PORT by a connected socket, COUNT4 + 2 to the port above by one that is not;
 *   COUNT6 and COUNT6 + 2 of IPv6, from ::1 to ::1;
 *   one of IPv6 to the port above that does not fit into a packet: two fragments;
 *   3 later fragments of IPv4 from 127.9.53.1, in which PORT lies where ports lie in a first one, and 5 packets of
 *   UDP that end behind two bytes, by a raw socket;
 *   one TCP connection to PORT, which is refused: a SYN and a RST.
 *
 * Truth: v4_first, v4_second, v6_first, v6_second: datagrams to PORT and to the port above. */
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#define BYTES 100
#define FRAGMENTED 65520
#define FRAGMENTS 3
#define SHORT 5

static char buffer[65536];

struct end {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t length;
};

static struct end end4(const char *address, uint16_t port)
{
	struct end end = { .v4 = { .sin_family = AF_INET, .sin_port = htons(port) }, .length = sizeof end.v4 };

	inet_pton(AF_INET, address, &end.v4.sin_addr);
	return end;
}

static struct end end6(uint16_t port)
{
	struct end end = { .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) }, .length = sizeof end.v6 };

	end.v6.sin6_addr = in6addr_loopback;
	return end;
}

static int open_socket(const struct end *end)
{
	int fd = socket(end->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &end->any, end->length))
		die("a socket on loopback");
	return fd;
}

/* COUNT datagrams to an end, each of which is read there. */
static void deliver(struct end from, struct end to, bool connected, uint64_t count, size_t bytes)
{
	struct timeval limit = { .tv_sec = 20 };
	int receiver = open_socket(&to), sender = open_socket(&from);

	if (setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
		die("a time limit on the socket");
	if (connected && connect(sender, &to.any, to.length))
		die("connect");
	for (uint64_t i = 0; i < count; i++) {
		ssize_t sent = connected ? send(sender, buffer, bytes, 0)
					 : sendto(sender, buffer, bytes, 0, &to.any, to.length);
		if (sent != (ssize_t)bytes || recv(receiver, buffer, sizeof buffer, 0) != sent)
			die("a datagram of %zu bytes", bytes);
	}
	close(receiver);
	close(sender);
}

/* Packets of UDP whose headers are made here: a fragment of the middle, or one that ends too early. */
static void craft(uint16_t port, size_t payload, uint16_t fragment, int count)
{
	struct end to = end4("127.9.53.3", 0);
	char packet[sizeof(struct iphdr) + 64] = "";
	struct iphdr *header = (struct iphdr *)packet;
	uint16_t *ports = (uint16_t *)(header + 1);
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd < 0)
		die("a raw socket");
	*header = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP };
	header->frag_off = htons(fragment);
	inet_pton(AF_INET, "127.9.53.1", &header->saddr);
	inet_pton(AF_INET, "127.9.53.3", &header->daddr);
	ports[0] = ports[1] = htons(port);
	for (int i = 0; i < count; i++) {
		header->id = htons(4242 + i);
		if (sendto(fd, packet, sizeof *header + payload, 0, &to.any, to.length) < 0)
			die("a packet with its own header");
	}
	close(fd);
}

static void refused(uint16_t port)
{
	struct end from = end4("127.9.53.2", 0), to = end4("127.9.53.3", port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &from.any, from.length))
		die("a socket of TCP");
	if (!connect(fd, &to.any, to.length) || errno != ECONNREFUSED)
		die("somebody listens at port %u", port);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: headers PORT COUNT4 COUNT6");
	uint64_t port = number(argv[1], "PORT"), four = number(argv[2], "COUNT4"), six = number(argv[3], "COUNT6");

	if (!port || port > 65534)
		die("no such port");
	craft(port, 64, 100, FRAGMENTS);
	craft(port, 2, 0, SHORT);
	deliver(end4("127.9.53.2", 0), end4("127.9.53.3", port), true, four, BYTES);
	deliver(end4("127.9.53.2", 0), end4("127.9.53.3", port + 1), false, four + 2, BYTES);
	deliver(end6(0), end6(port), true, six, BYTES);
	deliver(end6(0), end6(port + 1), false, six + 2, BYTES);
	deliver(end6(0), end6(port + 1), false, 1, FRAGMENTED);
	refused(port);
	truth("v4_first", four);
	truth("v4_second", four + 2);
	truth("v6_first", six);
	truth("v6_second", six + 3);
	truth_tell();
	return 0;
}
