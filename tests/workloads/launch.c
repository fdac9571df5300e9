/* Starts a command with what launchers leave to those whom they start.
 *
 *   launch WHAT... -- COMMAND...
 *
 *   ignore=N[,N...]   signals are ignored; all: all that can be
 *   block=N[,N...]    signals are blocked; all: all that can be
 *   close=N[,N...]    descriptors are closed
 *   alarm=SECONDS     an interval timer of real time runs, once; timers=SECONDS: all three, again and again
 *   soft=R:N, hard=R:N   the limit that setrlimit(2) knows by the number R: the soft one, or both
 *   subreaper         orphans of its descendants become its children
 *   parent-death=N    it gets this signal when its parent ends
 *   user              becomes nobody; done last
 */
#include "common.h"

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

enum { NOBODY = 65534 };

/* Calls it with each number of a list; `all` is every signal. */
static void each(const char *list, void (*with)(int))
{
	char *end;
	if (!strcmp(list, "all")) {
		for (int signal = 1; signal <= SIGRTMAX; signal++)
			with(signal);
		return;
	}
	for (; *list; list = *end ? end + 1 : end)
		with(strtol(list, &end, 10));
}

static void ignore(int number)
{
	signal(number, SIG_IGN);
}

static void block(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void close_it(int number)
{
	close(number);
}

static void timer(int which, const char *seconds, bool is_repeated)
{
	struct itimerval timer = { .it_value.tv_sec = number(seconds, "SECONDS") };
	if (is_repeated)
		timer.it_interval = timer.it_value;
	if (setitimer(which, &timer, NULL))
		die("setitimer");
}

static void limit(const char *text, bool is_hard)
{
	struct rlimit limit;
	char *end;
	int resource = strtol(text, &end, 10);
	rlim_t value = strtoull(end + 1, NULL, 10);
	if (getrlimit(resource, &limit))
		die("getrlimit");
	limit.rlim_cur = value;
	if (is_hard)
		limit.rlim_max = value;
	if (setrlimit(resource, &limit))
		die("setrlimit %s", text);
}

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		die("become nobody");
}

int main(int argc, char **argv)
{
	int at = 1;
	for (; at < argc && strcmp(argv[at], "--"); at++) {
		const char *what = argv[at], *value = strchr(what, '=');
		value = value ? value + 1 : "";
		if (!strncmp(what, "ignore=", 7))
			each(value, ignore);
		else if (!strncmp(what, "block=", 6))
			each(value, block);
		else if (!strncmp(what, "close=", 6))
			each(value, close_it);
		else if (!strncmp(what, "alarm=", 6))
			timer(ITIMER_REAL, value, false);
		else if (!strncmp(what, "timers=", 7))
			for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
				timer(which, value, true);
		else if (!strncmp(what, "soft=", 5))
			limit(value, false);
		else if (!strncmp(what, "hard=", 5))
			limit(value, true);
		else if (!strcmp(what, "subreaper"))
			prctl(PR_SET_CHILD_SUBREAPER, 1);
		else if (!strncmp(what, "parent-death=", 13))
			prctl(PR_SET_PDEATHSIG, number(value, "N"));
		else if (!strcmp(what, "user"))
			become_nobody();
		else
			die("no such state: %s", what);
	}
	if (at + 1 >= argc)
		die("usage: launch WHAT... -- COMMAND...");
	execvp(argv[at + 1], argv + at + 1);
	die("%s", argv[at + 1]);
}
