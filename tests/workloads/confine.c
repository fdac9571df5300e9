/* Starts a command in surroundings that take something away, as containers and careful
 * administrators do, and as an ordinary user.
 *
 *   confine WHAT[,WHAT...] COMMAND...
 *
 *   container   user, mount, PID and IPC namespaces of its own, with a /proc of its own; the user
 *               is root in there, and has no right outside
 *   profile     a seccomp filter that refuses what the default profiles of container engines do
 *   no-ptrace   a seccomp filter that refuses ptrace, as those profiles do before Linux 4.8
 *   old=ERROR   a seccomp filter that refuses what kernels and container engines of before 2019 do not know, with that
 *               error: EPERM or ENOSYS
 *   read-only=DIR  every mount is read-only, those of /tmp and /dev/shm too, but for DIR
 *   shm=SIZE    a /dev/shm of so many bytes, as containers have
 *   hidepid     a /proc that shows nobody the processes of others
 *   no-proc     no /proc
 *   no-rights   no_new_privs
 *   files=N     a soft limit of so many open files
 *   group=FILE  the control group whose list of processes that is
 *   user        becomes nobody; done last, and without it by a user who is root outside
 *
 * All but the filters and no-rights want root. */
#include "common.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { NOBODY = 65534, CALLS_MAX = 64 };

static void need(bool is_so, const char *what)
{
	if (!is_so)
		die("%s", what);
}

/* Calls that the default profiles refuse to processes without capabilities. */
static const int refused[] = {
	SYS_bpf, SYS_perf_event_open, SYS_add_key, SYS_keyctl, SYS_request_key, SYS_mount,
	SYS_umount2, SYS_unshare, SYS_setns, SYS_pivot_root, SYS_userfaultfd, SYS_io_uring_setup,
	SYS_io_uring_enter, SYS_io_uring_register, SYS_fanotify_init, SYS_open_by_handle_at,
	SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_acct, SYS_quotactl, SYS_syslog,
	SYS_kcmp,
};

/* What came with Linux 5.1 and later, and calls that take a descriptor where there were other ways before. */
static const int late[] = {
	SYS_bpf, SYS_perf_event_open, SYS_ptrace, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_openat2, SYS_close_range,
	SYS_faccessat2, SYS_epoll_pwait2, SYS_mount_setattr, SYS_io_uring_setup, SYS_io_uring_enter,
	SYS_io_uring_register, SYS_statx, SYS_memfd_create, SYS_fanotify_init, SYS_kcmp, SYS_membarrier,
};

/* Refuses these calls, and clone3 as a kernel does that does not know it: a filter cannot look at
 * its flags. */
static void refuse(const int *calls, size_t count, int error)
{
	struct sock_filter filter[CALLS_MAX * 2 + 8];
	size_t length = 0;

	need(count < CALLS_MAX, "too many calls");
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++) {
		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
	}
	filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	struct sock_fprog program = { .len = (unsigned short)length, .filter = filter };
	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "a seccomp filter");
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	need(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(file);
}

/* Goes on as the child of a process that ends as the child does. */
static void go_on_in_child(void)
{
	pid_t child = fork();
	int status;

	need(child >= 0, "fork");
	if (child == 0)
		return;
	need(waitpid(child, &status, 0) == child, "waitpid");
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

static void own_mounts(void)
{
	need(unshare(CLONE_NEWNS) == 0, "a mount namespace");
	need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
}

static void container(void)
{
	need(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0, "nobody");
	/* A process that has changed its user may not write these files of its own before. */
	need(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0, "dumpable");
	need(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) == 0, "namespaces");
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", "0 65534 1");
	put("/proc/self/gid_map", "0 65534 1");
	go_on_in_child();
	need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
	need(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "/proc");
}

static void read_only(const char *writable_directory)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	struct mount_attr writable = { .attr_clr = MOUNT_ATTR_RDONLY };
	char here[4096];

	own_mounts();
	need(getcwd(here, sizeof(here)) != NULL, "the working directory");
	need(mount(writable_directory, writable_directory, NULL, MS_BIND, NULL) == 0, "a mount");
	need(syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof(read_only)) == 0,
	     "read-only mounts");
	need(syscall(SYS_mount_setattr, AT_FDCWD, writable_directory, 0, &writable, sizeof(writable)) == 0,
	     "a writable directory");
	/* The working directory is still the one below the new mount. */
	need(chdir(here) == 0, "the working directory");
}

static void hidepid(void)
{
	own_mounts();
	need(mount("proc", "/proc", "proc", 0, "hidepid=2") == 0, "a /proc with hidepid");
}

static void small_shm(const char *size)
{
	char options[64];

	own_mounts();
	snprintf(options, sizeof(options), "mode=1777,size=%s", size);
	need(mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options) == 0, "a /dev/shm");
}

static void no_proc(void)
{
	own_mounts();
	need(umount2("/proc", MNT_DETACH) == 0, "no /proc");
}

static void user(void)
{
	need(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0, "nobody");
}

static void files(const char *most)
{
	struct rlimit limit;

	need(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
	limit.rlim_cur = strtoul(most, NULL, 10);
	need(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

static void do_one(const char *what)
{
	const int ptrace_alone[] = { SYS_ptrace };

	if (strcmp(what, "container") == 0)
		container();
	else if (strcmp(what, "profile") == 0)
		refuse(refused, sizeof(refused) / sizeof(*refused), EPERM);
	else if (strcmp(what, "no-ptrace") == 0)
		refuse(ptrace_alone, 1, EPERM);
	else if (strcmp(what, "old=EPERM") == 0)
		refuse(late, sizeof(late) / sizeof(*late), EPERM);
	else if (strcmp(what, "old=ENOSYS") == 0)
		refuse(late, sizeof(late) / sizeof(*late), ENOSYS);
	else if (strncmp(what, "read-only=", 10) == 0)
		read_only(what + 10);
	else if (strncmp(what, "shm=", 4) == 0)
		small_shm(what + 4);
	else if (strcmp(what, "hidepid") == 0)
		hidepid();
	else if (strcmp(what, "no-proc") == 0)
		no_proc();
	else if (strcmp(what, "no-rights") == 0)
		need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	else if (strncmp(what, "files=", 6) == 0)
		files(what + 6);
	else if (strncmp(what, "group=", 6) == 0)
		put(what + 6, "0");
	else if (strcmp(what, "user") == 0)
		user();
	else
		die("'%s' is none of what this program takes away", what);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("usage: confine WHAT[,WHAT...] COMMAND...");
	for (char *what = strtok(argv[1], ","); what; what = strtok(NULL, ","))
		do_one(what);
	execvp(argv[2], argv + 2);
	die("%s", argv[2]);
}
