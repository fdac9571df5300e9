/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * States that an interval meets: the thread is moved from CPU to CPU, and a connection is as the kernel says right before the
 * last send of one.
 */
#include "check.h"
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#define MOVES 20
#define SENDS 5
/* Acknowledgements are delayed by 40 ms at least. */
#define STEADY_NS 30000000
#define TRIES 100

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
}

static void moves(weigh *w)
{
	int cpus[2] = { 0 }, found = 0;
	cpu_set_t may;

	CHECK(!sched_getaffinity(0, sizeof(may), &may));
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &may))
			cpus[found++] = cpu;
	pin(cpus[0]);
	CHECK(!weigh_begin(w, 1, 1ULL << WEIGH_SCHED));
	for (int i = 0; i < MOVES; i++)
		pin(cpus[(i + 1) % 2 % found]);
	weigh_end(w);
	SAME(weigh_read(w, 1)->sched.migrations, found > 1 ? MOVES : 0);
	CHECK(!sched_setaffinity(0, sizeof(may), &may));
}

static int connected(int *other)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(to);
	int one = 1, none = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(listener, (struct sockaddr *)&to, sizeof(to)) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&to, &length));
	CHECK(!connect(sender, (struct sockaddr *)&to, sizeof(to)));
	*other = accept(listener, 0, 0);
	CHECK(*other >= 0 && !setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	CHECK(!setsockopt(*other, IPPROTO_TCP, TCP_QUICKACK, &none, sizeof(none)));
	close(listener);
	return sender;
}

static void connection(weigh *w)
{
	const struct weigh_account *account;
	struct tcp_info info = { 0 };
	bool is_steady = false;
	socklen_t length;
	uint64_t began;

	for (int try = 0; try < TRIES && !is_steady; try++) {
		int other, sender = connected(&other);

		CHECK(!weigh_begin(w, 2, 1ULL << WEIGH_TCP));
		began = now_ns();
		for (int i = 0; i < SENDS; i++) {
			length = sizeof(info);
			CHECK(!getsockopt(sender, IPPROTO_TCP, TCP_INFO, &info, &length));
			SAME(send(sender, "x", 1, 0), 1);
		}
		is_steady = now_ns() - began < STEADY_NS && info.tcpi_unacked;
		weigh_end(w);
		close(sender);
		close(other);
	}
	CHECK(is_steady);
	account = weigh_read(w, 2);
	CHECK(account->tcp.observations > 0 && !account->unmeasured);
	SAME(account->tcp.srtt_ns / 1000, info.tcpi_rtt);
	SAME(account->tcp.cwnd, info.tcpi_snd_cwnd);
	SAME(account->tcp.unacked, info.tcpi_unacked);
}

int main(void)
{
	weigh *w = measured();

	moves(w);
	connection(w);
	return 0;
}
