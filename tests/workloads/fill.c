/* fill BYTES [exit|_exit|kill|free]
 * fill BYTES leader HOLD_MS
 * fill BYTES hugetlb
 * fill BYTES memfd HOLD_MS
 * fill BYTES parts FILE
 *
 * Maps BYTES of private anonymous memory, writes to each page once, and ends at once: by exit(0)
 * (default), by _exit(0), by sending itself SIGKILL, or by unmapping it first and then exit(0).
 *
 * leader: the first thread ends, then a second one fills, and holds for HOLD_MS.
 * hugetlb: it is memory of huge pages of hugetlbfs, which the machine must have set aside; status 3 if
 * it has not.
 * memfd: it is a file in memory that is written and never mapped, and held for HOLD_MS.
 * parts: BYTES of private anonymous memory, half as much that is shared anonymous, and a quarter of FILE,
 * which is made, read through a mapping, and deleted.
 *
 * Truth: filled_bytes (BYTES in whole pages), peak_rss_bytes (resident size when all is filled:
 * program and libraries included; without huge pages); of hugetlb: hugetlb_bytes; of parts:
 * anonymous_bytes, shared_bytes, file_bytes (resident, by /proc/self/smaps_rollup). */
#include "common.h"

#include <pthread.h>
#include <signal.h>

struct late {
	uint64_t bytes, hold_ms;
};

static bool has_first_thread_ended(void)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
	if (file >= 0)
		close(file);
	text[length > 0 ? length : 0] = 0;
	const char *end = strrchr(text, ')');
	return end && end[1] && end[2] == 'Z';
}

static void *fill_late(void *argument)
{
	struct late *late = argument;

	while (!has_first_thread_ended())
		sleep_us(1000);
	touch_pages(map_pages(late->bytes, MAP_PRIVATE), late->bytes);
	truth("filled_bytes", whole_pages(late->bytes));
	/* /proc/self is the first thread's, which has no memory any more. */
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	truth("peak_rss_bytes", (uint64_t)usage.ru_maxrss * 1024);
	truth_tell();
	sleep_us(late->hold_ms * 1000);
	exit(0);
}

static _Noreturn void fill_as_second_thread(uint64_t bytes, uint64_t hold_ms)
{
	static struct late late;
	pthread_t thread;

	late = (struct late){ bytes, hold_ms };
	if (pthread_create(&thread, NULL, fill_late, &late))
		die("no thread");
	pthread_exit(NULL);
}

static int fill_huge_pages(uint64_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	for (uint64_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
	truth("hugetlb_bytes", bytes);
	truth("peak_rss_bytes", mapped_bytes("\nRss:"));
	truth_tell();
	return 0;
}

static int fill_unmapped(uint64_t bytes, uint64_t hold_ms)
{
	static char page[4096];
	int file = memfd_create("unmapped", MFD_CLOEXEC);

	for (uint64_t done = 0; done < bytes; done += sizeof page)
		if (write(file, page, sizeof page) != sizeof page)
			die("memfd");
	truth("filled_bytes", bytes);
	truth("peak_rss_bytes", mapped_bytes("\nRss:"));
	truth_tell();
	sleep_us(hold_ms * 1000);
	return 0;
}

static int fill_parts(uint64_t bytes, const char *path)
{
	int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	uint64_t of_file = whole_pages(bytes / 4);

	touch_pages(map_pages(bytes, MAP_PRIVATE), bytes);
	touch_pages(map_pages(bytes / 2, MAP_SHARED), bytes / 2);
	if (file < 0 || ftruncate(file, of_file))
		die("%s", path);
	unlink(path);
	char *mapped = mmap(NULL, of_file, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		die("mmap");
	read_pages(mapped, of_file);
	uint64_t rss = mapped_bytes("\nRss:"), anonymous = mapped_bytes("\nAnonymous:");
	truth("filled_bytes", whole_pages(bytes));
	truth("anonymous_bytes", anonymous);
	truth("shared_bytes", whole_pages(bytes / 2));
	truth("file_bytes", rss - anonymous - whole_pages(bytes / 2));
	truth("peak_rss_bytes", rss);
	truth_tell();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 4)
		die("usage: fill BYTES [exit|_exit|kill|free|leader HOLD_MS|hugetlb|memfd HOLD_MS|parts FILE]");
	uint64_t bytes = number(argv[1], "BYTES");
	const char *how = argc > 2 ? argv[2] : "exit";
	if (!strcmp(how, "leader") && argc == 4)
		fill_as_second_thread(bytes, number(argv[3], "HOLD_MS"));
	if (!strcmp(how, "hugetlb"))
		return fill_huge_pages(bytes);
	if (!strcmp(how, "memfd") && argc == 4)
		return fill_unmapped(whole_pages(bytes), number(argv[3], "HOLD_MS"));
	if (!strcmp(how, "parts") && argc == 4)
		return fill_parts(bytes, argv[3]);
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
