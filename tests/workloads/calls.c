/*
 * Calls in exact amounts, and how long some of them took by the program's own clock.
 *
 * usage: calls FILE [GETPPIDS]
 *
 * 23 reads of 4,099 bytes of FILE, which it makes; 17 writes of 1,009 bytes; 7 sleeps of 20 ms;
 * 5 fsyncs, each after a write; 1,001 getppids, or as many as asked for; 3 reads that fail.
 *
 * Truth: how many of each call (`read` and so on), read_bytes, read_errors, write_bytes, and the
 * nanoseconds from before to after all calls of a kind: fsync_ns, clock_nanosleep_ns.
 */
#include "common.h"

static void must(long long got, long long expected, const char *what)
{
	if (got != expected)
		die(what);
}

int main(int argc, char **argv)
{
	static char bytes[94277]; /* 23 x 4,099 */
	uint64_t began, slept = 0, synced = 0;
	struct timespec pause = { .tv_nsec = 20000000 };
	long getppids = argc == 3 ? atol(argv[2]) : 1001;
	int file;

	if (argc < 2 || argc > 3)
		die("usage: calls FILE [GETPPIDS]");
	file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(pwrite(file, bytes, sizeof(bytes), 0), sizeof(bytes), "pwrite");
	for (int i = 0; i < 23; i++)
		must(read(file, bytes, 4099), 4099, "read");
	for (int i = 0; i < 17; i++)
		must(write(file, bytes, 1009), 1009, "write");
	for (int i = 0; i < 3; i++)
		must(read(-1, bytes, 1), -1, "a read of nothing");
	for (int i = 0; i < 5; i++) {
		must(pwrite(file, bytes, 70001, i * 70001), 70001, "pwrite");
		began = clock_ns(CLOCK_MONOTONIC);
		must(fsync(file), 0, "fsync");
		synced += clock_ns(CLOCK_MONOTONIC) - began;
	}
	for (int i = 0; i < 7; i++) {
		began = clock_ns(CLOCK_MONOTONIC);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
		slept += clock_ns(CLOCK_MONOTONIC) - began;
	}
	for (int i = 0; i < getppids; i++)
		syscall(SYS_getppid);
	truth("read", 26);
	truth("read_bytes", 23 * 4099);
	truth("read_errors", 3);
	truth("write_bytes", 17 * 1009);
	truth("pwrite64", 6);
	truth("fsync", 5);
	truth("fsync_ns", synced);
	truth("clock_nanosleep", 7);
	truth("clock_nanosleep_ns", slept);
	truth("getppid", getppids);
	truth_tell();
	return 0;
}
