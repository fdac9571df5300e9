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
		IO_BEGIN(ABOUT_FILES);                          \
		type result = real_##name()(__VA_ARGS__);       \
                                                                \
		io_by_path(false, io_began);                    \
		return result;                                  \
	}
#define BY_FOLDER(name, call, parameters, ...)                                                    \
	REAL(int, name, UNPACK parameters)                                                        \
	EXPORT int name(UNPACK parameters)                                                        \
	{                                                                                         \
		IO_BEGIN(ABOUT_FILES);                                                            \
		int result = real_##name()(__VA_ARGS__);                                          \
                                                                                                  \
		if (folder != AT_FDCWD && is_empty(path))                                         \
			io_did(folder, IO_DID_METADATA, result < 0, SYS_##call, io_began);        \
		else                                                                              \
			io_by_path(false, io_began);                                              \
		return result;                                                                    \
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
BY_PATH(int, unlink, (const char *path), path)
BY_PATH(int, unlinkat, (int folder, const char *path, int flags), folder, path, flags)
BY_PATH(int, remove, (const char *path), path)
BY_PATH(int, rename, (const char *from, const char *to), from, to)
BY_PATH(int, renameat, (int folder, const char *from, int other, const char *to), folder, from, other, to)
BY_PATH(int, renameat2, (int folder, const char *from, int other, const char *to, unsigned flags), folder,
	from, other, to, flags)
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
