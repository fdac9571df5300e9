/* shared N BYTES [cow|shm [HOLD_MS]]
 *
 * The parent maps BYTES (cow: private anonymous; shm: shared anonymous), writes to each page once,
 * then forks N-1 children that read each page. All N processes hold it for HOLD_MS (default 300),
 * then the children end, then the parent.
 *
 * Truth: filled_bytes (held once, by all of them), rss_sum_peak_bytes (resident sizes of all N
 * added up while they hold), pss_sum_peak_bytes (each page divided by the number of processes of
 * the machine that map it), processes_total, processes_peak. */
#include "common.h"

struct shared {
	gate full, measured, may_end;
	_Atomic uint64_t rss, pss;
};

static void measure(struct shared *s)
{
	atomic_fetch_add(&s->rss, mapped_bytes("\nRss:"));
	atomic_fetch_add(&s->pss, mapped_bytes("\nPss:"));
}

int main(int argc, char **argv)
{
	const char *kind = argc > 3 ? argv[3] : "cow";
	if (argc < 3 || argc > 5 || (strcmp(kind, "cow") && strcmp(kind, "shm")))
		die("usage: shared N BYTES [cow|shm [HOLD_MS]]");
	uint64_t n = number(argv[1], "N"), bytes = number(argv[2], "BYTES");
	uint64_t hold_ms = argc > 4 ? number(argv[4], "HOLD_MS") : 300;
	if (n == 0)
		die("N counts the parent: at least 1");
	uint32_t children = n - 1;

	struct shared *s = (struct shared *)map_pages(sizeof *s, MAP_SHARED);
	pid_t *pids = calloc(n, sizeof *pids);
	char *memory = map_pages(bytes, strcmp(kind, "shm") ? MAP_PRIVATE : MAP_SHARED);
	touch_pages(memory, bytes);
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
