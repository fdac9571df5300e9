/* access WAY PATH [NUMBER [NUMBER]]
 *
 * Goes through a file in a way that is known beforehand. PATH is made by the ways that write; those
 * that read want at least 1000003 bytes there.
 *
 *   opens N             opens PATH N times, and reads 7 bytes each time
 *   strided N STRIDE    N reads of 100 bytes by pread, STRIDE bytes from one's beginning to the next's
 *   again N             reads 1000003 bytes from the beginning, N times, by reads of 4099, one open
 *   reopened N          the same with an open for each time
 *   joined              reads 100 bytes each at 1000, 0, 200, which are apart, then at 100, which joins two of them, then
 *                       800 bytes on from there, the last 100 of which were read before
 *   syncs N             N times a write of 100 bytes and an fsync
 *   map                 reads each page of 1000003 bytes by memory that is mapped to it
 *   inherit             the same, but the memory is a child's, whose parent has mapped it
 *   hand FILE           maps 1000003 bytes, and writes them to FILE by one write
 *   cut N               truncate(2) to N bytes; a page of it may be blanked for that
 *   cut-mapped N        the same, while it is mapped and nothing of that was touched
 *   store N             maps a file of N pages, and writes to every third of them
 *   sparse N            the same as map of a file of N pages that is one hole
 *   shared N            N children read 1009 bytes each, 10 times, at the position that they share
 *   threads N           N threads read 4099 bytes each at a place of their own, the Nth N times, by one descriptor
 *                       that the main thread opens and closes; and 7 bytes by one of their own
 *   storm N             4 threads open it, read 7 bytes and close it, N times each, all at once
 *   deleted             writes 12347 bytes to a file whose name is gone already
 *   many N              opens N files PATH.0 ... at once, writes 11 bytes to each, then closes them
 *   each N              the same, but closes each before it opens the next
 *   metadata            23 seeks, 19 fstats, 3 truncates, 5 failed reads
 *   reader              waits for no one: reads all that PATH holds by one read of 1 MiB at a time
 *   wait                reads 100 bytes by 10 reads, then waits for ever
 */
#include "common.h"

#include <pthread.h>
#include <sys/stat.h>

static char buffer[1 << 20];

static int open_or_die(const char *path, int flags)
{
	int file = open(path, flags | O_CLOEXEC, 0666);
	if (file < 0)
		die("%s", path);
	return file;
}

static void whole(ssize_t did, size_t wanted, const char *what)
{
	if (did != (ssize_t)wanted)
		die("%s: %zd of %zu", what, did, wanted);
}

static void read_all(int file)
{
	for (size_t left = 1000003; left;) {
		size_t part = left < 4099 ? left : 4099;
		whole(read(file, buffer, part), part, "read");
		left -= part;
	}
}

static void opens(const char *path, uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		int file = open_or_die(path, O_RDONLY);
		whole(read(file, buffer, 7), 7, "read");
		close(file);
	}
}

static void strided(const char *path, uint64_t times, uint64_t stride)
{
	int file = open_or_die(path, O_RDONLY);
	for (uint64_t i = 0; i < times; i++)
		whole(pread(file, buffer, 100, i * stride), 100, "pread");
}

static void again(const char *path, uint64_t times, bool reopens)
{
	int file = open_or_die(path, O_RDONLY);
	for (uint64_t i = 0; i < times; i++) {
		if (i && reopens) {
			close(file);
			file = open_or_die(path, O_RDONLY);
		} else if (i) {
			lseek(file, 0, SEEK_SET);
		}
		read_all(file);
	}
}

static void joined(const char *path)
{
	static const struct { off_t at; size_t bytes; } reads[] = {
		{ 1000, 100 }, { 0, 100 }, { 200, 100 }, { 100, 100 }, { 300, 800 },
	};
	int file = open_or_die(path, O_RDONLY);
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
		whole(pread(file, buffer, reads[i].bytes, reads[i].at), reads[i].bytes, "pread");
}

static void syncs(const char *path, uint64_t times)
{
	int file = open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC);
	for (uint64_t i = 0; i < times; i++) {
		whole(write(file, buffer, 100), 100, "write");
		if (fsync(file))
			die("fsync");
	}
}

static char *map(int file, uint64_t bytes, int protection)
{
	char *start = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
	if (start == MAP_FAILED)
		die("mmap");
	return start;
}

static void mapped(const char *path, uint64_t bytes)
{
	read_pages(map(open_or_die(path, O_RDONLY), bytes, PROT_READ), bytes);
}

static void inherited(const char *path)
{
	char *start = map(open_or_die(path, O_RDONLY), 1000003, PROT_READ);
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		read_pages(start, 1000003);
		_exit(0);
	}
	int status;
	if (waitpid(child, &status, 0) != child || status)
		die("the child ended with %d", status);
}

static void hand(const char *path, const char *to)
{
	char *start = map(open_or_die(path, O_RDONLY), 1000003, PROT_READ);
	whole(write(open_or_die(to, O_WRONLY | O_CREAT | O_TRUNC), start, 1000003), 1000003, "write");
}

static void cut(const char *path, uint64_t bytes)
{
	if (truncate(path, bytes))
		die("truncate");
}

static void store(const char *path, uint64_t pages)
{
	int file = open_or_die(path, O_RDWR | O_CREAT | O_TRUNC);
	if (ftruncate(file, pages * 4096))
		die("ftruncate");
	char *start = map(file, pages * 4096, PROT_READ | PROT_WRITE);
	for (uint64_t page = 0; page < pages; page += 3)
		start[page * 4096] = 1;
}

