/* hide HOW
 *
 * Gets out of the sight of its observer, in one of the ways below, and works on there (see
 * common.h). It ends with status 0 only if all went as it would alone. HOW:
 *
 *   descriptors  closes every descriptor, 0 to 2 too; forks
 *   environment  executes itself with an empty environment
 *   user         forks; the child becomes user 65534, forks, and executes itself (root)
 *   chroot       makes an empty directory its root; forks (root)
 *   unmount      unmounts /proc and /sys in a mount namespace of its own; executes itself (root)
 *   root         makes a copy of the mounts with other /tmp, /run and /dev/shm its root; executes itself
 *                there (root)
 *   pidns        forks into a new PID and mount namespace with a /proc of its own, and again (root)
 *   pidns2       the same; there, 20 short children one after the other, and then into a PID namespace
 *                once more (root)
 *   userns       forks into a new user, PID and mount namespace, and again
 *   forward      forks into a time namespace where clocks stand 1,000 days ahead; there one is killed,
 *                one executes the program (root)
 *   back         the same where the machine seems to have just been started (root)
 *   filter       a seccomp filter that kills at every call that the program itself does not make; forks
 *   strict       strict seccomp: nothing but read, write and exit
 *
 * Truth, told before: that of its works. */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <grp.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* Processes that nobody looks at while they live. */
enum { SHORT_ONES = 20 };

static char *self;

static pid_t checked_fork(void)
{
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	return child;
}

static _Noreturn void work_anew(char **environment)
{
	execve(self, (char *[]){ "hide", "work", NULL }, environment);
	die("%s", self);
}

static _Noreturn void work_and_leave(void)
{
	work();
	exit(0);
}

static void close_all(void)
{
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	syscall(SYS_close_range, 0, ~0U, 0);
}

static void descriptors(void)
{
	close_all();
	pid_t child = checked_fork();
	if (child == 0) {
		close_all();
		work_and_leave();
	}
	work();
	reap(child);
	close_all();
}

static void environment(void)
{
	pid_t child = checked_fork();
	if (child == 0)
		work_anew((char *[]){ NULL });
	work();
	reap(child);
}

static void user(void)
{
	pid_t child = checked_fork();
	if (child) {
		work();
		reap(child);
		return;
	}
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		die("becoming nobody");
	child = checked_fork();
	if (child == 0)
		work_and_leave();
	work();
	reap(child);
	/* By the link, for the path to it may not be theirs to go. */
	self = "/proc/self/exe";
	work_anew(environ);
}

static void other_root(void)
{
	char name[] = "empty-XXXXXX";
	if (!mkdtemp(name) || chroot(name) || chdir("/"))
		die("chroot %s", name);
	pid_t child = checked_fork();
	if (child == 0)
		work_and_leave();
	work();
	reap(child);
}

static void own_mounts(int more)
{
	if (unshare(CLONE_NEWNS | more) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("a mount namespace");
}

static void unmounted(void)
{
	own_mounts(0);
	if (umount2("/proc", MNT_DETACH) || umount2("/sys", MNT_DETACH))
		die("unmounting");
	pid_t child = checked_fork();
	if (child == 0)
		work_anew(environ);
	work();
	reap(child);
}

static void copied_root(void)
{
	static const char *const hidden[] = { "tmp", "run", "dev/shm" };
	char name[] = "root-XXXXXX", place[64];
	own_mounts(0);
	if (!mkdtemp(name) || mount("/", name, NULL, MS_BIND | MS_REC, NULL))
		die("binding / to %s", name);
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
		snprintf(place, sizeof place, "%s/%s", name, hidden[i]);
		if (mount("none", place, "tmpfs", 0, NULL))
			die("mounting %s", place);
	}
	if (chroot(name) || chdir("/"))
		die("chroot %s", name);
	pid_t child = checked_fork();
	/* By the link: the program may lie in a folder that is hidden now. */
	self = "/proc/self/exe";
	if (child == 0)
		work_anew(environ);
	work();
	reap(child);
}

/* Two processes in a PID namespace that the next child opens. */
static void two_inside(bool with_proc)
{
	pid_t child = checked_fork();
	if (child == 0) {
		if (getpid() != 1 || (with_proc && mount("none", "/proc", "proc", 0, NULL)))
			die("the first of the namespace");
		child = checked_fork();
		if (child == 0)
			work_anew(environ);
		work();
		reap(child);
		exit(0);
	}
	work();
	reap(child);
}

static void pid_namespace(void)
{
	own_mounts(CLONE_NEWPID);
	two_inside(true);
}

/* The /proc in the third namespace is the second one's. */
static void pid_namespaces(void)
{
	own_mounts(CLONE_NEWPID);
	pid_t child = checked_fork();
	if (child == 0) {
		if (getpid() != 1 || mount("none", "/proc", "proc", 0, NULL))
			die("the first of the namespace");
		for (int i = 0; i < SHORT_ONES; i++) {
			child = checked_fork();
			if (child == 0)
				exit(0);
			reap(child);
		}
		if (unshare(CLONE_NEWPID))
			die("a namespace in the namespace");
		two_inside(false);
		exit(0);
	}
	work();
	reap(child);
}

