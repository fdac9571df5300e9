/* daemon MS PATH [UNTIL]
 *
 * Forks a child that calls setsid and forks a daemon; program and child end at once. The daemon
 * (its standard streams on /dev/null) lives for MS ms after that, and until there is a file UNTIL:
 * it burns 20 ms of CPU, sleeps, and just before it ends writes 1,000,003 bytes to PATH (created, truncated) in 16 writes of
 * 65,536 bytes at most.
 *
 * Truth, told by the program, for program and daemon together: processes_total,
 * daemon_written_bytes, daemon_write_calls, daemon_cpu_ns_at_least, daemon_pid (as the program
 * sees it). Not in it: the one write that tells it, and a write and a read of 4 bytes that carry the PID. */
#include "common.h"

enum { WRITTEN = 1000003, CHUNK = 65536, BURN_NS = 20000000 };

static void live(uint64_t ms, const char *path, const char *until, uint64_t start)
{
	static char buffer[CHUNK];
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < BURN_NS)
		;
	uint64_t now = clock_ns(CLOCK_MONOTONIC), end = start + ms * 1000000;
	if (now < end)
		sleep_us((end - now) / 1000);
	while (until && access(until, F_OK))
		sleep_us(10000);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		_exit(1);
	for (uint32_t left = WRITTEN; left;) {
		ssize_t n = write(fd, buffer, left < CHUNK ? left : CHUNK);
		if (n <= 0)
			_exit(1);
		left -= n;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		die("usage: daemon MS PATH [UNTIL]");
	uint64_t ms = number(argv[1], "MS");
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	int link[2];
	pid_t daemon;
	if (pipe2(link, O_CLOEXEC))
		die("pipe2");
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		if (setsid() < 0)
			die("setsid");
		daemon = fork();
		if (daemon == 0)
			live(ms, argv[2], argv[3], start);
		_exit(daemon < 0 || write(link[1], &daemon, sizeof daemon) != sizeof daemon);
	}
	if (read(link[0], &daemon, sizeof daemon) != sizeof daemon)
		die("no daemon was started");
	reap(child);
	truth("processes_total", 3);
	truth("daemon_written_bytes", WRITTEN);
	truth("daemon_write_calls", (WRITTEN + CHUNK - 1) / CHUNK);
	truth("daemon_cpu_ns_at_least", BURN_NS);
	truth("daemon_pid", daemon);
	truth_tell();
	return 0;
}
