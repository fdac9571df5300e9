/* tty
 *
 * Says as key=value lines what a program finds when it starts: whether the standard streams are
 * terminals, the window size, process group, foreground, session, dispositions of signals (those
 * ignored), blocked signals, umask, nice, limits, running interval timers, working directory,
 * arguments, parent, attributes that prctl(2), the scheduler and /proc/self tell of, keyrings, timers, children, names
 * of variables, and the open file descriptors with what they are. Two runs of it, one bare and
 * one measured, must say the same but for PIDs. By one write(2) to stdout, or to the file that
 * TTY_FILE names. Ends with the status that TTY_STATUS says (default 0). */
#include "common.h"

#include <dirent.h>
#include <linux/keyctl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <termios.h>

static void signals(const char *key, bool (*is)(int))
{
	printf("%s=", key);
	for (int s = 1, first = 1; s <= SIGRTMAX; s++)
		if (is(s)) {
			const char *name = sigabbrev_np(s);
			name ? printf("%s%s", first ? "" : ",", name) : printf("%sRT%d", first ? "" : ",", s);
			first = 0;
		}
	printf("\n");
}

static bool is_ignored(int s)
{
	struct sigaction action;
	return sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static bool is_blocked(int s)
{
	sigset_t set;
	sigprocmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, s) == 1;
}

static void open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	if (!directory)
		die("/proc/self/fd");
	while ((entry = readdir(directory))) {
		char target[4096];
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(directory))
			continue;
		ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		printf("fd%s=%s\n", entry->d_name, target);
	}
	closedir(directory);
}

static void limits(void)
{
	struct rlimit limit;
	for (int resource = 0; resource < RLIM_NLIMITS; resource++)
		if (getrlimit(resource, &limit) == 0)
			printf("limit%d=%jd:%jd\n", resource, (intmax_t)limit.rlim_cur, (intmax_t)limit.rlim_max);
}

static void timers(void)
{
	struct itimerval timer;
	for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
		if (getitimer(which, &timer) == 0)
			printf("timer%d=%d every %jd\n", which, timer.it_value.tv_sec || timer.it_value.tv_usec,
			       (intmax_t)timer.it_interval.tv_sec);
}

/* Those that an exec keeps, whether or not a fork does. */
static void attributes(void)
{
	int subreaper = -1, death = -1;
	prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
	prctl(PR_GET_PDEATHSIG, &death);
	printf("subreaper=%d\nparent_death_signal=%d\n", subreaper, death);
	printf("dumpable=%d\nsecurebits=%d\nthp_disabled=%d\ntimer_slack=%d\n", prctl(PR_GET_DUMPABLE),
	       prctl(PR_GET_SECUREBITS), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK));
	printf("speculation=%d,%d\n", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0),
	       prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 0, 0, 0));
	printf("personality=%x\nsecure=%lu\n", personality(0xffffffff), getauxval(AT_SECURE));

	struct sched_param parameter = { 0 };
	sched_getparam(0, &parameter);
	printf("scheduling=%x priority %d\n", sched_getscheduler(0), parameter.sched_priority);
	printf("io_priority=%ld\n", syscall(SYS_ioprio_get, 1, 0));
	int policy = -1;
	syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0);
	printf("memory_policy=%d\n", policy);
	printf("session_keyring=%ld\n", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
	printf("process_keyring=%d\n", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0) > 0);
}

/* Of a file of /proc/self the lines that begin so; all where that is "". */
static void lines_of(const char *path, const char *const *wanted)
{
	char line[4096];
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		for (const char *const *key = wanted; *key; key++)
			if (strncmp(line, *key, strlen(*key)) == 0)
				printf("%s %s", path, line);
	if (file)
		fclose(file);
}

static void of_proc(void)
{
	const char *const status[] = { "TracerPid", "Uid", "Gid", "Groups", "Threads", "SigPnd", "ShdPnd", "SigCgt",
				       "Cap", "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed_list", "Mems_allowed_list",
				       "CoreDumping", "THP_enabled", "untag_mask", "x86_Thread", "Umask", NULL };
	const char *const all[] = { "", NULL };
	lines_of("/proc/self/status", status);
	for (const char *const *name = (const char *const[]){ "oom_score_adj", "oom_adj", "coredump_filter", "cgroup",
		"timers", "timens_offsets", "autogroup", "loginuid", "sessionid", "setgroups", "uid_map", "cpuset",
		"attr/current", NULL }; *name; name++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/self/%s", *name);
		lines_of(path, all);
	}
	for (const char *const *name = (const char *const[]){ "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children",
		"time", "time_for_children", "user", "uts", NULL }; *name; name++) {
		char path[64], target[64] = "";
		snprintf(path, sizeof path, "/proc/self/ns/%s", *name);
		if (readlink(path, target, sizeof target - 1) > 0)
			printf("%s\n", target);
	}
}

static void names_of_variables(void)
{
	for (char **entry = environ; *entry; entry++)
		printf("variable=%.*s\n", (int)strcspn(*entry, "="), *entry);
}

static void say(const char *text, size_t length)
{
	const char *file = getenv("TTY_FILE");
	int to = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666) : STDOUT_FILENO;
	if (to < 0 || write(to, text, length) != (ssize_t)length)
		die("%s", file ? file : "stdout");
}

int main(int argc, char **argv)
{
	struct winsize size;
	char *text;
	size_t length;
	FILE *said = stdout = open_memstream(&text, &length);
	char directory[4096];
	mode_t mask = umask(0);
	for (int fd = 0; fd < 3; fd++)
		printf("isatty%d=%d\n", fd, isatty(fd));
	int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
	printf("controlling_terminal=%d\n", terminal >= 0);
	if (terminal >= 0) {
		if (ioctl(terminal, TIOCGWINSZ, &size) == 0)
			printf("rows=%d\ncolumns=%d\n", size.ws_row, size.ws_col);
		printf("foreground=%d\n", tcgetpgrp(terminal) == getpgrp());
		close(terminal);
	}
	printf("group_leader=%d\nsession_leader=%d\n", getpgrp() == getpid(), getsid(0) == getpid());
	signals("ignored", is_ignored);
	signals("blocked", is_blocked);
	printf("umask=%04o\nnice=%d\n", mask, getpriority(PRIO_PROCESS, 0));
	limits();
	timers();
	attributes();
	of_proc();
	names_of_variables();
	printf("children=%d\n", waitpid(-1, NULL, WNOHANG) >= 0);
	printf("cwd=%s\n", getcwd(directory, sizeof directory) ? directory : "?");
	for (int i = 0; i < argc; i++)
		printf("arg%d=%s\n", i, argv[i]);
	printf("pid=%d\nparent=%d\ngroup=%d\nsession=%d\n", getpid(), getppid(), getpgrp(), getsid(0));
	open_files();
	if (!said || fclose(said))
		die("memory");
	say(text, length);
	return getenv("TTY_STATUS") ? number(getenv("TTY_STATUS"), "TTY_STATUS") : 0;
}
