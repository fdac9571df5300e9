/* hangup FILE COMMAND [ARGUMENTS...]
 *
 * Runs COMMAND as the leader of a session with a terminal of its own, reads what it shows, and takes
 * the terminal away once FILE exists. Waits for COMMAND, and says on stdout how it ended:
 * `exited N` or `signal N`. */
#include "common.h"

#include <poll.h>
#include <pty.h>

int main(int argc, char **argv)
{
	int terminal, status;
	char shown[4096];
	if (argc < 3)
		die("usage: hangup FILE COMMAND [ARGUMENTS...]");
	pid_t child = forkpty(&terminal, NULL, NULL, NULL);
	if (child < 0)
		die("forkpty");
	if (child == 0) {
		execvp(argv[2], argv + 2);
		die("%s", argv[2]);
	}
	while (access(argv[1], F_OK)) {
		struct pollfd shows = { .fd = terminal, .events = POLLIN };
		if (poll(&shows, 1, 5) > 0 && read(terminal, shown, sizeof shown) <= 0)
			break;
	}
	close(terminal);
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	if (WIFEXITED(status))
		printf("exited %d\n", WEXITSTATUS(status));
	else
		printf("signal %d\n", WTERMSIG(status));
	return 0;
}
