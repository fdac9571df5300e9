/* renames COUNT ROUNDS
 *
 * Gives itself a name COUNT times, ROUNDS times over: of the calls that pass a tracepoint (task:task_rename)
 * it is about the cheapest. Says on standard output, in a line for each round, the CPU time of a call in ns.
 *
 * Truth: renames. */
#include "common.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: renames COUNT ROUNDS");
	uint64_t count = number(argv[1], "COUNT"), rounds = number(argv[2], "ROUNDS");

	if (count == 0)
		die("none is no count");
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		for (uint64_t i = 0; i < count; i++)
			if (prctl(PR_SET_NAME, "renamed", 0, 0, 0))
				die("a name");
		printf("%.1f\n", (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - began) / count);
	}
	truth("renames", count * rounds);
	truth_tell();
	return 0;
}
