/* careful ROUNDS FILE
 *
 * Does a bit of all that weigh looks at, and checks the result of every call: writes an odd number of bytes into
 * FILE and reads them back, stores through a shared map, sends bytes through a pipe to a child and back, executes
 * a program by fork, posix_spawn and vfork, runs two threads, handles a signal. Says "begun PID" on stdout first
 * and "whole ROUNDS" at the end, and exits with 7. What is not as it ought to be is said on stderr: exit status 2. */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define LENGTH 30011

extern char **environ;
static char bytes[LENGTH];
static volatile sig_atomic_t caught;

static void check(bool is_so, const char *what)
{
	if (!is_so)
		die("%s", what);
}

static void files(const char *name)
{
	static char again[LENGTH];
	int file = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	check(file >= 0, "open");
	check(write(file, bytes, LENGTH) == LENGTH, "write");
	check(pread(file, again, LENGTH, 0) == LENGTH && !memcmp(again, bytes, LENGTH), "what was written, read back");
	char *map = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	check(map != MAP_FAILED, "mmap");
	map[LENGTH - 1] ^= 1;
	check(pread(file, again, 1, LENGTH - 1) == 1 && again[0] == map[LENGTH - 1], "a byte that was stored, read");
	check(!munmap(map, LENGTH) && !ftruncate(file, 17) && lseek(file, 0, SEEK_END) == 17, "truncating");
	check(!close(file) && !unlink(name), "taking the file away");
}

/* Gets what was sent, changed by the child. */
static void pipes(void)
{
	int there[2], back[2];
	char letters[] = "abcdefg", got[sizeof letters] = "";
	check(!pipe2(there, O_CLOEXEC) && !pipe2(back, O_CLOEXEC), "pipe2");
	pid_t child = fork();
	check(child >= 0, "fork");
	if (child == 0) {
		check(read(there[0], got, sizeof got) == sizeof got, "what was sent, read");
		for (size_t i = 0; i + 1 < sizeof got; i++)
			got[i] -= 32;
		check(write(back[1], got, sizeof got) == sizeof got, "sending back");
		_exit(0);
	}
	check(write(there[1], letters, sizeof letters) == sizeof letters, "sending");
	check(read(back[0], got, sizeof got) == sizeof got && !strcmp(got, "ABCDEFG"), "what was sent back");
	reap(child);
	check(!close(there[0]) && !close(there[1]) && !close(back[0]) && !close(back[1]), "closing pipes");
}

static void programs(void)
{
	char *words[] = { "true", NULL };
	pid_t child;
	int error = posix_spawn(&child, "/bin/true", NULL, NULL, words, environ);
	errno = error;
	check(!error, "posix_spawn");
	reap(child);
	child = vfork();
	if (child == 0) {
		execv("/bin/true", words);
		_exit(127);
	}
	check(child > 0, "vfork");
	reap(child);
	child = fork();
	if (child == 0) {
		execve("/bin/true", words, environ);
		_exit(127);
	}
	check(child > 0, "fork");
	reap(child);
}

static void *add(void *sum)
{
	for (int i = 0; i < 10007; i++)
		atomic_fetch_add((_Atomic int *)sum, 1);
	return sum;
}

static void threads(void)
{
	_Atomic int sum = 0;
	pthread_t two[2];
	void *result;
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&two[i], NULL, add, &sum), "pthread_create");
	for (int i = 0; i < 2; i++)
		check(!pthread_join(two[i], &result) && result == &sum, "pthread_join");
	check(sum == 20014, "the sum of two threads");
}

static void catch(int signal)
{
	(void)signal;
	caught++;
}

static void signals(int round)
{
	check(!kill(getpid(), SIGUSR1), "kill");
	check(caught == round, "a signal, caught once");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: careful ROUNDS FILE");
	uint64_t rounds = number(argv[1], "ROUNDS");
	/* What it may have inherited. */
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	check(!sigprocmask(SIG_UNBLOCK, &usr1, NULL), "sigprocmask");
	check(signal(SIGUSR1, catch) != SIG_ERR && signal(SIGCHLD, SIG_DFL) != SIG_ERR, "signal");
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	dprintf(STDOUT_FILENO, "begun %d\n", getpid());
	for (uint64_t round = 1; round <= rounds; round++) {
		files(argv[2]);
		pipes();
		programs();
		threads();
		signals((int)round);
	}
	dprintf(STDOUT_FILENO, "whole %lu\n", rounds);
	return 7;
}
