/* trace
 *
 * Traces a child of its own: it asks for that, stops at its exec of TRUE, and is let go on. Ends with
 * status 0 only if it stopped there and ended with 0.
 *
 * TRUE is /bin/true, or the environment variable TRUE.
 *
 * Truth: processes_total. */
#include "common.h"

#include <signal.h>
#include <sys/ptrace.h>

int main(void)
{
	const char *true_path = getenv("TRUE") ? getenv("TRUE") : "/bin/true";
	int status;
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			die("ptrace");
		execl(true_path, "true", (char *)NULL);
		die("%s", true_path);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		die("the child should have stopped");
	if (ptrace(PTRACE_CONT, child, NULL, NULL))
		die("ptrace");
	reap(child);
	truth("processes_total", 2);
	truth_tell();
	return 0;
}
