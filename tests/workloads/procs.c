/* procs N [HOW]
 *
 * Makes N short-lived processes in one of the ways below, one after the other unless said
 * otherwise, waits until all have ended, and ends. HOW:
 *
 *   fork          fork, the child _exits (default)
 *   vfork         vfork
 *   posix_spawn   posix_spawn of TRUE
 *   clone3        the clone3 system call
 *   exec          fork, the child executes TRUE
 *   reexec        no new process: the program executes itself N times
 *   thread-exec   fork; a second thread of the child executes TRUE, so that the thread takes over
 *                 the child's PID
 *   thread-fork   a second thread forks all of them
 *   fastexit      clone(CLONE_VM|CLONE_VFORK), the child's only system call is exit_group: lives
 *                 about 50 us; SIGCHLD is ignored, so that nobody waits for it
 *   clone_parent  clone(CLONE_PARENT): a sibling, which the program's own parent must reap
 *   nephew        the same by a child of this program, which reaps the siblings
 *   doublefork    a child that forks a grandchild and ends before it: 2 N processes
 *   setsid        fork, the child calls setsid
 *   chain         each process forks the next and waits for it, N deep
 *   together      fork, all N alive at one moment
 *   killed        fork, the child waits until it is ended with SIGKILL
 *   pidns         clone into a new PID namespace each (root)
 *   userns        clone into a new user, PID and mount namespace each
 *   nobody        fork, the child becomes user 65534 and forks: 2 N processes (root)
 *
 * TRUE is /bin/true, or the environment variable TRUE.
 *
 * Truth: processes_total (this program included), processes_peak (absent where it is a matter of
 * timing), execs_total (the program's own included). */
#include "common.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>

extern char **environ;

static uint64_t n;
static const char *true_path = "/bin/true";
/* The end of a pipe that every process holds until it ends: at end of file all have ended. */
static int all_ended;

static pid_t checked(long pid, const char *how)
{
	if (pid < 0)
		die("%s", how);
	return pid;
}

static void exec_true(void)
{
	execl(true_path, "true", (char *)NULL);
	die("%s", true_path);
}

static pid_t clone3_with(uint64_t flags, uint64_t exit_signal)
{
	struct clone_args args = { .flags = flags, .exit_signal = exit_signal };
	return checked(syscall(SYS_clone3, &args, sizeof args), "clone3");
}

static void by_fork(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0)
		_exit(0);
	reap(child);
}

static void by_vfork(void)
{
	pid_t child = checked(vfork(), "vfork");
	if (child == 0)
		_exit(0);
	reap(child);
}

static void by_posix_spawn(void)
{
	pid_t child;
	errno = posix_spawn(&child, true_path, NULL, NULL, (char *[]){ "true", NULL }, environ);
	if (errno)
		die("posix_spawn %s", true_path);
	reap(child);
}

static void by_clone3(void)
{
	pid_t child = clone3_with(0, SIGCHLD);
	if (child == 0)
		_exit(0);
	reap(child);
}

static void by_exec(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0)
		exec_true();
	reap(child);
}

static void *exec_in_thread(void *unused)
{
	exec_true();
	return unused;
}

static void by_thread_exec(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		pthread_t thread;
		errno = pthread_create(&thread, NULL, exec_in_thread, NULL);
		if (errno)
			die("pthread_create");
		for (;;)
			pause();
	}
	reap(child);
}

static void *fork_all(void *unused)
{
	for (uint64_t i = 0; i < n; i++)
		by_fork();
	return unused;
}

static int exit_at_once(void *unused)
{
	(void)unused;
	syscall(SYS_exit_group, 0);
	return 0;
}

static void by_fastexit(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	checked(clone(exit_at_once, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), "clone");
}

static void by_clone_parent(void)
{
	/* The exit signal of a sibling is its parent's business: none is asked for. */
	if (clone3_with(CLONE_PARENT, 0) == 0)
		_exit(0);
}

static void by_nephew(void)
{
	int link[2];
	pid_t sibling;
	if (pipe2(link, O_CLOEXEC))
		die("pipe2");
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		pid_t nephew = clone3_with(CLONE_PARENT, 0);
		if (nephew && write(link[1], &nephew, sizeof nephew) != sizeof nephew)
			_exit(1);
		_exit(0);
	}
	if (read(link[0], &sibling, sizeof sibling) != sizeof sibling)
		die("the child told no PID");
	close(link[0]);
	close(link[1]);
	reap(child);
	if (waitpid(sibling, NULL, __WALL) != sibling)
		die("waiting for the sibling of the child");
}

static void by_doublefork(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		checked(fork(), "fork");
		_exit(0);
	}
	reap(child);
}

static void by_setsid(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0)
		_exit(setsid() < 0);
	reap(child);
}

static void chain(uint64_t depth)
{
	if (depth == 0)
		return;
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		chain(depth - 1);
		_exit(0);
	}
	reap(child);
}

