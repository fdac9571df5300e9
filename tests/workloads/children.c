/* children N BYTES together|turn [HOLD_MS]
 *
 * Starts N children that each map BYTES of private memory and write to each page once.
 * together: all of them hold it at the same moment, for HOLD_MS (default 50), then all end.
 * turn: each starts when the one before it has been reaped, holds for HOLD_MS and ends.
 *
 * Truth: filled_bytes (by all children), filled_peak_bytes (at one moment), rss_sum_peak_bytes
 * (resident sizes of parent and children added up, at one moment), pss_sum_peak_bytes (the same,
 * each page divided by the number of processes of the machine that map it: a lower bound of the
 * memory counted once; rss_sum_peak_bytes is the upper one), processes_total, processes_peak. */
#include "common.h"

struct shared {
	gate full, measured, may_end;
	_Atomic uint64_t rss, pss;
};

static void child(struct shared *s, uint64_t bytes, uint32_t others)
{
	char *memory = map_pages(bytes, MAP_PRIVATE);
	touch_pages(memory, bytes);
	gate_add(&s->full);
	gate_wait(&s->full, others);
	atomic_fetch_add(&s->rss, mapped_bytes("\nRss:"));
	atomic_fetch_add(&s->pss, mapped_bytes("\nPss:"));
	gate_add(&s->measured);
	gate_wait(&s->may_end, 1);
	_exit(0);
}

/* Starts `n` children and lets them hold their memory together. */
static void hold(struct shared *s, uint64_t n, uint64_t bytes, uint64_t hold_ms)
{
	pid_t *pids = calloc(n, sizeof *pids);
	memset(s, 0, sizeof *s);
	for (uint64_t i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (pids[i] == 0)
			child(s, bytes, n);
	}
	gate_wait(&s->full, n);
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + hold_ms * 1000000;
	s->rss += mapped_bytes("\nRss:");
	s->pss += mapped_bytes("\nPss:");
	gate_wait(&s->measured, n);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now < end)
		sleep_us((end - now) / 1000);
	gate_add(&s->may_end);
	for (uint64_t i = 0; i < n; i++)
		reap(pids[i]);
	free(pids);
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 5 || (strcmp(argv[3], "together") && strcmp(argv[3], "turn")))
		die("usage: children N BYTES together|turn [HOLD_MS]");
	uint64_t n = number(argv[1], "N"), bytes = number(argv[2], "BYTES");
	uint64_t hold_ms = argc > 4 ? number(argv[4], "HOLD_MS") : 50;
	bool together = !strcmp(argv[3], "together");
	struct shared *s = (struct shared *)map_pages(sizeof *s, MAP_SHARED);
	uint64_t rss = 0, pss = 0;

	for (uint64_t round = 0; round < (together ? 1 : n); round++) {
		hold(s, together ? n : 1, bytes, hold_ms);
		rss = s->rss > rss ? s->rss : rss;
		pss = s->pss > pss ? s->pss : pss;
	}
	truth("filled_bytes", n * whole_pages(bytes));
	truth("filled_peak_bytes", (together ? n : 1) * whole_pages(bytes));
	truth("rss_sum_peak_bytes", rss);
	truth("pss_sum_peak_bytes", pss);
	truth("processes_total", n + 1);
	truth("processes_peak", (together ? n : 1) + 1);
	truth_tell();
	return 0;
}
