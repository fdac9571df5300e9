/* chain PATH BYTES CHUNK HOW [COMMAND ARGS...]
 *
 * Reads the first BYTES of PATH by read(2), CHUNK at a time and the rest by the last call, through a descriptor of its
 * own; and then, by HOW:
 *   end      ends
 *   exec     becomes COMMAND
 *   bare     the same, without any environment
 *   fork     has a child read as much and become COMMAND, and ends as that does
 *   vfork    has a child by vfork become COMMAND, and ends as that does
 *   spawn    the same by posix_spawn(3)
 *   threads  reads as much in THREADS threads at once, and ends
 *   late     reads as much in a second thread, which becomes COMMAND
 *
 * A link in a chain of programs, of which some are static. Truth: none, it is in the arguments. */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>

enum { THREADS = 5 };

extern char **environ;

static const char *path;
static uint64_t bytes, chunk;
static char **command;

static void *read_it(void *unused)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	char *to = malloc(chunk);

	if (file < 0 || !to)
		die("%s", path);
	for (uint64_t left = bytes; left;) {
		uint64_t part = left < chunk ? left : chunk;
		if (read(file, to, part) != (ssize_t)part)
			die("reading %s", path);
		left -= part;
	}
	close(file);
	free(to);
	return unused;
}

static _Noreturn void become(void)
{
	execvp(command[0], command);
	die("%s", command[0]);
}

static void *become_late(void *unused)
{
	read_it(unused);
	become();
}

static _Noreturn void end_as(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		die("a child");
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	pid_t child;

	if (argc < 5)
		die("usage: chain PATH BYTES CHUNK HOW [COMMAND ARGS...]");
	path = argv[1];
	bytes = number(argv[2], "BYTES");
	chunk = number(argv[3], "CHUNK");
	const char *how = argv[4];
	command = argv + 5;
	if (argc == 5 && strcmp(how, "end") && strcmp(how, "threads"))
		die("%s needs a COMMAND", how);
	read_it(NULL);
	if (!strcmp(how, "end"))
		return 0;
	if (!strcmp(how, "exec"))
		become();
	if (!strcmp(how, "bare")) {
		execve(command[0], command, (char *[]){ NULL });
		die("%s", command[0]);
	}
	if (!strcmp(how, "fork")) {
		child = fork();
		if (!child) {
			read_it(NULL);
			become();
		}
		end_as(child);
	}
	if (!strcmp(how, "vfork")) {
		child = vfork();
		if (!child) {
			execvp(command[0], command);
			_exit(127);
		}
		end_as(child);
	}
	if (!strcmp(how, "spawn")) {
		errno = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
		if (errno)
			die("%s", command[0]);
		end_as(child);
	}
	if (!strcmp(how, "late")) {
		if (pthread_create(threads, NULL, become_late, NULL))
			die("a thread");
		for (;;)
			pause();
	}
	if (strcmp(how, "threads"))
		die("no such way: %s", how);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, read_it, NULL))
			die("a thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