static void together(void)
{
	int barrier[2];
	char byte;
	if (pipe2(barrier, O_CLOEXEC))
		die("pipe2");
	for (uint64_t i = 0; i < n; i++)
		if (checked(fork(), "fork") == 0) {
			close(barrier[1]);
			_exit(read(barrier[0], &byte, 1) != 0);
		}
	close(barrier[1]);
	for (uint64_t i = 0; i < n; i++)
		reap(-1);
}

static void by_killed(void)
{
	int status;
	pid_t child = checked(fork(), "fork");
	if (child == 0)
		for (;;)
			pause();
	kill(child, SIGKILL);
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
		die("a killed child ended otherwise");
}

static void by_pidns(void)
{
	pid_t child = clone3_with(CLONE_NEWPID, SIGCHLD);
	if (child == 0)
		_exit(syscall(SYS_getpid) != 1);
	reap(child);
}

static void by_userns(void)
{
	pid_t child = clone3_with(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, SIGCHLD);
	if (child == 0)
		_exit(syscall(SYS_getpid) != 1);
	reap(child);
}

static void by_nobody(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			die("becoming nobody");
		by_fork();
		_exit(0);
	}
	reap(child);
}

static void reexec(char **argv)
{
	const char *done_text = getenv("PROCS_REEXECUTED");
	uint64_t done = done_text ? number(done_text, "PROCS_REEXECUTED") : 0;
	if (done == n)
		return;
	char next[24];
	snprintf(next, sizeof next, "%llu", (unsigned long long)done + 1);
	setenv("PROCS_REEXECUTED", next, 1);
	execv("/proc/self/exe", argv);
	die("/proc/self/exe");
}

/* A fixed number of new processes each time, and the most that are alive beside the program; 0 where that
 * depends on timing. */
static const struct {
	const char *name;
	void (*once)(void);
	int processes, peak, execs;
} HOWS[] = {
	{ "fork", by_fork, 1, 1, 0 },
	{ "vfork", by_vfork, 1, 1, 0 },
	{ "posix_spawn", by_posix_spawn, 1, 1, 1 },
	{ "clone3", by_clone3, 1, 1, 0 },
	{ "exec", by_exec, 1, 1, 1 },
	{ "reexec", NULL, 0, 0, 1 },
	{ "thread-exec", by_thread_exec, 1, 1, 1 },
	{ "thread-fork", NULL, 1, 1, 0 },
	{ "fastexit", by_fastexit, 1, 0, 0 },
	{ "clone_parent", by_clone_parent, 1, 0, 0 },
	{ "nephew", by_nephew, 2, 0, 0 },
	{ "doublefork", by_doublefork, 2, 0, 0 },
	{ "setsid", by_setsid, 1, 1, 0 },
	{ "chain", NULL, 1, 0, 0 },
	{ "together", NULL, 1, 0, 0 },
	{ "killed", by_killed, 1, 1, 0 },
	{ "pidns", by_pidns, 1, 1, 0 },
	{ "userns", by_userns, 1, 1, 0 },
	{ "nobody", by_nobody, 2, 2, 0 },
};

static void run(size_t how, char **argv)
{
	const char *name = HOWS[how].name;
	pthread_t thread;
	if (!strcmp(name, "reexec"))
		reexec(argv);
	else if (!strcmp(name, "chain"))
		chain(n);
	else if (!strcmp(name, "together"))
		together();
	else if (!strcmp(name, "thread-fork")) {
		errno = pthread_create(&thread, NULL, fork_all, NULL);
		if (errno)
			die("pthread_create");
		pthread_join(thread, NULL);
	} else {
		for (uint64_t i = 0; i < n; i++)
			HOWS[how].once();
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[2] : "fork";
	size_t how = 0, hows = sizeof HOWS / sizeof *HOWS;
	while (how < hows && strcmp(HOWS[how].name, name))
		how++;
	if (argc < 2 || argc > 3 || how == hows)
		die("usage: procs N [HOW]; for HOW see the top of procs.c");
	n = number(argv[1], "N");
	if (getenv("TRUE"))
		true_path = getenv("TRUE");

	int ends[2];
	char byte;
	if (pipe2(ends, O_CLOEXEC))
		die("pipe2");
	all_ended = ends[1];
	if (!strcmp(name, "fastexit"))
		signal(SIGCHLD, SIG_IGN);
	run(how, argv);
	close(all_ended);
	if (read(ends[0], &byte, 1) != 0)
		die("waiting for the last process");

	truth("processes_total", n * HOWS[how].processes + 1);
	if (!strcmp(name, "together") || !strcmp(name, "chain"))
		truth("processes_peak", n + 1);
	else if (HOWS[how].peak)
		truth("processes_peak", n ? HOWS[how].peak + 1 : 1);
	else if (!strcmp(name, "reexec"))
		truth("processes_peak", 1);
	truth("execs_total", n * HOWS[how].execs + 1);
	truth_tell();
	return 0;
}
