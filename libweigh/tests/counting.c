/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counters of the CPU, of intervals. What stands in for them counts nanoseconds on a CPU (for cycles, and there are no
 * instructions), or page faults and those without I/O, or there are none.
 *
 * usage: counting clock|faults|next|parts|missing
 *
 * next: of faults, where each call is followed; parts: nanoseconds, of each part of the kernel
 */
#include "check.h"
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096
#define PAGES 300
#define COMPUTED 30000000

static bool is_clock;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static char *fresh_pages(void)
{
	char *pages = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE);
	return pages;
}

static void touch(char *pages)
{
	for (int i = 0; i < PAGES; i++)
		pages[i * PAGE] = 1;
}

/* Computes, waits, touches pages; what it took by the thread's own clock. */
static uint64_t work(void)
{
	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	char *pages = fresh_pages();

	touch(pages);
	munmap(pages, PAGES * PAGE);
	usleep(50000);
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began < COMPUTED)
		;
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void counts(weigh *w, uint64_t token)
{
	const struct weigh_account *account;
	uint64_t taken, before, after;

	before = faults();
	SAME(weigh_begin(w, token, WEIGH_COUNTERS), WEIGH_MEASURED);
	taken = work();
	SAME(weigh_end(w), WEIGH_MEASURED);
	after = faults();
	account = weigh_read(w, token);
	CHECK(account->touched & bit(WEIGH_CYCLES));
	SAME(account->touched & bit(WEIGH_INSTRUCTIONS), is_clock ? 0 : bit(WEIGH_INSTRUCTIONS));
	SAME(account->unmeasured & WEIGH_COUNTERS, is_clock ? bit(WEIGH_INSTRUCTIONS) : 0);
	if (is_clock) {
		/* The thread's own clock: the kernel stops the two at different places of a switch. */
		uint64_t slack = taken / 20;

		CHECK(account->cycles > taken - slack && account->cycles < taken + 2 * slack);
		SAME(account->instructions, 0);
	} else {
		CHECK(account->cycles >= PAGES && account->cycles <= after - before);
		SAME(account->instructions, account->cycles);
	}
	CHECK(account->counted_ns == account->counting_ns && account->counted_ns > taken / 2);
}

/* Only what was asked for, also when something else was before. */
static void counts_one(weigh *w)
{
	const struct weigh_account *account;

	CHECK(!weigh_begin(w, 2, bit(WEIGH_INSTRUCTIONS)));
	work();
	weigh_end(w);
	account = weigh_read(w, 2);
	CHECK((is_clock || account->instructions >= PAGES) && account->cycles == 0);
	SAME(account->touched & WEIGH_COUNTERS, is_clock ? 0 : bit(WEIGH_INSTRUCTIONS));
	CHECK(!weigh_begin(w, 3, WEIGH_ALL));
	work();
	weigh_end(w);
	SAME(weigh_read(w, 3)->touched & WEIGH_COUNTERS, 0);
	SAME(weigh_read(w, 3)->counting_ns, 0);
}

/* Faults in the call, and none of those before it and after it. */
static void counts_the_next_call(weigh *w)
{
	char *before = fresh_pages(), *inside = fresh_pages(), *after = fresh_pages();
	const struct weigh_account *account;
	int zero = open("/dev/zero", O_RDONLY);

	CHECK(zero >= 0 && weigh_follows(w));
	SAME(weigh_next(w, 20, WEIGH_COUNTERS), WEIGH_MEASURED);
	touch(before);
	SAME(read(zero, inside, PAGES * PAGE), PAGES * PAGE);
	touch(after);
	account = weigh_read(w, 20);
	SAME(account->calls, 1);
	SAME(account->cycles, PAGES);
	SAME(account->instructions, PAGES);
	SAME(account->touched & WEIGH_COUNTERS, WEIGH_COUNTERS);
	SAME(account->unmeasured & WEIGH_COUNTERS, 0);
	CHECK(account->counted_ns && account->counted_ns == account->counting_ns);
	/* An interval is counted here, and not there as well. */
	counts(w, 21);
}

