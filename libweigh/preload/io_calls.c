/*
 * Calls on descriptors that only level 4 has functions for: transfers at an offset, seeks, syncs, and
 * what else is done with a file.
 *
 * The __…_chk functions are what the compiler makes of the others where it knows how much room there is;
 * __fxstat and its like are what programs of old C libraries call.
 */
#include "io.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define UNPACK(...) __VA_ARGS__

/* A transfer of `fd`. */
#define MOVES(name, kind, wrote, place, from, call, parameters, ...)                           \
	REAL(ssize_t, name, UNPACK parameters)                                                 \
	EXPORT ssize_t name(UNPACK parameters)                                                 \
	{                                                                                      \
		IO_BEGIN();                                                                    \
		ssize_t n = real_##name()(__VA_ARGS__);                                        \
                                                                                               \
		IO_MOVED(fd, n, kind, wrote, place, from, call);                               \
		return n;                                                                      \
	}
/* A write at an offset: with O_APPEND, or RWF_ flags (`how`), the kernel puts it elsewhere. */
#define WRITES_AT(name, kind, how, call, parameters, ...)                                      \
	REAL(ssize_t, name, UNPACK parameters)                                                 \
	EXPORT ssize_t name(UNPACK parameters)                                                 \
	{                                                                                      \
		const int64_t end = io_end_before(fd, at, how);                                \
		IO_BEGIN();                                                                    \
		ssize_t n = real_##name()(__VA_ARGS__);                                        \
                                                                                               \
		io_wrote_at(fd, n, IO_WHAT(kind, 1, BY_SIGN, SYS_##call), at, end, io_began);  \
		return n;                                                                      \
	}
#define OF(direction_data) (int fd, direction_data *data, size_t size, off64_t at)
#define PARTS (int fd, const struct iovec *parts, int number, off64_t at)
#define PARTS_2 (int fd, const struct iovec *parts, int number, off64_t at, int flags)
#define AT IO_AT_OFFSET
/* -1 stands for the file's own position. */
#define BY_SIGN (at < 0 ? IO_AT_POSITION : IO_AT_OFFSET)

MOVES(pread, IO_POSITIONED, false, AT, at, pread64,
      OF(void), fd, data, size, at)
MOVES(pread64, IO_POSITIONED, false, AT, at, pread64,
      OF(void), fd, data, size, at)
MOVES(__pread_chk, IO_POSITIONED, false, AT, at, pread64,
      (int fd, void *data, size_t size, off64_t at, size_t room), fd, data, size, at, room)
MOVES(__pread64_chk, IO_POSITIONED, false, AT, at, pread64,
      (int fd, void *data, size_t size, off64_t at, size_t room), fd, data, size, at, room)
WRITES_AT(pwrite, IO_POSITIONED, 0, pwrite64, OF(const void), fd, data, size, at)
WRITES_AT(pwrite64, IO_POSITIONED, 0, pwrite64, OF(const void), fd, data, size, at)
MOVES(preadv, IO_VECTORED, false, AT, at, preadv,
      PARTS, fd, parts, number, at)
MOVES(preadv64, IO_VECTORED, false, AT, at, preadv,
      PARTS, fd, parts, number, at)
WRITES_AT(pwritev, IO_VECTORED, 0, pwritev, PARTS, fd, parts, number, at)
WRITES_AT(pwritev64, IO_VECTORED, 0, pwritev, PARTS, fd, parts, number, at)
MOVES(preadv2, IO_VECTORED, false, BY_SIGN, at, preadv2,
      PARTS_2, fd, parts, number, at, flags)
MOVES(preadv64v2, IO_VECTORED, false, BY_SIGN, at, preadv2,
      PARTS_2, fd, parts, number, at, flags)
WRITES_AT(pwritev2, IO_VECTORED, flags, pwritev2, PARTS_2, fd, parts, number, at, flags)
WRITES_AT(pwritev64v2, IO_VECTORED, flags, pwritev2, PARTS_2, fd, parts, number, at, flags)

REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned)
EXPORT ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size,
			       unsigned flags)
{
	IO_BEGIN();
	ssize_t n = real_copy_file_range()(in, in_at, out, out_at, size, flags);

	io_copied_bytes(in, in_at, out, out_at, n, SYS_copy_file_range, io_began);
	return n;
}

#define SEEKS(name)                                                 \
	REAL(off64_t, name, int, off64_t, int)                      \
	EXPORT off64_t name(int fd, off64_t to, int from)           \
	{                                                           \
		IO_BEGIN();                                         \
		off64_t at = real_##name()(fd, to, from);           \
                                                                    \
		io_sought(fd, at, io_began);                        \
		return at;                                          \
	}
SEEKS(lseek)
SEEKS(lseek64)

