/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Time of the VFS and of the socket layer, by the functions at their borders: each read and each send comes in once.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>

#define READS 37
#define SENDS 11

int main(void)
{
	weigh *w = measured();
	const struct weigh_account *account;
	int vfs = weigh_part(w, "vfs"), zeros = open("/dev/zero", O_RDONLY), ends[2];
	static char bytes[100000];
	uint64_t wanted;

	CHECK(vfs >= 0 && zeros >= 0);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	wanted = 1ULL << vfs | bit(WEIGH_SOCKET);
	CHECK(!weigh_begin(w, 1, wanted));
	for (int i = 0; i < READS; i++)
		SAME(read(zeros, bytes, sizeof(bytes)), sizeof(bytes));
	for (int i = 0; i < SENDS; i++)
		SAME(send(ends[0], bytes, 101, MSG_DONTWAIT), 101);
	weigh_end(w);
	account = weigh_read(w, 1);
	SAME(account->unmeasured & wanted, 0);
	SAME(account->parts[vfs].entries, READS);
	SAME(account->parts[WEIGH_SOCKET].entries, SENDS);
	SAME(account->socket.sent_bytes, SENDS * 101);
	CHECK(account->parts[vfs].time_ns > 0 && account->parts[WEIGH_SOCKET].time_ns > 0);
	CHECK(account->parts[vfs].time_ns + account->parts[WEIGH_SOCKET].time_ns <= account->time_ns);
	/* What nobody asks for is not seen. */
	CHECK(!weigh_begin(w, 2, 1ULL << vfs));
	SAME(send(ends[0], bytes, 101, MSG_DONTWAIT), 101);
	weigh_end(w);
	SAME(weigh_read(w, 2)->parts[WEIGH_SOCKET].entries, 0);
	return 0;
}