static void sparse(const char *path, uint64_t pages)
{
	int file = open_or_die(path, O_RDWR | O_CREAT | O_TRUNC);
	if (ftruncate(file, pages * 4096))
		die("ftruncate");
	read_pages(map(file, pages * 4096, PROT_READ), pages * 4096);
}

static void shared(const char *path, uint64_t children)
{
	int file = open_or_die(path, O_RDONLY);
	for (uint64_t i = 0; i < children; i++) {
		pid_t child = fork();
		if (!child) {
			for (int j = 0; j < 10; j++)
				whole(read(file, buffer, 1009), 1009, "read");
			_exit(0);
		}
		/* One after the other: the order of the readers is known. */
		reap(child);
	}
}

static const char *shared_path;
static int shared_file;

static void *one_thread(void *number)
{
	char own[4099];
	uint64_t times = (uintptr_t)number;
	int file = open_or_die(shared_path, O_RDONLY);
	whole(read(file, own, 7), 7, "read");
	close(file);
	for (uint64_t i = 0; i < times; i++)
		whole(pread(shared_file, own, sizeof own, times * 10007), sizeof own, "pread");
	return NULL;
}

static void by_threads(const char *path, uint64_t threads)
{
	pthread_t all[64];
	if (threads > 64)
		die("no more than 64 threads");
	shared_path = path;
	shared_file = open_or_die(path, O_RDONLY);
	for (uint64_t i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, one_thread, (void *)(uintptr_t)(i + 1)))
			die("pthread_create");
	for (uint64_t i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	close(shared_file);
}

static uint64_t times_each;

static void *one_of_storm(void *unused)
{
	char own[7];
	for (uint64_t i = 0; i < times_each; i++) {
		int file = open_or_die(shared_path, O_RDONLY);
		whole(read(file, own, sizeof own), sizeof own, "read");
		close(file);
	}
	return unused;
}

static void storm(const char *path, uint64_t times)
{
	pthread_t all[4];
	shared_path = path;
	times_each = times;
	for (int i = 0; i < 4; i++)
		if (pthread_create(&all[i], NULL, one_of_storm, NULL))
			die("pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
}

static void deleted(const char *path)
{
	int file = open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC);
	if (unlink(path))
		die("unlink");
	whole(write(file, buffer, 12347), 12347, "write");
}

static void many(const char *path, uint64_t files, bool at_once)
{
	struct rlimit limit = { files + 64, files + 64 };
	if (at_once && setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
	int *opened = calloc(files, sizeof *opened);
	for (uint64_t i = 0; i < files; i++) {
		char name[4096];
		snprintf(name, sizeof name, "%s.%llu", path, (unsigned long long)i);
		opened[i] = open_or_die(name, O_WRONLY | O_CREAT | O_TRUNC);
		whole(write(opened[i], buffer, 11), 11, "write");
		if (!at_once)
			close(opened[i]);
	}
	for (uint64_t i = 0; at_once && i < files; i++)
		close(opened[i]);
}

static void metadata(const char *path)
{
	int file = open_or_die(path, O_WRONLY | O_CREAT);
	struct stat facts;
	for (int i = 0; i < 23; i++)
		lseek(file, i, SEEK_SET);
	for (int i = 0; i < 19; i++)
		fstat(file, &facts);
	for (int i = 0; i < 3; i++)
		if (ftruncate(file, 100 - i))
			die("ftruncate");
	for (int i = 0; i < 5; i++)
		if (read(file, buffer, 10) >= 0)
			die("a file that was opened to be written can be read");
}

static void reader(const char *path)
{
	int file = open_or_die(path, O_RDONLY);
	while (read(file, buffer, sizeof buffer) > 0)
		;
}

static void wait_for_ever(const char *path)
{
	int file = open_or_die(path, O_RDONLY);
	for (int i = 0; i < 10; i++)
		whole(read(file, buffer, 10), 10, "read");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("usage: access WAY PATH [NUMBER [NUMBER]]; see access.c");
	const char *way = argv[1], *path = argv[2];
	if (argc > 3 && !strcmp(way, "hand")) {
		hand(path, argv[3]);
		return 0;
	}
	uint64_t first = argc > 3 ? number(argv[3], "NUMBER") : 0;
	uint64_t second = argc > 4 ? number(argv[4], "NUMBER") : 0;
	if (!strcmp(way, "opens"))
		opens(path, first);
	else if (!strcmp(way, "strided"))
		strided(path, first, second);
	else if (!strcmp(way, "again") || !strcmp(way, "reopened"))
		again(path, first, !strcmp(way, "reopened"));
	else if (!strcmp(way, "joined"))
		joined(path);
	else if (!strcmp(way, "syncs"))
		syncs(path, first);
	else if (!strcmp(way, "map"))
		mapped(path, 1000003);
	else if (!strcmp(way, "inherit"))
		inherited(path);
	else if (!strcmp(way, "cut-mapped"))
		map(open_or_die(path, O_RDONLY), 1000003, PROT_READ), cut(path, first);
	else if (!strcmp(way, "cut"))
		cut(path, first);
	else if (!strcmp(way, "store"))
		store(path, first);
	else if (!strcmp(way, "sparse"))
		sparse(path, first);
	else if (!strcmp(way, "shared"))
		shared(path, first);
	else if (!strcmp(way, "threads"))
		by_threads(path, first);
	else if (!strcmp(way, "storm"))
		storm(path, first);
	else if (!strcmp(way, "deleted"))
		deleted(path);
	else if (!strcmp(way, "many") || !strcmp(way, "each"))
		many(path, first, !strcmp(way, "many"));
	else if (!strcmp(way, "metadata"))
		metadata(path);
	else if (!strcmp(way, "reader"))
		reader(path);
	else if (!strcmp(way, "wait"))
		wait_for_ever(path);
	else
		die("no way is called %s", way);
	return 0;
}
