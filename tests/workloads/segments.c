/*
 * Connections over TCP on the loopback device, some of whose segments are lost on the way.
 *
 * usage: segments BYTES LOSS [SHARE]
 *
 * Two connections, each by a thread of its own that writes BYTES (the second 3/4 of it) in steps
 * of 7,001 bytes, and one thread that only reads. Of 1,000 segments LOSS are dropped by a filter
 * on the receiving socket, by chance; the sender has to send them again. With SHARE each
 * connection's second half is written by the other thread: two causes in one stream.
 *
 * Truth: first, second: the threads' numbers; first_bytes, second_bytes: what their calls returned;
 * sent_bytes, repeated_bytes: of both connections, as the kernel counts them (TCP_INFO).
 */
#include "common.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#define STEP 7001

static int ends[2], others[2];
static uint64_t amounts[2], written[2], read_bytes;
static pid_t threads[2];
static bool share;
static gate half, done;

/* Keeps a segment if a random number is not below the loss. */
static void lose(int socket, uint64_t loss)
{
	uint32_t bound = (uint64_t)UINT32_MAX * loss / 1000;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, bound, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };
	if (loss && setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		die("the filter that loses segments");
}

static void put(int to, uint64_t bytes, int who)
{
	static char zeros[STEP];
	while (bytes) {
		ssize_t sent = send(to, zeros, bytes < STEP ? bytes : STEP, 0);
		if (sent <= 0)
			die("send");
		bytes -= sent;
		written[who] += sent;
	}
}

static void *write_one(void *argument)
{
	int who = argument != NULL;
	uint64_t first = share ? amounts[who] / 2 : amounts[who];
	threads[who] = syscall(SYS_gettid);
	put(ends[who], first, who);
	if (share) {
		gate_add(&half);
		gate_wait(&half, 2);
		put(ends[!who], amounts[!who] - amounts[!who] / 2, who);
	}
	gate_add(&done);
	return NULL;
}

static void *read_all(void *argument)
{
	static char bytes[65536];
	uint64_t expected = amounts[0] + amounts[1];
	struct pollfd files[2] = { { others[0], POLLIN, 0 }, { others[1], POLLIN, 0 } };
	while (read_bytes < expected) {
		if (poll(files, 2, -1) < 0)
			die("poll");
		for (int i = 0; i < 2; i++)
			if (files[i].revents) {
				ssize_t got = read(others[i], bytes, sizeof(bytes));
				if (got <= 0)
					die("read");
				read_bytes += got;
			}
	}
	return argument;
}

static void connect_ends(int who, uint64_t loss)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(place);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ends[who] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || ends[who] < 0 || bind(listener, (void *)&place, length) || listen(listener, 1) ||
	    getsockname(listener, (void *)&place, &length) || connect(ends[who], (void *)&place, length))
		die("connecting");
	others[who] = accept(listener, NULL, NULL);
	if (others[who] < 0)
		die("accept");
	close(listener);
	lose(others[who], loss);
}

int main(int argc, char **argv)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);
	uint64_t sent = 0, repeated = 0;
	pthread_t writers[2], reader;

	if (argc < 3 || argc > 4)
		die("usage: segments BYTES LOSS [SHARE]");
	amounts[0] = number(argv[1], "BYTES");
	amounts[1] = amounts[0] / 4 * 3;
	share = argc == 4;
	for (int i = 0; i < 2; i++)
		connect_ends(i, number(argv[2], "LOSS"));
	pthread_create(&reader, NULL, read_all, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&writers[i], NULL, write_one, i ? writers : NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	pthread_join(reader, NULL);
	/* What was read has been sent for the last time, but for what the sender takes as lost. */
	sleep_us(300000);
	for (int i = 0; i < 2; i++) {
		if (getsockopt(ends[i], IPPROTO_TCP, TCP_INFO, &info, &length))
			die("TCP_INFO");
		sent += info.tcpi_bytes_sent;
		repeated += info.tcpi_bytes_retrans;
		shutdown(ends[i], SHUT_RDWR);
		close(ends[i]);
		close(others[i]);
	}
	truth("first", threads[0]);
	truth("second", threads[1]);
	truth("first_bytes", written[0]);
	truth("second_bytes", written[1]);
	truth("sent_bytes", sent);
	truth("repeated_bytes", repeated);
	truth_tell();
	return 0;
}