static void set_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		die("%s", path);
	close(file);
}

static char uid_map[32], gid_map[32];

static void user_namespace(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS))
		die("unshare");
	set_file("/proc/self/setgroups", "deny");
	set_file("/proc/self/uid_map", uid_map);
	set_file("/proc/self/gid_map", gid_map);
	two_inside(false);
}

static uint64_t written_for_the_user_namespace(void)
{
	snprintf(uid_map, sizeof uid_map, "0 %d 1", getuid());
	snprintf(gid_map, sizeof gid_map, "0 %d 1", getgid());
	return strlen("deny") + strlen(uid_map) + strlen(gid_map);
}

/* Forward, or back to the moment when the machine was started. */
static char offsets[128];

static void set_offsets(bool forward)
{
	long long ahead = forward ? 86400000 : 1 - (long long)(clock_ns(CLOCK_BOOTTIME) / 1000000000);
	snprintf(offsets, sizeof offsets, "monotonic %lld 0\nboottime %lld 0\n", ahead, ahead);
}

static void time_namespace(void)
{
	uint64_t before = clock_ns(CLOCK_MONOTONIC);
	bool forward = !strstr(offsets, "-");
	if (unshare(CLONE_NEWTIME))
		die("unshare");
	set_file("/proc/self/timens_offsets", offsets);
	pid_t child = checked_fork();
	if (child == 0) {
		if ((clock_ns(CLOCK_MONOTONIC) > before) != forward)
			die("the clock did not jump");
		pid_t killed = checked_fork();
		if (killed == 0)
			for (;;)
				pause();
		kill(killed, SIGKILL);
		waitpid(killed, NULL, 0);
		child = checked_fork();
		if (child == 0)
			work_anew(environ);
		work();
		reap(child);
		exit(0);
	}
	work();
	reap(child);
}

static uint64_t written_for_a_jump_forward(void)
{
	set_offsets(true);
	return strlen(offsets);
}

static uint64_t written_for_a_jump_back(void)
{
	set_offsets(false);
	return strlen(offsets);
}

/* What is called below once the filter stands, by the C library's fork, waitpid and exit. */
static const int ALLOWED[] = {
	SYS_write, SYS_exit_group, SYS_wait4, SYS_clone, SYS_clone3, SYS_rt_sigprocmask, SYS_set_robust_list,
	SYS_gettid, SYS_rseq,
};

static void set_filter(void)
{
	enum { COUNT = sizeof ALLOWED / sizeof *ALLOWED };
	struct sock_filter code[COUNT + 3];
	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], COUNT - i, 0);
	code[1 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[2 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { COUNT + 3, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("a seccomp filter");
}

static void filtered(void)
{
	pid_t child = checked_fork();
	if (child == 0) {
		int file = work_but_for_the_write();
		set_filter();
		child = fork();
		if (child == 0) {
			work_write(file);
			exit(0);
		}
		work_write(file);
		reap(child);
		exit(0);
	}
	work();
	reap(child);
}

static uint64_t written_by_the_filtered(void)
{
	return WORK_BYTES;
}

static void strict(void)
{
	pid_t child = checked_fork();
	if (child == 0) {
		int file = work_but_for_the_write();
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
			die("strict seccomp");
		work_write(file);
		syscall(SYS_exit, 0);
	}
	work();
	reap(child);
}

static const struct {
	const char *name;
	void (*hide)(void);
	int processes, works;
	/* Bytes that are written besides. */
	uint64_t (*extra)(void);
} HOWS[] = {
	{ "descriptors", descriptors, 2, 2, NULL },
	{ "environment", environment, 2, 2, NULL },
	{ "user", user, 3, 4, NULL },
	{ "chroot", other_root, 2, 2, NULL },
	{ "unmount", unmounted, 2, 2, NULL },
	{ "root", copied_root, 2, 2, NULL },
	{ "pidns", pid_namespace, 3, 3, NULL },
	{ "pidns2", pid_namespaces, 4 + SHORT_ONES, 4, NULL },
	{ "userns", user_namespace, 3, 3, written_for_the_user_namespace },
	{ "forward", time_namespace, 4, 3, written_for_a_jump_forward },
	{ "back", time_namespace, 4, 3, written_for_a_jump_back },
	{ "filter", filtered, 3, 2, written_by_the_filtered },
	{ "strict", strict, 2, 2, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "work")) {
		work();
		return 0;
	}
	size_t how = 0, hows = sizeof HOWS / sizeof *HOWS;
	while (argc == 2 && how < hows && strcmp(HOWS[how].name, argv[1]))
		how++;
	if (argc != 2 || how == hows)
		die("usage: hide HOW; for HOW see the top of hide.c");
	self = argv[0];
	truth_of_works(HOWS[how].processes, HOWS[how].works, HOWS[how].extra ? HOWS[how].extra() : 0);
	HOWS[how].hide();
	return 0;
}