/* What stands in for cycles is what the part's time is, but for the reading. */
static void counts_parts(weigh *w)
{
	uint64_t wanted = WEIGH_ALL | bit(WEIGH_CYCLES) | WEIGH_BY_PART, time = 0, cycles = 0;
	const struct weigh_account *account;
	const struct weigh_parts *parts;
	int file = open(".", O_TMPFILE | O_RDWR, 0600);

	CHECK(file >= 0);
	CHECK(!weigh_begin(w, 30, wanted));
	for (int i = 0; i < 100; i++) {
		SAME(pwrite(file, "x", 1, i * PAGE), 1);
		CHECK(!fsync(file));
	}
	work();
	weigh_end(w);
	account = weigh_read(w, 30);
	parts = weigh_read_parts(w, 30);
	CHECK(parts && !(account->unmeasured & (WEIGH_BY_PART | bit(WEIGH_CYCLES))));
	for (int part = 0; part < WEIGH_SUBSYSTEMS; part++) {
		SAME(parts->of[part].instructions, 0);
		if (part == WEIGH_KERNEL)
			continue;
		time += account->parts[part].time_ns;
		cycles += parts->of[part].cycles;
	}
	/* What the program does itself is no part's. */
	SAME(parts->of[WEIGH_KERNEL].cycles, 0);
	CHECK(time > 0 && cycles > time / 2 && cycles < 2 * time);
	CHECK(account->cycles > COMPUTED && cycles < account->cycles);
	/* Without them nothing of it is counted. */
	CHECK(!weigh_begin(w, 31, WEIGH_ALL | WEIGH_BY_PART));
	CHECK(!fsync(file));
	weigh_end(w);
	parts = weigh_read_parts(w, 31);
	CHECK(parts);
	for (int part = 0; part < WEIGH_SUBSYSTEMS; part++)
		SAME(parts->of[part].cycles, 0);
}

static void *thread(void *unused)
{
	weigh *w = measured();

	(void)unused;
	counts(w, 10);
	weigh_close(w);
	return 0;
}

/* Its descriptors are gone, and other files have their numbers: nothing is read from these. */
static void survives_closing(weigh *w)
{
	const struct weigh_account *account;
	int ends[2];
	char byte = 1;

	for (int i = 3; i < 100; i++)
		close(i);
	CHECK(!pipe2(ends, O_NONBLOCK));
	for (int i = 0; i < 50; i++)
		dup(ends[0]);
	SAME(write(ends[1], &byte, 1), 1);
	weigh_begin(w, 4, WEIGH_COUNTERS);
	weigh_end(w);
	account = weigh_read(w, 4);
	SAME(account->touched & WEIGH_COUNTERS, 0);
	SAME(account->unmeasured & WEIGH_COUNTERS, WEIGH_COUNTERS);
	SAME(read(ends[0], &byte, 1), 1);
}

static void is_missing(weigh *w)
{
	const struct weigh_account *account;

	SAME(weigh_subsystems(w) & WEIGH_COUNTERS, 0);
	SAME(weigh_why_part(w, WEIGH_CYCLES), WEIGH_NO_COUNTER);
	SAME(weigh_begin(w, 1, WEIGH_ALL | WEIGH_COUNTERS), WEIGH_MEASURED);
	weigh_end(w);
	account = weigh_read(w, 1);
	SAME(account->unmeasured & WEIGH_COUNTERS, WEIGH_COUNTERS);
	SAME(account->touched & WEIGH_COUNTERS, 0);
	SAME(account->cycles | account->instructions | account->counting_ns, 0);
}

int main(int count, char **arguments)
{
	weigh *w = measured();
	pthread_t other;
	int status;
	pid_t child;

	CHECK(count == 2);
	if (!strcmp(arguments[1], "missing")) {
		is_missing(w);
		return 0;
	}
	if (!strcmp(arguments[1], "parts")) {
		counts_parts(w);
		return 0;
	}
	if (!strcmp(arguments[1], "next")) {
		counts_the_next_call(w);
		return 0;
	}
	is_clock = !strcmp(arguments[1], "clock");
	SAME(weigh_subsystems(w) & WEIGH_COUNTERS, is_clock ? bit(WEIGH_CYCLES) : WEIGH_COUNTERS);
	counts(w, 1);
	SAME(weigh_why_part(w, WEIGH_CYCLES), WEIGH_MEASURED);
	counts_one(w);
	CHECK(!pthread_create(&other, 0, thread, 0));
	CHECK(!pthread_join(other, 0));
	child = fork();
	if (!child) {
		/* What it has of its parent counts its parent. */
		counts(measured(), 1);
		_exit(0);
	}
	SAME(waitpid(child, &status, 0), child);
	SAME(status, 0);
	survives_closing(w);
	return 0;
}
