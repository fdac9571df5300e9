/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that are executed: one whose sanitizer's runtime must come first does not get the library, for it would
 * end at once. Reads the program's file; changes nothing for all others.
 */
#include "shim.h"
#include "../preload/sanitized.h"
#include <linux/limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

REAL(int, execve, const char *, char *const[], char *const[])
REAL(int, execvpe, const char *, char *const[], char *const[])
REAL(int, execveat, int, const char *, char *const[], char *const[], int)
REAL(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
     char *const[], char *const[])
REAL(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
     char *const[], char *const[])

static const char LIBRARIES[] = "LD_PRELOAD=";

/* Memory of its own, for the stack may be small. */
struct room {
	void *at;
	size_t bytes;
};

static void *take(struct room *room, size_t bytes)
{
	long at = RAW(mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*room = (struct room){ at < 0 && at > -4096 ? NULL : (void *)at, bytes };
	return room->at;
}

static void drop(const struct room *room)
{
	if (room->at)
		RAW(munmap, room->at, room->bytes);
}

/* As execvp(3) looks for it. */
static bool found_needs_first(const char *file)
{
	const char *list = getenv("PATH");
	struct room room;
	bool needs = false;

	if (strchr(file, '/'))
		return file_needs_first(AT_FDCWD, file);
	char *path = take(&room, PATH_MAX);
	for (size_t length = strlen(file); path && list && *list;) {
		size_t part = strcspn(list, ":");
		if (part + length + 2 <= PATH_MAX) {
			memcpy(path, list, part);
			path[part] = part ? '/' : 0;
			memcpy(path + part + !!part, file, length + 1);
			if (!RAW(faccessat, AT_FDCWD, path, 1 /* X_OK */)) {
				needs = file_needs_first(AT_FDCWD, path);
				break;
			}
		}
		list += part;
		list += *list == ':';
	}
	drop(&room);
	return needs;
}

#ifndef HAS_OWN_LIBRARIES
/* This one, as the loader was told. */
static const char *own_libraries(void)
{
	Dl_info about;

	return dladdr(LIBRARIES, &about) ? about.dli_fname : NULL;
}
#endif

/* Whether a list has this part; colons are between. */
static bool list_has(const char *list, const char *part, size_t length)
{
	for (; *list; list += *list == ':') {
		size_t here = strcspn(list, ":");
		if (here == length && !memcmp(list, part, length))
			return true;
		list += here;
	}
	return false;
}

/* A list of libraries without ours; returns where it ends. */
static char *copy_others(char *to, const char *list, const char *ours)
{
	char *start = to;

	while (*list) {
		size_t part = strcspn(list, ": ");
		if (part && !list_has(ours, list, part)) {
			if (to > start)
				*to++ = ':';
			memcpy(to, list, part);
			to += part;
		}
		list += part;
		list += !!*list;
	}
	*to = 0;
	return to;
}

/* The environment without the library; as it was where there is no memory. */
static char *const *without_library(char *const *given, struct room *room)
{
	size_t entries = 0, text = 0;
	const char *ours = own_libraries();

	for (; given[entries]; entries++)
		if (!strncmp(given[entries], LIBRARIES, strlen(LIBRARIES)))
			text += strlen(given[entries]) + 1;
	if (!text || !ours || !take(room, (entries + 1) * sizeof *given + text))
		return given;
	char **next = room->at, *at = (char *)(next + entries + 1);
	for (; *given; given++) {
		if (strncmp(*given, LIBRARIES, strlen(LIBRARIES))) {
			*next++ = *given;
			continue;
		}
		memcpy(at, LIBRARIES, sizeof LIBRARIES);
		char *value = at + strlen(LIBRARIES), *end = copy_others(value, *given + strlen(LIBRARIES), ours);
		if (end > value)
			*next++ = at;
		at = end + 1;
	}
	*next = NULL;
	return room->at;
}

/* The environment for a program, whether it `needs` another library first or is given one. */
static char *const *environment_for(char *const *given, bool needs, struct room *room)
{
	int kept = errno;
	char *const *made = given;

	*room = (struct room){ 0 };
	if (given && (needs || environment_has_first(given)))
		made = without_library(given, room);
	errno = kept;
	return made;
}

/* `call` sees the environment as `env`. */
#define EXECUTE(needs, given, call)                                   \
	({                                                            \
		struct room room;                                     \
		char *const *env = environment_for(given, needs, &room); \
		int result = call, after = errno;                     \
		drop(&room);                                          \
		errno = after;                                        \
		result;                                               \
	})

WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
	return EXECUTE(file_needs_first(AT_FDCWD, path), envp, real_execve()(path, argv, env));
}

WRAPPER int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return EXECUTE(found_needs_first(file), envp, real_execvpe()(file, argv, env));
}

WRAPPER int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

WRAPPER int execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags)
{
	return EXECUTE(file_needs_first(directory, path), envp,
		       real_execveat()(directory, path, argv, env, flags));
}

#include "../preload/exec_list.h"

WRAPPER int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return EXECUTE(file_needs_first(AT_FDCWD, path), envp,
		       real_posix_spawn()(pid, path, actions, attributes, argv, env));
}

WRAPPER int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return EXECUTE(found_needs_first(path), envp,
		       real_posix_spawnp()(pid, path, actions, attributes, argv, env));
}
