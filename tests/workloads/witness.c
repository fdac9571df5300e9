/* witness COMMAND [ARGS…]
 *
 * No workload: runs COMMAND and says what the kernel itself has counted for it and for all its
 * descendants that were waited for, as key=value lines on stdout. I/O from /proc/PID/io of the
 * ended process before it is reaped (needs root or the same user), the rest from wait4(2).
 * Ends with the status of COMMAND (128 + signal if one ended it). */
#include "common.h"

#include <signal.h>

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: witness COMMAND [ARGS...]");
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[1], argv + 1);
		die("%s", argv[1]);
	}
	siginfo_t info;
	if (child < 0 || waitid(P_PID, child, &info, WEXITED | WNOWAIT))
		die("waiting for %s", argv[1]);
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/io", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0)
		die("%s", path);
	text[n] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *colon = strstr(line, ": ");
		if (colon)
			printf("%.*s=%s\n", (int)(colon - line), line, colon + 2);
	}
	int status;
	struct rusage use;
	if (wait4(child, &status, 0, &use) < 0)
		die("wait4");
	printf("maxrss_bytes=%ld\n", use.ru_maxrss * 1024);
	printf("user_us=%ld\n", use.ru_utime.tv_sec * 1000000 + use.ru_utime.tv_usec);
	printf("system_us=%ld\n", use.ru_stime.tv_sec * 1000000 + use.ru_stime.tv_usec);
	printf("voluntary_switches=%ld\n", use.ru_nvcsw);
	printf("involuntary_switches=%ld\n", use.ru_nivcsw);
	printf("minor_faults=%ld\n", use.ru_minflt);
	printf("major_faults=%ld\n", use.ru_majflt);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
