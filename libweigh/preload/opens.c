/*
 * Opened files: counted, and told to weigh with their paths, which fall out where it is behind. A
 * long path takes several records, one behind the other.
 */
#include "opens.h"
#include "descriptors.h"
#include "io.h"

#include <dirent.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

REAL(int, open, const char *, int, mode_t)
REAL(int, open64, const char *, int, mode_t)
REAL(int, openat, int, const char *, int, mode_t)
REAL(int, openat64, int, const char *, int, mode_t)
REAL(int, __open_2, const char *, int)
REAL(int, __open64_2, const char *, int)
REAL(int, __openat_2, int, const char *, int)
REAL(int, __openat64_2, int, const char *, int)
REAL(int, creat, const char *, mode_t)
REAL(int, creat64, const char *, mode_t)
REAL(int, mkstemp, char *)
REAL(int, mkstemp64, char *)
REAL(int, mkostemp, char *, int)
REAL(int, mkostemp64, char *, int)
REAL(FILE *, fopen, const char *, const char *)
REAL(FILE *, fopen64, const char *, const char *)
REAL(FILE *, freopen, const char *, const char *, FILE *)
REAL(FILE *, freopen64, const char *, const char *, FILE *)
REAL(DIR *, opendir, const char *)

/* Whether the file has room for the records up to one; they are taken one after the other, round and round. */
static bool has_room(struct shared *all, uint64_t end)
{
	uint32_t room = shared_head->record_room;

	while (room < end && room < RECORDS) {
		if (room > RECORDS - ROOM_STEP ||
		    !make_room(&all->records[room], ROOM_STEP * sizeof *all->records))
			return false;
		if (atomic_compare_exchange_strong(&shared_head->record_room, &room, room + ROOM_STEP))
			room += ROOM_STEP;
	}
	return true;
}

static void tell(const char *path, size_t length)
{
	struct shared *all = whole();
	uint64_t head = shared_head->records_head;
	const size_t room = sizeof all->records->path;
	uint32_t parts = length ? (length - 1) / room + 1 : 1;

	do {
		if (!all || head + parts - shared_head->records_tail > RECORDS ||
		    !has_room(all, head + parts)) {
			shared_head->records_lost++;
			return;
		}
	} while (!atomic_compare_exchange_weak(&shared_head->records_head, &head, head + parts));
	for (uint32_t part = 0; part < parts; part++, head++) {
		struct record *record = &all->records[head % RECORDS];
		size_t left = length - part * room;
		record->pid = known.pid;
		record->started_ns = self->started_ns;
		record->path_bytes = length;
		record->part = part;
		memcpy(record->path, path + part * room, left < room ? left : room);
		record->complete = head + 1;
	}
}

enum { SHORT_PATH = 512 };

/* The path behind a descriptor; the kernel tells none that is longer than this. */
static long path_of(int fd, char *path, size_t room)
{
	char name[32] = "/proc/self/fd/", *end = name + strlen(name);
	char digits[10];
	int n = 0;

	do
		digits[n++] = '0' + fd % 10;
	while (fd /= 10);
	while (n)
		*end++ = digits[--n];
	*end = 0;
	return RAW(readlinkat, AT_FDCWD, name, path, room);
}

/* Longer than the kernel tells: the beginning is missing, and it says so. */
static long cut_path(const char *path, char *found, size_t room)
{
	static const char cut[] = "…/";
	size_t begin = sizeof cut - 1, given = path ? strnlen(path, room - begin) : 0;

	memcpy(found, cut, begin);
	memcpy(found + begin, path, given);
	return begin + given;
}

/* Stacks may be small, and paths long. */
static void tell_long(const char *path, int fd)
{
	char *found = borrow(PATH_MAX);

	if (!found) {
		shared_head->records_lost++;
		return;
	}
	long length = path_of(fd, found, PATH_MAX);
	tell(found, length > 0 ? length : cut_path(path, found, PATH_MAX));
	bring_back(found, PATH_MAX);
}

static void tell_found(const char *path, int fd)
{
	char found[SHORT_PATH];
	long length = path_of(fd, found, sizeof found);

	if (length > 0 && length < (long)sizeof found)
		tell(found, length);
	else
		tell_long(path, fd);
}

void opened(int directory, const char *path, int fd)
{
	(void)directory;
	if (fd < 0)
		return;
	set_kind(fd, OTHER);
	count(COUNTER_FILES_OPENED, 1);
	if (!known.pid)
		return;
	if (path && *path == '/') {
		tell(path, strlen(path));
		return;
	}
	tell_found(path, fd);
}

