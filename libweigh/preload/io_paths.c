/*
 * Calls that name a file by its path and open nothing: counted by process. Those that can be about a
 * descriptor, with an empty path, are counted as that.
 */
#include "io.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#define UNPACK(...) __VA_ARGS__

#define BY_PATH(type, name, parameters, ...)                    \
	REAL(type, name, UNPACK parameters)                     \
	EXPORT type name(UNPACK parameters)                     \
	{                                                       \
		IO_BEGIN();                                     \
		type result = real_##name()(__VA_ARGS__);       \
                                                                \
		io_by_path(false, io_began);                    \
		return result;                                  \
	}
#define BY_FOLDER(name, call, parameters, ...)                                                    \
	REAL(int, name, UNPACK parameters)                                                        \
	EXPORT int name(UNPACK parameters)                                                        \
	{                                                                                         \
		IO_BEGIN();                                                                       \
		int result = real_##name()(__VA_ARGS__);                                          \
                                                                                                  \
		if (folder != AT_FDCWD && is_empty(path))                                         \
			io_did(folder, IO_DID_METADATA, result < 0, SYS_##call, io_began);        \
		else                                                                              \
			io_by_path(false, io_began);                                              \
		return result;                                                                    \
	}

/* Takes a name from a file, or gives it to another. */
#define TAKES_NAME(call, at, name, parameters, ...)                                               \
	REAL(int, call, UNPACK parameters)                                                        \
	EXPORT int call(UNPACK parameters)                                                        \
	{                                                                                         \
		IO_BEGIN();                                                                       \
		struct statx io_before;                                                           \
		const bool io_was_last = is_last_name(at, name, &io_before);                      \
		int result = real_##call()(__VA_ARGS__);                                          \
                                                                                                  \
		if (io_was_last && !result && !leads_to(at, name, &io_before))                    \
			io_lost_name(&io_before);                                                 \
		io_by_path(false, io_began);                                                      \
		return result;                                                                    \
	}

static bool look_up(int folder, const char *path, struct statx *about)
{
	return !RAW(statx, folder, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		    STATX_BASIC_STATS | STATX_BTIME, about);
}

/* Whether a regular file has no other name. */
static bool is_last_name(int folder, const char *path, struct statx *about)
{
	return io_is_on && look_up(folder, path, about) && S_ISREG(about->stx_mode) &&
	       about->stx_nlink == 1;
}

/* After the call: a file may be renamed to what it is called already. */
static bool leads_to(int folder, const char *path, const struct statx *before)
{
	struct statx now;

	return look_up(folder, path, &now) && now.stx_ino == before->stx_ino &&
	       now.stx_dev_major == before->stx_dev_major && now.stx_dev_minor == before->stx_dev_minor;
}

/* The kernel may be given none; the header says that the C library is not. */
static bool is_empty(const char *volatile path)
{
	return !path || !*path;
}

BY_FOLDER(fstatat, newfstatat, (int folder, const char *path, struct stat *about, int flags), folder, path,
	  about, flags)
BY_FOLDER(fstatat64, newfstatat, (int folder, const char *path, struct stat64 *about, int flags), folder,
	  path, about, flags)
BY_FOLDER(statx, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *about),
	  folder, path, flags, mask, about)
BY_FOLDER(__fxstatat, newfstatat,
	  (int version, int folder, const char *path, struct stat *about, int flags), version, folder, path,
	  about, flags)
BY_FOLDER(__fxstatat64, newfstatat,
	  (int version, int folder, const char *path, struct stat64 *about, int flags), version, folder,
	  path, about, flags)

BY_PATH(int, stat, (const char *path, struct stat *about), path, about)
BY_PATH(int, stat64, (const char *path, struct stat64 *about), path, about)
BY_PATH(int, lstat, (const char *path, struct stat *about), path, about)
BY_PATH(int, lstat64, (const char *path, struct stat64 *about), path, about)
BY_PATH(int, __xstat, (int version, const char *path, struct stat *about), version, path, about)
BY_PATH(int, __xstat64, (int version, const char *path, struct stat64 *about), version, path, about)
BY_PATH(int, __lxstat, (int version, const char *path, struct stat *about), version, path, about)
BY_PATH(int, __lxstat64, (int version, const char *path, struct stat64 *about), version, path, about)
BY_PATH(int, access, (const char *path, int mode), path, mode)
BY_PATH(int, faccessat, (int folder, const char *path, int mode, int flags), folder, path, mode, flags)
TAKES_NAME(unlink, AT_FDCWD, path, (const char *path), path)
TAKES_NAME(unlinkat, folder, path, (int folder, const char *path, int flags), folder, path, flags)
TAKES_NAME(remove, AT_FDCWD, path, (const char *path), path)
TAKES_NAME(rename, AT_FDCWD, to, (const char *from, const char *to), from, to)
TAKES_NAME(renameat, other, to, (int folder, const char *from, int other, const char *to), folder, from, other,
	   to)
TAKES_NAME(renameat2, other, flags & RENAME_EXCHANGE ? NULL : to,
	   (int folder, const char *from, int other, const char *to, unsigned flags), folder, from, other, to,
	   flags)
BY_PATH(int, mkdir, (const char *path, mode_t mode), path, mode)
BY_PATH(int, mkdirat, (int folder, const char *path, mode_t mode), folder, path, mode)
BY_PATH(int, rmdir, (const char *path), path)
BY_PATH(ssize_t, readlink, (const char *path, char *to, size_t size), path, to, size)
BY_PATH(ssize_t, readlinkat, (int folder, const char *path, char *to, size_t size), folder, path, to, size)
BY_PATH(int, link, (const char *from, const char *to), from, to)
BY_PATH(int, linkat, (int folder, const char *from, int other, const char *to, int flags), folder, from,
	other, to, flags)
BY_PATH(int, symlink, (const char *from, const char *to), from, to)
BY_PATH(int, symlinkat, (const char *from, int folder, const char *to), from, folder, to)
BY_PATH(int, chmod, (const char *path, mode_t mode), path, mode)
BY_PATH(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), folder, path, mode, flags)
BY_PATH(int, chown, (const char *path, uid_t user, gid_t group), path, user, group)
BY_PATH(int, lchown, (const char *path, uid_t user, gid_t group), path, user, group)
BY_PATH(int, fchownat, (int folder, const char *path, uid_t user, gid_t group, int flags), folder, path,
	user, group, flags)
BY_PATH(int, truncate, (const char *path, off64_t size), path, size)
BY_PATH(int, truncate64, (const char *path, off64_t size), path, size)
BY_PATH(int, statfs, (const char *path, struct statfs *about), path, about)
BY_PATH(int, statfs64, (const char *path, struct statfs64 *about), path, about)
BY_PATH(int, utimensat, (int folder, const char *path, const struct timespec times[2], int flags), folder,
	path, times, flags)
BY_PATH(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size), path, name, value,
	size)
BY_PATH(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size), path, name,
	value, size)
BY_PATH(int, setxattr, (const char *path, const char *name, const void *value, size_t size, int flags), path,
	name, value, size, flags)
BY_PATH(ssize_t, listxattr, (const char *path, char *list, size_t size), path, list, size)
