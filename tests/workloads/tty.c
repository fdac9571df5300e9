/* tty
 *
 * Says on stdout, as key=value lines, what a program finds when it starts: whether the standard
 * streams are terminals, the window size, process group, foreground, session, dispositions of
 * signals (those ignored), blocked signals, umask, nice, working directory, arguments, parent, and
 * the open file descriptors with what they are. Two runs of it, one bare and one measured, must
 * say the same but for PIDs. */
#include "common.h"

#include <dirent.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

static void signals(const char *key, bool (*is)(int))
{
	printf("%s=", key);
	for (int s = 1, first = 1; s < SIGRTMIN; s++)
		if (is(s)) {
			printf("%s%s", first ? "" : ",", sigabbrev_np(s) ? sigabbrev_np(s) : "?");
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

int main(int argc, char **argv)
{
	struct winsize size;
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
	printf("cwd=%s\n", getcwd(directory, sizeof directory) ? directory : "?");
	for (int i = 0; i < argc; i++)
		printf("arg%d=%s\n", i, argv[i]);
	printf("pid=%d\nparent=%d\ngroup=%d\nsession=%d\n", getpid(), getppid(), getpgrp(), getsid(0));
	open_files();
	return 0;
}