void after_open_call(long number, long a, long b, long result)
{
	switch (number) {
#ifdef SYS_open
	case SYS_open:
	case SYS_creat:
		opened(AT_FDCWD, (const char *)a, result);
		break;
#endif
	case SYS_openat:
	case SYS_openat2:
		opened(a, (const char *)b, result);
		break;
	case SYS_close:
		set_kind(a, UNKNOWN);
		break;
	}
}

/* The mode is there only if a file may be made. */
#define MODE(last)                                                        \
	mode_t mode = 0;                                                  \
	if (last & O_CREAT || (last & O_TMPFILE) == O_TMPFILE) {          \
		va_list list;                                             \
		va_start(list, last);                                     \
		mode = va_arg(list, mode_t);                              \
		va_end(list);                                             \
	}

#define OPENED(directory, path, flags, call)              \
	IO_BEGIN();                                       \
	int fd = call;                                    \
	IO(io_opened(fd, flags, SYS_openat, io_began);)   \
	opened(directory, path, fd);                      \
	return fd

EXPORT int open(const char *path, int flags, ...)
{
	MODE(flags)
	OPENED(AT_FDCWD, path, flags, real_open()(path, flags, mode));
}

EXPORT int open64(const char *path, int flags, ...)
{
	MODE(flags)
	OPENED(AT_FDCWD, path, flags, real_open64()(path, flags, mode));
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
	MODE(flags)
	OPENED(directory, path, flags, real_openat()(directory, path, flags, mode));
}

EXPORT int openat64(int directory, const char *path, int flags, ...)
{
	MODE(flags)
	OPENED(directory, path, flags, real_openat64()(directory, path, flags, mode));
}

EXPORT int __open_2(const char *path, int flags)
{
	OPENED(AT_FDCWD, path, flags, real___open_2()(path, flags));
}

EXPORT int __open64_2(const char *path, int flags)
{
	OPENED(AT_FDCWD, path, flags, real___open64_2()(path, flags));
}

EXPORT int __openat_2(int directory, const char *path, int flags)
{
	OPENED(directory, path, flags, real___openat_2()(directory, path, flags));
}

EXPORT int __openat64_2(int directory, const char *path, int flags)
{
	OPENED(directory, path, flags, real___openat64_2()(directory, path, flags));
}

EXPORT int creat(const char *path, mode_t mode)
{
	OPENED(AT_FDCWD, path, O_TRUNC, real_creat()(path, mode));
}

EXPORT int creat64(const char *path, mode_t mode)
{
	OPENED(AT_FDCWD, path, O_TRUNC, real_creat64()(path, mode));
}

EXPORT int mkstemp(char *path)
{
	OPENED(AT_FDCWD, path, 0, real_mkstemp()(path));
}

EXPORT int mkstemp64(char *path)
{
	OPENED(AT_FDCWD, path, 0, real_mkstemp64()(path));
}

EXPORT int mkostemp(char *path, int flags)
{
	OPENED(AT_FDCWD, path, flags, real_mkostemp()(path, flags));
}

EXPORT int mkostemp64(char *path, int flags)
{
	OPENED(AT_FDCWD, path, flags, real_mkostemp64()(path, flags));
}

#if LEVEL >= 4
static int flags_of(const char *mode)
{
	return *mode == 'w' ? O_TRUNC : *mode == 'a' ? O_APPEND : 0;
}
#endif

#define OPENED_STREAM(path, mode, call)                                                          \
	IO_BEGIN();                                                                              \
	FILE *stream = call;                                                                     \
	IO(io_opened(stream ? fileno(stream) : -1, flags_of(mode), SYS_openat, io_began);)       \
	if (stream)                                                                              \
		opened(AT_FDCWD, path, fileno(stream));                                          \
	return stream

EXPORT FILE *fopen(const char *path, const char *mode)
{
	OPENED_STREAM(path, mode, real_fopen()(path, mode));
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	OPENED_STREAM(path, mode, real_fopen64()(path, mode));
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *old)
{
	OPENED_STREAM(path, mode, real_freopen()(path, mode, old));
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *old)
{
	OPENED_STREAM(path, mode, real_freopen64()(path, mode, old));
}

EXPORT DIR *opendir(const char *path)
{
	IO_BEGIN();
	DIR *folder = real_opendir()(path);

	IO(io_opened(folder ? dirfd(folder) : -1, 0, SYS_openat, io_began);)
	if (folder)
		opened(AT_FDCWD, path, dirfd(folder));
	return folder;
}
