/*
 * Writers whose bytes reach the device later, in exact amounts.
 *
 * usage: writers KIND FOLDER
 *
 *   one         writes 10,000,019 bytes to a file, 64 KiB at a time
 *   two         two processes write 10,000,019 and 30,000,007 bytes to a file each; a third, which
 *               writes nothing, calls fsync on both
 *   pages       two processes write a file's pages in turn: one the even, one the odd, 1,001 each
 *   stores      a process stores one byte in each of 1,201 mapped pages, another in 601
 *   twice       writes 1,000,003 bytes, and once more to the same place, in other steps
 *   deleted     writes 3,000,017 bytes and removes the file
 *   shared      two processes write 1,229 and 2,867 bytes of each of 503 pages
 *   crowd       29 processes, one after the other, write 139 bytes to each of five pages
 *   log         48 processes, one after the other, append a page each
 *   synced      writes 100 times 10,007 bytes, each to its own place and at once on the device
 *   rewritten   rewrites the same 64 KiB 64 times with pauses, and fdatasync by another process
 *   started     has the file's dirty pages sent to the device, and does not wait for it
 *   small       writes 64 KiB again and again to the same place, COUNT (third argument) times
 *
 * Truth: first, second: the processes' numbers; first_pages, second_pages: pages that they wrote
 * to at least once; first_bytes, second_bytes: what their calls returned; and for `small` cpu_ns,
 * the time on the CPU between the first write's end and the last.
 */
#include "common.h"

#define PAGE 4096
#define STEP 65536
#define LARGE 10000019
#define LARGER 30000007

static char bytes[1 << 20];

static int open_file(const char *folder, const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0)
		die("%s", path);
	return file;
}

static uint64_t put(int file, uint64_t size, uint64_t at, uint64_t step)
{
	uint64_t done = 0;
	while (done < size) {
		uint64_t now = size - done < step ? size - done : step;
		if (pwrite(file, bytes, now, at + done) != (ssize_t)now)
			die("pwrite");
		done += now;
	}
	return done;
}

static uint64_t pages(uint64_t size)
{
	return (size + PAGE - 1) / PAGE;
}

/* A process, and what it says of itself. */
static pid_t writer(const char *who, uint64_t its_pages, uint64_t (*work)(int file), int file)
{
	char key[64];
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		truth(who, getpid());
		snprintf(key, sizeof(key), "%s_bytes", who);
		truth(key, work(file));
		snprintf(key, sizeof(key), "%s_pages", who);
		truth(key, its_pages);
		truth_tell();
		exit(0);
	}
	return child;
}

static uint64_t put_large(int file) { return put(file, LARGE, 0, STEP); }
static uint64_t put_larger(int file) { return put(file, LARGER, 0, 50021); }
static uint64_t put_twice(int file) { return put(file, 1000003, 0, STEP) + put(file, 1000003, 0, 7001); }

static uint64_t put_turns(int file, int first)
{
	uint64_t sum = 0;
	for (int i = 0; i < 1001; i++)
		sum += put(file, PAGE, (2 * i + first) * (uint64_t)PAGE, PAGE);
	return sum;
}

static uint64_t put_even(int file) { return put_turns(file, 0); }
static uint64_t put_odd(int file) { return put_turns(file, 1); }

static uint64_t store(int file, int first, int count)
{
	char *map = mmap(NULL, (first + count) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED)
		die("mmap");
	for (int i = first; i < first + count; i++)
		map[i * PAGE + 77] = 1;
	munmap(map, (first + count) * PAGE);
	return count;
}

static uint64_t store_first(int file) { return store(file, 0, 1201); }
static uint64_t store_second(int file) { return store(file, 1216, 601); }

static uint64_t put_share(int file, int at, int size)
{
	uint64_t sum = 0;
	for (int i = 0; i < 503; i++)
		sum += put(file, size, (uint64_t)i * PAGE + at, size);
	return sum;
}

static uint64_t put_less(int file) { return put_share(file, 0, 1229); }
static uint64_t put_more(int file) { return put_share(file, 1229, 2867); }

/* Which of the crowd it is. */
static int place;

