/* signals [COUNT]
 *
 * Blocks all signals but those of job control, CHLD, KILL and STOP, says "ready PID" on stdout, then
 * "signal NAME" for each that comes (one line, one write), with "value N" if it was queued with one.
 * Ends with 0 after COUNT signals (default 1), with 3 if none came for 10 s.
 *
 * signals send PID SIGNAL VALUE: sends a signal by sigqueue(3). */
#include "common.h"

#include <signal.h>

static void send_one(char **argv)
{
	union sigval value = { .sival_int = number(argv[4], "VALUE") };
	if (sigqueue(number(argv[2], "PID"), number(argv[3], "SIGNAL"), value))
		die("sigqueue");
}

static void say(const siginfo_t *info)
{
	char name[16] = "", value[32] = "";
	const char *known = sigabbrev_np(info->si_signo);
	if (!known)
		snprintf(name, sizeof name, "RT%d", info->si_signo);
	if (info->si_code == SI_QUEUE)
		snprintf(value, sizeof value, " value %d", info->si_value.sival_int);
	dprintf(STDOUT_FILENO, "signal %s%s\n", known ? known : name, value);
}

int main(int argc, char **argv)
{
	static const int LEFT[] = { SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD };
	struct timespec patience = { 10, 0 };
	siginfo_t info;
	sigset_t set;
	if (argc == 5 && !strcmp(argv[1], "send")) {
		send_one(argv);
		return 0;
	}
	uint64_t count = argc > 1 ? number(argv[1], "COUNT") : 1;
	sigfillset(&set);
	for (size_t i = 0; i < sizeof LEFT / sizeof *LEFT; i++)
		sigdelset(&set, LEFT[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	dprintf(STDOUT_FILENO, "ready %d\n", getpid());
	for (uint64_t i = 0; i < count; i++) {
		if (sigtimedwait(&set, &info, &patience) < 0)
			return 3;
		say(&info);
	}
	return 0;
}
