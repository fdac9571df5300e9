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
 *   day           sets the clock of the day forward and back by hours, six times; after each a line goes into
 *                 the file `log`; children are killed, execute the program, and live where there is no
 *                 /proc. In the end it is set right (root)
 *   days          the same for a minute, every tenth of a second; tells no truth (root)
 *   name NAME     calls itself NAME (as far as the kernel keeps it) and works; tells no truth
 *
 * Only where TURN_MAY_SET_THE_DAY is set is any clock set: it is that of the whole machine.
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

/* Nobody can be seen to have gone on who has stopped or ended since: it waits until its parent has seen it. */
static void stop_until_seen(volatile int *seen, int times)
{
	raise(SIGSTOP);
	while (*seen < times)
		sleep_us(1000);
}

static void stop_child(void)
{
	volatile int *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		die("mmap");
	pid_t child = checked(fork(), "fork");
	if (child == 0) {
		stop_until_seen(seen, 1);
		work();
		stop_until_seen(seen, 2);
		exit(0);
	}
	for (int i = 0; i < 2; i++) {
		expect(child, WUNTRACED, is_stopped, "stopped");
		kill(child, SIGCONT);
		expect(child, WCONTINUED, is_continued, "gone on");
		*seen = i + 1;
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

/* Hours that the clock of the day is wrong by, one after the other. */
static const int HOURS_WRONG[] = { 5, -6, 1000, -1, 30000, 0 };
enum { TURNS_OF_THE_DAY = sizeof HOURS_WRONG / sizeof *HOURS_WRONG };
#define LINE "turned\n"

/* How far it is ahead of the clock that nobody can set. */
static int64_t right_ahead_ns;

static void begin_to_set_the_day(void)
{
	if (!getenv("TURN_MAY_SET_THE_DAY"))
		die("the clock of the day is the whole machine's: set TURN_MAY_SET_THE_DAY where that is meant");
	right_ahead_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
}

static void set_the_day(int hours_wrong)
{
	int64_t ns = (int64_t)clock_ns(CLOCK_BOOTTIME) + right_ahead_ns + hours_wrong * 3600000000000;
	struct timespec then = { ns / 1000000000, ns % 1000000000 };
	if (clock_settime(CLOCK_REALTIME, &then))
		die("clock_settime");
}

/* Set where the kernel cannot be asked about clocks, and at once a child. */
static void without_proc(int hours_wrong)
{
	char name[] = "empty-XXXXXX";
	if (!mkdtemp(name) || chroot(name) || chdir("/"))
		die("chroot %s", name);
	set_the_day(hours_wrong);
	pid_t child = checked(fork(), "fork");
	if (child == 0)
		work(), exit(0);
	reap(child);
}

static void day(void)
{
	begin_to_set_the_day();
	int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	for (int i = 0; i < TURNS_OF_THE_DAY; i++) {
		set_the_day(HOURS_WRONG[i]);
		if (write(log, LINE, strlen(LINE)) != (ssize_t)strlen(LINE))
			die("log");
		pid_t killed = checked(fork(), "fork");
		if (killed == 0)
			for (;;)
				pause();
		kill(killed, SIGKILL);
		waitpid(killed, NULL, 0);
		pid_t child = checked(fork(), "fork");
		if (child == 0) {
			without_proc(-HOURS_WRONG[i]);
			exit(0);
		}
		reap(child);
		child = checked(fork(), "fork");
		if (child == 0)
			work_anew();
		set_the_day(HOURS_WRONG[i]);
		work();
		reap(child);
		sleep_us(300000);
	}
}

static void days(void)
{
	begin_to_set_the_day();
	for (int i = 0; i < 600; i++) {
		set_the_day(HOURS_WRONG[i % TURNS_OF_THE_DAY]);
		sleep_us(100000);
	}
}

static const struct {
	const char *name;
	void (*turn)(void);
	int processes, works;
	/* Bytes that are written besides. */
	uint64_t extra;
} HOWS[] = {
	{ "subreaper", subreaper, 3, 2, 0 },
	{ "stop-child", stop_child, 2, 2, 0 },
	{ "stop-self", stop_self, 2, 2, 0 },
	{ "thread-exec", thread_exec, 2, 3, 0 },
	{ "thread-vfork", thread_vfork, 4, 4, 0 },
	{ "pid-reuse", pid_reuse, 8, 8, 0 },
	{ "day", day, 1 + 4 * TURNS_OF_THE_DAY, 3 * TURNS_OF_THE_DAY, TURNS_OF_THE_DAY * (sizeof LINE - 1) },
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
	if (argc == 2 && !strcmp(argv[1], "days")) {
		days();
		return 0;
	}
	size_t how = 0, hows = sizeof HOWS / sizeof *HOWS;
	while (argc == 2 && how < hows && strcmp(HOWS[how].name, argv[1]))
		how++;
	if (argc != 2 || how == hows)
		die("usage: turn HOW; for HOW see the top of turn.c");
	self = argv[0];
	truth_of_works(HOWS[how].processes, HOWS[how].works, HOWS[how].extra);
	HOWS[how].turn();
	return 0;
}
