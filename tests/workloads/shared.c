/* shared N BYTES [cow|shm|vm [HOLD_MS]]
 * shared N BYTES forkexec|spawn
 *
 * The parent maps BYTES (cow: private anonymous; shm: shared anonymous), writes to each page once,
 * then forks N-1 children that read each page. All N processes hold it for HOLD_MS (default 300),
 * then the children end, then the parent.
 * vm: the children are made by clone(CLONE_VM | SIGCHLD): processes of their own that use the parent's
 * memory to their end, and touch nothing.
 * forkexec, spawn: the parent fills private memory, then N-1 times makes a child that executes
 * /bin/true, by fork and exec or by posix_spawn, and waits for it.
 *
 * Truth: filled_bytes (held once, by all of them), rss_sum_peak_bytes (resident sizes of all N
 * added up while they hold), pss_sum_peak_bytes (each page divided by the number of processes of
 * the machine that map it), processes_total, processes_peak. Of vm, forkexec and spawn, in place of
 * the sums: own_rss_bytes (the parent's resident size). */
#include "common.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>

extern char **environ;

struct shared {
	gate full, measured, may_end;
	_Atomic uint64_t rss, pss;
};

static void measure(struct shared *s)
{
	atomic_fetch_add(&s->rss, mapped_bytes("\nRss:"));
	atomic_fetch_add(&s->pss, mapped_bytes("\nPss:"));
}

#define STACK_BYTES (64 << 10)

static int guest(void *shared)
{
	struct shared *s = shared;

	gate_add(&s->full);
	gate_wait(&s->may_end, 1);
	_exit(0);
}

static void use_one_memory(struct shared *s, uint32_t children, uint64_t hold_ms)
{
	pid_t *pids = calloc(children + 1, sizeof *pids);
	char *stacks = map_pages((uint64_t)children * STACK_BYTES + 1, MAP_PRIVATE);

	for (uint32_t i = 0; i < children; i++) {
		pids[i] = clone(guest, stacks + (i + 1) * STACK_BYTES, CLONE_VM | SIGCHLD, s);
		if (pids[i] < 0)
			die("clone");
	}
	gate_wait(&s->full, children);
	truth("own_rss_bytes", mapped_bytes("\nRss:"));
	sleep_us(hold_ms * 1000);
	gate_add(&s->may_end);
	for (uint32_t i = 0; i < children; i++)
		reap(pids[i]);
}

static void start_others(uint32_t children, bool by_fork)
{
	char *arguments[] = { "true", NULL };

	truth("own_rss_bytes", mapped_bytes("\nRss:"));
	for (uint32_t i = 0; i < children; i++) {
		pid_t pid;
		if (by_fork) {
			pid = fork();
			if (pid == 0) {
				execv("/bin/true", arguments);
				_exit(9);
			}
		} else if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ)) {
			pid = -1;
		}
		if (pid < 0)
			die("no child");
		reap(pid);
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 3 ? argv[3] : "cow";
	bool by_fork = !strcmp(kind, "forkexec"), by_spawn = !strcmp(kind, "spawn"), vm = !strcmp(kind, "vm");
	if (argc < 3 || argc > 5 || (strcmp(kind, "cow") && strcmp(kind, "shm") && !vm && !by_fork && !by_spawn))
		die("usage: shared N BYTES [cow|shm|vm|forkexec|spawn [HOLD_MS]]");
	uint64_t n = number(argv[1], "N"), bytes = number(argv[2], "BYTES");
	uint64_t hold_ms = argc > 4 ? number(argv[4], "HOLD_MS") : 300;
	if (n == 0)
		die("N counts the parent: at least 1");
	uint32_t children = n - 1;

	struct shared *s = (struct shared *)map_pages(sizeof *s, MAP_SHARED);
	pid_t *pids = calloc(n, sizeof *pids);
	char *memory = map_pages(bytes, strcmp(kind, "shm") ? MAP_PRIVATE : MAP_SHARED);
	touch_pages(memory, bytes);
	if (vm || by_fork || by_spawn) {
		if (vm)
			use_one_memory(s, children, hold_ms);
		else
			start_others(children, by_fork);
		truth("filled_bytes", whole_pages(bytes));
		truth("processes_total", n);
		truth("processes_peak", vm || n < 2 ? n : 2);
		truth_tell();
		return 0;
	}
	for (uint32_t i = 0; i < children; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (pids[i] == 0) {
			if (read_pages(memory, bytes) != whole_pages(bytes) / whole_pages(1))
				die("a child does not see what its parent wrote");
			gate_add(&s->full);
			gate_wait(&s->full, children);
			measure(s);
			gate_add(&s->measured);
			gate_wait(&s->may_end, 1);
			_exit(0);
		}
	}
	gate_wait(&s->full, children);
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + hold_ms * 1000000;
	measure(s);
	gate_wait(&s->measured, children);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now < end)
		sleep_us((end - now) / 1000);
	gate_add(&s->may_end);
	for (uint32_t i = 0; i < children; i++)
		reap(pids[i]);

	truth("filled_bytes", whole_pages(bytes));
	truth("rss_sum_peak_bytes", s->rss);
	truth("pss_sum_peak_bytes", s->pss);
	truth("processes_total", n);
	truth("processes_peak", n);
	truth_tell();
	return 0;
}
