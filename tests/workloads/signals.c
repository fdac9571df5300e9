/* signals [COUNT]
 *
 * Blocks HUP INT QUIT USR1 USR2 TERM CONT WINCH ALRM, says "ready PID" on stdout, then
 * "signal NAME" for each that comes (one line, one write). Ends with 0 after COUNT signals
 * (default 1), with 3 if none came for 10 s. */
#include "common.h"

#include <signal.h>

int main(int argc, char **argv)
{
	static const int WANTED[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT, SIGWINCH, SIGALRM };
	uint64_t count = argc > 1 ? number(argv[1], "COUNT") : 1;
	struct timespec patience = { 10, 0 };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
		sigaddset(&set, WANTED[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	dprintf(STDOUT_FILENO, "ready %d\n", getpid());
	for (uint64_t i = 0; i < count; i++) {
		int signal = sigtimedwait(&set, NULL, &patience);
		if (signal < 0)
			return 3;
		dprintf(STDOUT_FILENO, "signal %s\n", sigabbrev_np(signal));
	}
	return 0;
}
