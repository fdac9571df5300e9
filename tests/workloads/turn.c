/* turn HOW
 *
 * Lives in one of the unusual ways below, and works on meanwhile (see common.h). It ends with
 * status 0 only if all went as it would alone. HOW:
 *
 *   subreaper     adopts a grandchild that is orphaned, and waits for it
 *   stop-child    a child stops itself; its parent sees it, lets it go on, and sees that too; twice
 *   stop-self     stops itself; its child sees it and lets it go on
 *   thread-exec   a second thread of a child executes the program
 *   thread-vfork  a second thread makes three children by vfork, which execute the program
 *   pid-reuse     seven children, one after the other, with the same PID (root)
 *   name NAME     calls itself NAME (as far as the kernel keeps it) and works; tells no truth
 *
 * Truth, told before: that of its works. */
#include "common.h"

#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

static char *self;

static pid_t checked(long pid, const char *how)
{
	if (pid < 0)
		die("%s", how);
	return pid;
}

static _Noreturn void work_anew(void)
{
	execve(self, (char *[]){ "turn", "work", NULL }, environ);
	die("%s", self);
}

static void subreaper(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		die("PR_SET_CHILD_SUBREAPER");
	pid_t me = getpid(), child = checked(fork(), "fork");
	if (child == 0) {
		if (checked(fork(), "fork") == 0) {
			for (int i = 0; getppid() != me; i++) {
				if (i == 2000)
					die("adopted by %d", getppid());
				sleep_us(5000);
			}
			work();
		}
		exit(0);
	}
	work();
	reap(child);
	reap(-1);
}

static void expect(pid_t child, int options, bool (*is_so)(int), const char *what)
{
	int status;
	if (waitpid(child, &status, options) != child || !is_so(status))
		die("the child should have %s", what);
}

static bool is_stopped(int status)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
}

static bool is_continued(int status)
{
	return WIFCONTINUED(status);
}

static void stop_child(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		raise(SIGSTOP);
		work();
		raise(SIGSTOP);
		exit(0);
	}
	for (int i = 0; i < 2; i++) {
		expect(child, WUNTRACED, is_stopped, "stopped");
		kill(child, SIGCONT);
		expect(child, WCONTINUED, is_continued, "gone on");
	}
	work();
	reap(child);
}

/* Stopped by a signal, traced or not. */
static bool seems_stopped(pid_t pid)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(file, text, sizeof text - 1);
	close(file);
	if (n <= 0)
		die("%s", path);
	text[n] = 0;
	char *state = strrchr(text, ')') + 2;
	return *state == 'T' || *state == 't';
}

static void stop_self(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		work();
		for (int i = 0; !seems_stopped(getppid()); i++) {
			if (i == 2000)
				die("the parent does not stop");
			sleep_us(5000);
		}
		kill(getppid(), SIGCONT);
		exit(0);
	}
	raise(SIGSTOP);
	work();
	reap(child);
}

static void *work_then_anew(void *unused)
{
	(void)unused;
	work();
	work_anew();
}

static void in_a_thread(void *(*what)(void *))
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, what, NULL);
	if (errno)
		die("pthread_create");
	pthread_join(thread, NULL);
}

static void thread_exec(void)
{
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		in_a_thread(work_then_anew);
		exit(1);
	}
	work();
	reap(child);
}

static void *vfork_three(void *unused)
{
	for (int i = 0; i < 3; i++) {
		pid_t child = checked(vfork(), "vfork");
		if (child == 0) {
			execve(self, (char *[]){ "turn", "work", NULL }, environ);
			_exit(1);
		}
		reap(child);
	}
	return unused;
}

static void thread_vfork(void)
{
	in_a_thread(vfork_three);
	work();
}

static void pid_reuse(void)
{
	pid_t wanted = checked(fork(), "fork");
	if (wanted == 0)
		work(), exit(0);
	reap(wanted);
	for (int i = 1; i < 7; i++) {
		struct clone_args args = {
			.exit_signal = SIGCHLD, .set_tid = (uint64_t)&wanted, .set_tid_size = 1,
		};
		pid_t child = checked(syscall(SYS_clone3, &args, sizeof args), "clone3 with a PID");
		if (child == 0)
			work(), exit(0);
		reap(child);
	}
	work();
}

static const struct {
	const char *name;
	void (*turn)(void);
	int processes, works;
} HOWS[] = {
	{ "subreaper", subreaper, 3, 2 },
	{ "stop-child", stop_child, 2, 2 },
	{ "stop-self", stop_self, 2, 2 },
	{ "thread-exec", thread_exec, 2, 3 },
	{ "thread-vfork", thread_vfork, 4, 4 },
	{ "pid-reuse", pid_reuse, 8, 8 },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "work")) {
		work();
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "name")) {
		if (prctl(PR_SET_NAME, argv[2], 0, 0, 0))
			die("PR_SET_NAME");
		work();
		return 0;
	}
	size_t how = 0, hows = sizeof HOWS / sizeof *HOWS;
	while (argc == 2 && how < hows && strcmp(HOWS[how].name, argv[1]))
		how++;
	if (argc != 2 || how == hows)
		die("usage: turn HOW; for HOW see the top of turn.c");
	self = argv[0];
	truth_of_works(HOWS[how].processes, HOWS[how].works, 0);
	HOWS[how].turn();
	return 0;
}
