/* bomb MOST
 *
 * A fork bomb: every process forks without end, and none ends by itself. So that a test that fails
 * harms nobody, no more than MOST processes are ever made, and all end after 40 s.
 *
 * Truth, told before: most_processes. */
#include "common.h"

#include <signal.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: bomb MOST");
	uint32_t most = number(argv[1], "MOST");
	truth("most_processes", most);
	truth_tell();
	gate *made = (gate *)map_pages(sizeof(gate), MAP_SHARED);
	atomic_store(made, 1);
	alarm(40);
	for (;;) {
		if (atomic_fetch_add(made, 1) >= most) {
			pause();
			continue;
		}
		pid_t child = fork();
		if (child == 0)
			alarm(40);
		else if (child < 0)
			sleep_us(1000);
	}
}
