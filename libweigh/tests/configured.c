/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Parts of the kernel by their names, as the agent's configuration has them; each line of the input is answered by one.
 *
 * usage: configured
 *
 *	part NAME		its number, or -1
 *	why NAME		weigh_why_part() and its text
 *	send NAMES N BYTES	an interval that wants these parts and sends N datagrams of so many bytes over loopback, under
 *				a new token (the one before is given back); what its account has, as KEY=NUMBER
 *	again			what that account has now
 *	settle			waits until nothing of it is pending, at most 5 s; how much is
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static int from, to;
static uint64_t token;

static void open_sockets(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);

	to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(!bind(to, (struct sockaddr *)&address, length));
	CHECK(!getsockname(to, (struct sockaddr *)&address, &length));
	CHECK(!connect(from, (struct sockaddr *)&address, length));
}

static void tell(weigh *w)
{
	const struct weigh_account *a = weigh_read(w, token);
	struct weigh_own_number own;

	printf(" touched=%" PRIu64 " unmeasured=%" PRIu64 " calls=%" PRIu64 " sent=%" PRIu64 " allocations=%" PRIu64
	       " pending=%" PRIu64,
	       (uint64_t)a->touched, (uint64_t)a->unmeasured, (uint64_t)a->calls, (uint64_t)a->socket.sent_bytes,
	       (uint64_t)a->memory.allocations, (uint64_t)a->later.pending);
	for (unsigned part = WEIGH_FIRST_OWN; part < WEIGH_SUBSYSTEMS; part++) {
		/* Those without a name have no numbers. */
		if (!weigh_part_name(w, part)) {
			SAME(a->parts[part].entries, 0);
			SAME(a->parts[part].time_ns, 0);
			continue;
		}
		printf(" %s.entries=%" PRIu64 " %s.time_ns=%" PRIu64, weigh_part_name(w, part),
		       (uint64_t)a->parts[part].entries, weigh_part_name(w, part),
		       (uint64_t)a->parts[part].time_ns);
	}
	for (unsigned number = 0; number < WEIGH_OWN_NUMBERS; number++) {
		if (!weigh_own_number(w, number, &own)) {
			SAME(a->own[number], 0);
			continue;
		}
		SAME(weigh_own(w, (int)own.part, own.name), number);
		printf(" %s.%s=%" PRIu64, weigh_part_name(w, own.part), own.name, (uint64_t)a->own[number]);
	}
	printf("\n");
}

static void send_all(weigh *w, char *names)
{
	static char bytes[2048];
	unsigned count, size;
	uint64_t wanted = 0;
	char *rest, *name;
	int part;

	CHECK((rest = strchr(names, ' ')));
	*rest++ = 0;
	CHECK(sscanf(rest, "%u %u", &count, &size) == 2 && size <= sizeof(bytes));
	for (name = strtok(names, ","); name; name = strtok(0, ",")) {
		part = weigh_part(w, name);
		wanted |= part < 0 ? 0 : 1ULL << part;
	}
	/* There is no end of them. */
	weigh_release(w, token);
	printf("reason=%d", (int)weigh_begin(w, ++token, wanted));
	for (unsigned i = 0; i < count; i++)
		SAME(send(from, bytes, size, 0), size);
	weigh_end(w);
	while (recv(to, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0)
		;
	tell(w);
}

int main(void)
{
	weigh *w = weigh_open();
	char line[256], text[1024];
	size_t length;

	open_sockets();
	/* Built-in parts have their names under every server. */
	SAME(weigh_part(w, "block"), WEIGH_BLOCK);
	CHECK(!strcmp(weigh_part_name(w, WEIGH_KERNEL), "kernel"));
	CHECK(!weigh_part_name(w, WEIGH_SUBSYSTEMS) && !weigh_part_name(w, 1U << 31));
	CHECK(weigh_part(w, "") < 0 && weigh_own(w, -1, "bytes") < 0 && weigh_own(w, WEIGH_BLOCK, "") < 0);
	while (fgets(line, sizeof(line), stdin)) {
		char *rest = strchr(line, ' ');

		line[strcspn(line, "\n")] = 0;
		rest = rest ? rest + 1 : line + strlen(line);
		if (!strncmp(line, "part", 4)) {
			printf("%d\n", weigh_part(w, rest));
		} else if (!strncmp(line, "why", 3)) {
			int part = weigh_part(w, rest);

			length = weigh_why_text(w, (unsigned)part, text, sizeof(text));
			SAME(length, strlen(text));
			printf("%d %s\n", (int)weigh_why_part(w, (unsigned)part), text);
			/* Cut, and nothing at all. */
			SAME(weigh_why_text(w, (unsigned)part, text, 5), length);
			SAME(strlen(text), length < 4 ? length : 4);
			SAME(weigh_why_text(w, (unsigned)part, 0, 0), length);
		} else if (!strncmp(line, "send", 4)) {
			send_all(w, rest);
		} else if (!strncmp(line, "again", 5)) {
			printf("reason=0");
			tell(w);
		} else if (!strncmp(line, "settle", 6)) {
			for (int i = 0; i < 500 && weigh_read(w, token)->later.pending; i++)
				usleep(10000);
			printf("%" PRIu64 "\n", (uint64_t)weigh_read(w, token)->later.pending);
		}
		fflush(stdout);
	}
	return 0;
}
