/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A server that throttles a user by what it has caused in the kernel, not by what it has asked for.
 *
 * Each line of standard input is a request: the number of a user, and how many KiB are to be kept for it. Each user has an
 * account and a limit on the pages that were made dirty for it; who has passed it is answered "later" until the next
 * period, which a line "0 0" begins. Where no agent answers, nobody is throttled, and that is said.
 *
 *	cc throttle.c $(pkg-config --cflags --libs weigh) -o throttle
 *	printf '7 64\n7 64\n' | ./throttle FILE 100
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weigh.h>

#define USERS 1000
#define KIB 1024

static const size_t DIRTIED = WEIGH_NUMBER(pagecache.dirtied_pages);

static struct user {
	int is_known, is_throttled;
} users[USERS];
static uint64_t most_pages;

/* A limit is of all that the account has: each period's is one above what it has now. */
static void begin_period(weigh *w, uint64_t user)
{
	const struct weigh_account *account = weigh_read(w, user);

	users[user].is_throttled = 0;
	if (account && weigh_limit(w, user, DIRTIED, account->pagecache.dirtied_pages + most_pages))
		fprintf(stderr, "user %llu cannot be limited: %s\n", (unsigned long long)user, weigh_why(w));
}

/* Keeps what was asked for, on the user's account. */
static void keep(weigh *w, int file, uint64_t user, int kib)
{
	static const char bytes[KIB];

	weigh_begin(w, user, 1ULL << WEIGH_PAGECACHE);
	for (int i = 0; i < kib; i++) {
		if (write(file, bytes, KIB) != KIB)
			perror("write");
	}
	weigh_end(w);
	if (!users[user].is_known) {
		users[user].is_known = 1;
		/* What the first request has used counts. */
		if (weigh_limit(w, user, DIRTIED, most_pages))
			fprintf(stderr, "user %llu is not limited: %s\n", (unsigned long long)user, weigh_why(w));
	}
}

/* A user that has passed its limit waits until the next period. */
static void take_passed(weigh *w)
{
	struct weigh_passed passed;

	while (weigh_passed(w, &passed, 1)) {
		if (passed.token < USERS)
			users[passed.token].is_throttled = 1;
		printf("user %llu has made %llu pages dirty, of %llu\n", (unsigned long long)passed.token,
		       (unsigned long long)passed.reached, (unsigned long long)passed.value);
	}
}

static void answer(weigh *w, int file, uint64_t user, int kib)
{
	if (!user) {
		for (uint64_t each = 1; each < USERS; each++) {
			if (users[each].is_known)
				begin_period(w, each);
		}
		puts("next period");
	} else if (user >= USERS || users[user].is_throttled) {
		printf("user %llu: later\n", (unsigned long long)user);
	} else {
		keep(w, file, user, kib);
		printf("user %llu: kept %d KiB\n", (unsigned long long)user, kib);
	}
}

/* A request; 0 at the end. */
static int take_request(weigh *w, int file)
{
	unsigned long long user;
	char line[64];
	int kib;

	if (!fgets(line, sizeof(line), stdin))
		return 0;
	if (sscanf(line, "%llu %d", &user, &kib) == 2 && kib >= 0)
		answer(w, file, user, kib);
	else
		puts("expected: USER KIB");
	return 1;
}

int main(int count, char **arguments)
{
	weigh *w = weigh_open();
	int file;

	if (count != 3 || (most_pages = strtoull(arguments[2], 0, 10)) == 0) {
		fprintf(stderr, "usage: throttle FILE PAGES\n");
		return 2;
	}
	file = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file < 0) {
		perror(arguments[1]);
		return 1;
	}
	setvbuf(stdout, 0, _IOLBF, 0);
	/* poll() has to see what is there: nothing may wait in a buffer of its own. */
	setvbuf(stdin, 0, _IONBF, 0);
	if (weigh_why(w))
		fprintf(stderr, "nobody is throttled: %s\n", weigh_why(w));
	for (;;) {
		struct pollfd ready[2] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			/* Not there without an agent: poll() passes over -1. */
			{ .fd = weigh_descriptor(w), .events = POLLIN },
		};

		if (poll(ready, 2, -1) < 0)
			continue;
		if (ready[1].revents)
			take_passed(w);
		if (ready[0].revents && !take_request(w, file))
			break;
	}
	weigh_close(w);
	return 0;
}
