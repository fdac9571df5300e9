/*
 * Programs that are executed: the new program gets the library, and its slot says what it is about
 * to become, so that a program in which the library never wakes up is known by its name.
 */
#include "environment.h"
#include "io.h"

#include <linux/limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

extern char **environ;

REAL(int, execve, const char *, char *const[], char *const[])
REAL(int, execvpe, const char *, char *const[], char *const[])
REAL(int, fexecve, int, char *const[], char *const[])
REAL(int, execveat, int, const char *, char *const[], char *const[], int)
REAL(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *,
     const posix_spawnattr_t *, char *const[], char *const[])
REAL(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *,
     const posix_spawnattr_t *, char *const[], char *const[])

static void name_program(struct slot *slot, const char *path, uint32_t blind)
{
	size_t length = strnlen(path, sizeof slot->program - 1);

	memcpy(slot->program, path, length);
	slot->program[length] = 0;
	flag(slot, FLAG_EXECED | blind);
}

static void before_exec(struct slot *slot, const char *path, uint32_t blind)
{
	/* A child by vfork has its parent's memory. */
	if (slot == self) {
		look_at_memory(slot);
		/* The program that comes has memory of its own. */
		slot->own_rss_peak = slot->own_virtual_peak = 0;
		IO(io_before_exec();)
	}
	name_program(slot, path, blind);
	set_state(slot, STATE_EXECED);
}

static void exec_failed(struct slot *slot, uint32_t blind)
{
	__atomic_fetch_and((uint32_t *)&slot->flags, ~(FLAG_EXECED | (blind & ~FLAG_FILTERED)), __ATOMIC_RELAXED);
	set_state(slot, STATE_RUNNING);
}

/* `call` sees the environment as `env`; it returns only if it fails. */
#define EXECUTE(path, why, given, call)                                   \
	({                                                                \
		struct slot *slot = mine_at_exec(), *reader = slot;       \
		char *const *env = (given);                               \
		struct room room = { 0 };                                 \
		uint32_t blind = 0;                                       \
		if (slot) {                                               \
			int before = errno;                               \
			blind = why | why_blind_by(env) |                 \
				(slot->flags & FLAG_FILTERED);            \
			env = environment_for(env, slot, can_load(blind), &room); \
			before_exec(slot, path, blind);                   \
			errno = before;                                   \
		} else if (is_filtered) {                                 \
			env = FILTERED_ENVIRONMENT(env);                  \
		}                                                         \
		int result = call;                                        \
		int after = errno;                                        \
		drop_environment(&room);                                  \
		errno = after;                                            \
		if (slot)                                                 \
			exec_failed(slot, blind);                         \
		result;                                                   \
	})

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return EXECUTE(path, why_blind(reader, AT_FDCWD, path), envp, real_execve()(path, argv, env));
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return EXECUTE(file, why_blind_in_path(reader, file), envp, real_execvpe()(file, argv, env));
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[32] = "/proc/self/fd/", *end = path + strlen(path);
	char digits[10];
	int n = 0;

	for (unsigned left = fd; n == 0 || left; left /= 10)
		digits[n++] = '0' + left % 10;
	while (n)
		*end++ = digits[--n];
	*end = 0;
	return EXECUTE(path, why_blind(reader, AT_FDCWD, path), envp, real_fexecve()(fd, argv, env));
}

EXPORT int execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags)
{
	if (flags & AT_EMPTY_PATH && !*path)
		return fexecve(directory, argv, envp);
	return EXECUTE(path, why_blind(reader, directory, path), envp,
		       real_execveat()(directory, path, argv, env, flags));
}

#define WRAPPER EXPORT
#include "exec_list.h"

/*
 * The slot is set aside before the child is there, for the child may come to its constructor, or
 * even end, before the parent hears its PID.
 */
#define SPAWN(call, path, why)                                                                     \
	struct expected made;                                                                      \
	struct slot *slot = expect_child(&made), *reader = mine();                                 \
	char *const *env = envp;                                                                   \
	struct room room = { 0 };                                                                  \
	pid_t child = 0;                                                                           \
	int before = errno;                                                                        \
	if (slot) {                                                                                \
		uint32_t blind = why | why_blind_by(envp);                                         \
		name_program(slot, path, blind);                                                   \
		env = environment_for(envp, slot, can_load(blind), &room);                         \
		errno = before;                                                                    \
	} else if (is_filtered) {                                                                  \
		env = FILTERED_ENVIRONMENT(envp);                                                  \
	}                                                                                          \
	int error = call()(&child, path, actions, attributes, argv, env);                          \
	drop_environment(&room);                                                                   \
	if (pid && !error)                                                                         \
		*pid = child;                                                                      \
	child_made(&made, error ? -1 : child, STATE_EXECED);                                       \
	return error

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	SPAWN(real_posix_spawn, path, why_blind(reader, AT_FDCWD, path));
}

EXPORT int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	SPAWN(real_posix_spawnp, path, why_blind_in_path(reader, path));
}
