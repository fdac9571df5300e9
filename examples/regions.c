/*
 * A program that tells its phases, regions and cells.
 *
 *	cc regions.c -o regions $(pkg-config --cflags --libs weigh)
 *	weigh run -- ./regions
 */
#include <stdio.h>
#include <weigh_region.h>

static void exchange(void)
{
	WEIGH_REGION("exchange");
}

static void solve(long cells)
{
	WEIGH_REGION("solve");
	exchange();
	weigh_count("cells", cells);
}

int main(void)
{
	weigh_metadata("input", "case-7");
	for (unsigned i = 0; i < 10; i++) {
		WEIGH_PHASE("iteration", i);
		solve(4096);
		weigh_event_value("residual", 1.0 / (i + 1));
		weigh_publish();
	}
	puts("done");
	return 0;
}
