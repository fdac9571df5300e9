/* fill BYTES [exit|_exit|kill|free]
 *
 * Maps BYTES of private anonymous memory, writes to each page once, and ends at once: by exit(0)
 * (default), by _exit(0), by sending itself SIGKILL, or by unmapping it first and then exit(0).
 *
 * Truth: filled_bytes (BYTES in whole pages), peak_rss_bytes (resident size when all is filled:
 * program and libraries included). */
#include "common.h"

#include <signal.h>

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		die("usage: fill BYTES [exit|_exit|kill|free]");
	uint64_t bytes = number(argv[1], "BYTES");
	const char *how = argc > 2 ? argv[2] : "exit";
	if (strcmp(how, "exit") && strcmp(how, "_exit") && strcmp(how, "kill") && strcmp(how, "free"))
		die("'%s' is no way to end: exit, _exit, kill or free", how);

	char *memory = map_pages(bytes, MAP_PRIVATE);
	touch_pages(memory, bytes);
	truth("filled_bytes", whole_pages(bytes));
	truth("peak_rss_bytes", mapped_bytes("\nRss:"));
	truth_tell();

	if (!strcmp(how, "free"))
		unmap_pages(memory, bytes);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	return 0;
}