/* Anything else that is done with `fd`, and whether what it returns says that it failed. */
#define DOES(type, name, deed, call, has_failed, parameters, ...)            \
	REAL(type, name, UNPACK parameters)                                  \
	EXPORT type name(UNPACK parameters)                                  \
	{                                                                    \
		IO_BEGIN();                                                  \
		type result = real_##name()(__VA_ARGS__);                    \
                                                                             \
		io_did(fd, deed, has_failed, SYS_##call, io_began);          \
		return result;                                               \
	}
#define SYNCS(name, call, parameters, ...) \
	DOES(int, name, IO_DID_SYNC, call, result < 0, parameters, __VA_ARGS__)
#define ABOUT(type, name, call, parameters, ...) \
	DOES(type, name, IO_DID_METADATA, call, result < 0, parameters, __VA_ARGS__)

SYNCS(fsync, fsync, (int fd), fd)
SYNCS(fdatasync, fdatasync, (int fd), fd)
SYNCS(syncfs, syncfs, (int fd), fd)
SYNCS(sync_file_range, sync_file_range, (int fd, off64_t at, off64_t size, unsigned flags), fd, at, size,
      flags)
DOES(int, ftruncate, IO_DID_TRUNCATE, ftruncate, result < 0, (int fd, off64_t size), fd, size)
DOES(int, ftruncate64, IO_DID_TRUNCATE, ftruncate, result < 0, (int fd, off64_t size), fd, size)

ABOUT(int, fstat, fstat, (int fd, struct stat *about), fd, about)
ABOUT(int, fstat64, fstat, (int fd, struct stat64 *about), fd, about)
ABOUT(int, __fxstat, fstat, (int version, int fd, struct stat *about), version, fd, about)
ABOUT(int, __fxstat64, fstat, (int version, int fd, struct stat64 *about), version, fd, about)
ABOUT(int, fallocate, fallocate, (int fd, int mode, off64_t at, off64_t size), fd, mode, at, size)
ABOUT(int, fallocate64, fallocate, (int fd, int mode, off64_t at, off64_t size), fd, mode, at, size)
ABOUT(int, fchmod, fchmod, (int fd, mode_t mode), fd, mode)
ABOUT(int, fchown, fchown, (int fd, uid_t user, gid_t group), fd, user, group)
ABOUT(int, flock, flock, (int fd, int operation), fd, operation)
ABOUT(ssize_t, readahead, readahead, (int fd, off64_t at, size_t size), fd, at, size)
ABOUT(int, fstatfs, fstatfs, (int fd, struct statfs *about), fd, about)
ABOUT(int, fstatfs64, fstatfs, (int fd, struct statfs64 *about), fd, about)
ABOUT(ssize_t, fgetxattr, fgetxattr, (int fd, const char *name, void *value, size_t size), fd, name, value,
      size)
ABOUT(int, fsetxattr, fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags), fd,
      name, value, size, flags)
ABOUT(ssize_t, flistxattr, flistxattr, (int fd, char *list, size_t size), fd, list, size)
ABOUT(int, fremovexattr, fremovexattr, (int fd, const char *name), fd, name)
ABOUT(ssize_t, getdents64, getdents64, (int fd, void *entries, size_t size), fd, entries, size)
/* They return the error. */
DOES(int, posix_fadvise, IO_DID_METADATA, fadvise64, result != 0,
     (int fd, off64_t at, off64_t size, int advice), fd, at, size, advice)
DOES(int, posix_fadvise64, IO_DID_METADATA, fadvise64, result != 0,
     (int fd, off64_t at, off64_t size, int advice), fd, at, size, advice)
DOES(int, posix_fallocate, IO_DID_METADATA, fallocate, result != 0, (int fd, off64_t at, off64_t size), fd,
     at, size)
DOES(int, posix_fallocate64, IO_DID_METADATA, fallocate, result != 0,
     (int fd, off64_t at, off64_t size), fd, at, size)

/* Where nothing is given it takes no third argument: what stands there then is not looked at. */
REAL(int, ioctl, int, unsigned long, void *)
EXPORT int ioctl(int fd, unsigned long what, ...)
{
	va_list list;

	va_start(list, what);
	void *argument = va_arg(list, void *);
	va_end(list);
	IO_BEGIN();
	int result = real_ioctl()(fd, what, argument);

	io_did(fd, IO_DID_METADATA, result == -1, SYS_ioctl, io_began);
	return result;
}

#define MAPS(name)                                                                             \
	REAL(void *, name, void *, size_t, int, int, int, off64_t)                             \
	EXPORT void *name(void *at, size_t size, int rights, int flags, int fd, off64_t from)  \
	{                                                                                      \
		IO_BEGIN();                                                                    \
		void *result = real_##name()(at, size, rights, flags, fd, from);               \
                                                                                               \
		if (!(flags & MAP_ANONYMOUS) && fd >= 0)                                       \
			io_did(fd, IO_DID_MAP, result == MAP_FAILED, SYS_mmap, io_began);      \
		return result;                                                                 \
	}
MAPS(mmap)
MAPS(mmap64)

/* Its descriptor is closed inside the C library. */
REAL(int, closedir, DIR *)
EXPORT int closedir(DIR *folder)
{
	io_closes(dirfd(folder));
	return real_closedir()(folder);
}

REAL(int, pipe, int *)
REAL(int, pipe2, int *, int)
EXPORT int pipe(int ends[2])
{
	int result = real_pipe()(ends);

	if (result == 0)
		io_made(ends[0]), io_made(ends[1]);
	return result;
}

EXPORT int pipe2(int ends[2], int flags)
{
	int result = real_pipe2()(ends, flags);

	if (result == 0)
		io_made(ends[0]), io_made(ends[1]);
	return result;
}