static uint64_t put_beside(int file)
{
	uint64_t sum = 0;
	for (int i = 0; i < 5; i++)
		sum += put(file, 139, (uint64_t)i * PAGE + place * 139, 139);
	return sum;
}

static uint64_t append_page(int file) { return put(file, PAGE, (uint64_t)place * PAGE, PAGE); }

static uint64_t put_synced(int file)
{
	uint64_t sum = 0;
	for (int i = 0; i < 100; i++)
		sum += put(file, 10007, (uint64_t)i * 3 * PAGE, 10007);
	return sum;
}

static uint64_t rewrite(int file)
{
	uint64_t sum = 0;
	for (int i = 0; i < 64; i++) {
		sum += put(file, STEP, 0, STEP);
		sleep_us(3000);
	}
	return sum;
}

static uint64_t nothing(int file)
{
	if (fsync(file))
		die("fsync");
	return 0;
}

static uint64_t sync_often(int file)
{
	for (int i = 0; i < 40; i++) {
		if (fdatasync(file))
			die("fdatasync");
		sleep_us(2000);
	}
	return 0;
}

static void small(int file, uint64_t count)
{
	put(file, STEP, 0, STEP);
	uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (uint64_t i = 0; i < count; i++)
		put(file, STEP, 0, STEP);
	truth("cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
	truth_tell();
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc > 4)
		die("usage: writers KIND FOLDER [COUNT]");
	const char *kind = argv[1], *folder = argv[2];
	int file = open_file(folder, "file");
	memset(bytes, 'w', sizeof(bytes));
	if (!strcmp(kind, "one")) {
		reap(writer("first", pages(LARGE), put_large, file));
	} else if (!strcmp(kind, "two")) {
		int other = open_file(folder, "other");
		pid_t first = writer("first", pages(LARGE), put_large, file);
		reap(writer("second", pages(LARGER), put_larger, other));
		reap(first);
		first = writer("third", 0, nothing, file);
		reap(writer("fourth", 0, nothing, other));
		reap(first);
	} else if (!strcmp(kind, "pages")) {
		pid_t first = writer("first", 1001, put_even, file);
		reap(writer("second", 1001, put_odd, file));
		reap(first);
	} else if (!strcmp(kind, "stores")) {
		if (ftruncate(file, 2000 * PAGE))
			die("ftruncate");
		pid_t first = writer("first", 1201, store_first, file);
		reap(writer("second", 601, store_second, file));
		reap(first);
	} else if (!strcmp(kind, "twice")) {
		reap(writer("first", pages(1000003), put_twice, file));
	} else if (!strcmp(kind, "deleted")) {
		put(file, 3000017, 0, STEP);
		char path[4096];
		snprintf(path, sizeof(path), "%s/file", folder);
		close(file);
		if (unlink(path))
			die("unlink");
		truth_tell();
	} else if (!strcmp(kind, "shared")) {
		reap(writer("first", 503, put_less, file));
		reap(writer("second", 503, put_more, file));
	} else if (!strcmp(kind, "crowd")) {
		for (place = 0; place < 29; place++) {
			char who[32];
			snprintf(who, sizeof(who), "writer_%d", place);
			reap(writer(who, 5, put_beside, file));
		}
	} else if (!strcmp(kind, "log")) {
		for (place = 0; place < 48; place++) {
			char who[32];
			snprintf(who, sizeof(who), "writer_%d", place);
			reap(writer(who, 1, append_page, file));
		}
	} else if (!strcmp(kind, "synced")) {
		char path[64];
		if (ftruncate(file, 300 * PAGE))
			die("ftruncate");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		int synced = open(path, O_RDWR | O_SYNC);
		if (synced < 0)
			die("%s", path);
		reap(writer("first", 300, put_synced, synced));
	} else if (!strcmp(kind, "rewritten")) {
		pid_t first = writer("first", 16, rewrite, file);
		reap(writer("second", 0, sync_often, file));
		reap(first);
	} else if (!strcmp(kind, "started")) {
		if (sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE))
			die("sync_file_range");
	} else if (!strcmp(kind, "small")) {
		small(file, number(argv[3], "COUNT"));
	} else {
		die("'%s' is no kind: see the top of writers.c", kind);
	}
	return 0;
}
