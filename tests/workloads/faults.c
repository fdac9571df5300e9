/* faults N
 *
 * Maps N pages of private memory, without huge pages, and writes to each once: N minor faults.
 *
 * Truth: asked_faults (N), fill_faults (getrusage, difference over the touching), minor_faults and
 * major_faults (getrusage, from the start of the process, before the truth is told). */
#include "common.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: faults N");
	uint64_t n = number(argv[1], "N"), bytes = n * whole_pages(1);
	struct rusage before, after;
	char *memory = map_pages(bytes, MAP_PRIVATE);
	if (n && madvise(memory, bytes, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("madvise");
	getrusage(RUSAGE_SELF, &before);
	touch_pages(memory, bytes);
	getrusage(RUSAGE_SELF, &after);
	truth("asked_faults", n);
	truth("fill_faults", after.ru_minflt - before.ru_minflt);
	truth("minor_faults", after.ru_minflt);
	truth("major_faults", after.ru_majflt);
	truth_tell();
	return 0;
}
