/* spike BYTES MS
 *
 * Maps BYTES of private memory, writes to each page once, holds it for MS ms (0 is allowed), unmaps
 * it, sleeps 200 ms and ends: a peak that is gone before anybody looks.
 *
 * Truth: filled_bytes, peak_rss_bytes (resident size at the peak: before it, plus filled_bytes),
 * hold_ns (from the last page touched to the unmap). */
#include "common.h"

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: spike BYTES MS");
	uint64_t bytes = number(argv[1], "BYTES"), ms = number(argv[2], "MS");
	/* Measured before and not during the spike: the measuring takes longer than 1 ms. */
	uint64_t before = mapped_bytes("\nRss:");
	char *memory = map_pages(bytes, MAP_PRIVATE);
	touch_pages(memory, bytes);
	uint64_t full = clock_ns(CLOCK_MONOTONIC);
	if (ms)
		sleep_us(ms * 1000);
	uint64_t end = clock_ns(CLOCK_MONOTONIC);
	unmap_pages(memory, bytes);
	sleep_us(200000);
	truth("filled_bytes", whole_pages(bytes));
	truth("peak_rss_bytes", before + whole_pages(bytes));
	truth("hold_ns", end - full);
	truth_tell();
	return 0;
}
