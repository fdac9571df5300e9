/* switches N
 *
 * Sleeps N times for 1 ms, and does nothing else that waits: N voluntary context switches.
 *
 * Truth: asked_switches (N), voluntary_switches and involuntary_switches (getrusage, from the
 * start of the process, before the truth is told). */
#include "common.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: switches N");
	uint64_t n = number(argv[1], "N");
	for (uint64_t i = 0; i < n; i++)
		sleep_us(1000);
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	truth("asked_switches", n);
	truth("voluntary_switches", use.ru_nvcsw);
	truth("involuntary_switches", use.ru_nivcsw);
	truth_tell();
	return 0;
}
