/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Limits on numbers of accounts: one is told when it is reached, once, and neither before nor of another. Pages of a file
 * are made dirty one by one, so that each number is known.
 *
 * usage: limits FOLDER            holds it to that
 *        limits FOLDER TIMES      prints how many microseconds each of so many was told after it was reached
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>

#define PAGE 4096
#define MOST 32
#define PATIENCE 60000

static const size_t DIRTIED = WEIGH_NUMBER(pagecache.dirtied_pages);
static int file;
static off_t place;

/* Makes a page dirty that was not. */
static void write_page(weigh *w, uint64_t token)
{
	static const char page[PAGE];

	CHECK(!weigh_begin(w, token, bit(WEIGH_PAGECACHE)));
	SAME(pwrite(file, page, PAGE, place), PAGE);
	CHECK(!weigh_end(w));
	place += PAGE;
}

static void write_pages(weigh *w, uint64_t token, int pages)
{
	for (int i = 0; i < pages; i++)
		write_page(w, token);
}

static bool is_told_in(weigh *w, int milliseconds)
{
	struct pollfd wait = { .fd = weigh_descriptor(w), .events = POLLIN };

	CHECK(wait.fd >= 0);
	return poll(&wait, 1, milliseconds) == 1;
}

/* What is told next, which has to be this. */
static void is_passed(weigh *w, uint64_t token, uint64_t value, uint64_t reached)
{
	struct weigh_passed passed;

	CHECK(is_told_in(w, PATIENCE));
	SAME(weigh_passed(w, &passed, 1), 1);
	SAME(passed.token, token);
	SAME(passed.number, DIRTIED);
	SAME(passed.value, value);
	SAME(passed.reached, reached);
}

static void nothing_is_passed(weigh *w)
{
	struct weigh_passed passed;

	/* The agent has looked several times. */
	CHECK(!is_told_in(w, 400));
	SAME(weigh_passed(w, &passed, 1), 0);
}

static void one_is_told_once_and_not_before(weigh *w)
{
	SAME(weigh_limit(w, 1, DIRTIED, 7), WEIGH_NO_TOKEN);
	write_pages(w, 1, 1);
	CHECK(!weigh_limit(w, 1, DIRTIED, 7));
	write_pages(w, 1, 5);
	write_pages(w, 2, 9);
	nothing_is_passed(w);
	write_pages(w, 1, 1);
	is_passed(w, 1, 7, 7);
	write_pages(w, 1, 3);
	nothing_is_passed(w);
	/* One that is passed already is told at once. */
	CHECK(!weigh_limit(w, 1, DIRTIED, 3));
	is_passed(w, 1, 3, 10);
	/* The last of a number holds. */
	CHECK(!weigh_limit(w, 1, DIRTIED, 11));
	CHECK(!weigh_limit(w, 1, DIRTIED, 13));
	write_pages(w, 1, 2);
	nothing_is_passed(w);
	weigh_unlimit(w, 1, DIRTIED);
	write_pages(w, 1, 2);
	nothing_is_passed(w);
}

static void what_is_wrong_is_refused(weigh *w)
{
	SAME(weigh_limit(w, 1, DIRTIED, 0), WEIGH_NO_NUMBER);
	SAME(weigh_limit(w, 1, DIRTIED + 1, 5), WEIGH_NO_NUMBER);
	SAME(weigh_limit(w, 1, sizeof(struct weigh_account), 5), WEIGH_NO_NUMBER);
	SAME(weigh_limit(w, 77, DIRTIED, 5), WEIGH_NO_TOKEN);
	weigh_unlimit(w, 77, DIRTIED);
	for (int i = 0; i < MOST; i++) {
		write_page(w, 100 + (uint64_t)i);
		CHECK(!weigh_limit(w, 100 + (uint64_t)i, DIRTIED, 1000));
	}
	SAME(weigh_limit(w, 1, DIRTIED, 1000), WEIGH_TOO_MANY_LIMITS);
	/* An account that is given back has none, nor has who gets it next. */
	for (int i = 0; i < MOST; i++)
		CHECK(!weigh_release(w, 100 + (uint64_t)i));
	CHECK(!weigh_limit(w, 1, DIRTIED, 1000));
	weigh_unlimit(w, 1, DIRTIED);
}

/* Several at once, with room for fewer: the rest is told next. */
static void none_is_forgotten(weigh *w)
{
	struct weigh_passed passed[4];
	uint64_t told = 0;
	int found;

	for (uint64_t token = 200; token < 205; token++) {
		write_pages(w, token, 2);
		CHECK(!weigh_limit(w, token, DIRTIED, 3));
	}
	nothing_is_passed(w);
	for (uint64_t token = 200; token < 205; token++)
		write_page(w, token);
	while (told != 31) {
		CHECK(is_told_in(w, PATIENCE));
		while ((found = weigh_passed(w, passed, 2))) {
			for (int i = 0; i < found; i++) {
				CHECK(!(told >> (passed[i].token - 200) & 1));
				told |= 1ULL << (passed[i].token - 200);
			}
		}
	}
	nothing_is_passed(w);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void print_latencies(weigh *w, int times)
{
	struct weigh_passed passed;

	for (int i = 0; i < times; i++) {
		uint64_t began;

		write_page(w, 1);
		CHECK(!weigh_limit(w, 1, DIRTIED, weigh_read(w, 1)->pagecache.dirtied_pages + 1));
		/* At some moment between two looks of the agent, and also when it looks more rarely. */
		usleep((useconds_t)(i * 7919 % 1500000));
		began = now_us();
		write_page(w, 1);
		CHECK(is_told_in(w, PATIENCE));
		printf("%llu\n", (unsigned long long)(now_us() - began));
		SAME(weigh_passed(w, &passed, 1), 1);
	}
}

int main(int count, char **arguments)
{
	char path[4096];
	weigh *w;

	CHECK(count == 2 || count == 3);
	snprintf(path, sizeof(path), "%s/limits-%d", arguments[1], (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	unlink(path);
	w = measured();
	if (count == 3) {
		print_latencies(w, atoi(arguments[2]));
		return 0;
	}
	one_is_told_once_and_not_before(w);
	what_is_wrong_is_refused(w);
	none_is_forgotten(w);
	weigh_close(w);
	return 0;
}
