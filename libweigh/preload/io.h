/*
 * Level 4: what is done with each file. The functions that other levels have tell of their calls by
 * these macros, of which nothing is left below level 4.
 *
 * Nothing here makes a system call at an ordinary read or write: only where a descriptor is met for the
 * first time, where it is opened or closed, and where somebody else may have moved the file's position.
 */
#ifndef WEIGH_IO_H
#define WEIGH_IO_H

#include "shim.h"

#if LEVEL >= 4

#include "uses_layout.h" /* derived from crates/collect/src/preload/uses_layout.rs */
#include <time.h>

extern struct uses_file *uses_file;
/* Whether anything is counted: then the file is there. */
extern bool io_is_on;
/* This process's numbers. */
extern struct io_process *io_self;
extern bool io_is_by_counter;

static inline uint64_t io_now(void)
{
	struct timespec now;

	if (!io_is_on)
		return 0;
#if defined(__x86_64__)
	if (LIKELY(io_is_by_counter))
		return __builtin_ia32_rdtsc();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Where a transfer is in its file. */
enum io_place { IO_NOWHERE, IO_AT_OFFSET, IO_AT_POSITION };

/* What a call is, in one number that is known when it is compiled. */
#define IO_WHAT(transfer, wrote, place, call) \
	((transfer) | (wrote) << 4 | (place) << 5 | (uint32_t)(call) << 8)

enum io_deed { IO_DID_SEEK, IO_DID_METADATA, IO_DID_SYNC, IO_DID_TRUNCATE, IO_DID_MAP };

/* io_count.c. After a call that has moved n bytes, or failed if n is negative. */
void io_moved(int fd, ssize_t n, uint32_t what, uint64_t from, uint64_t began);
/* The same of several calls at once, of `n` bytes together; the time is told elsewhere if began is 0. */
void io_moved_many(int fd, ssize_t n, uint64_t calls, uint32_t what, uint64_t from, uint64_t began);
/*
 * Before a write at an offset, with its RWF_ flags: where the file ends, if the kernel will put it there; negative if
 * it goes to its offset, or to the file's own position.
 */
int64_t io_end_before(int fd, int64_t at, int how);
/* After it. */
void io_wrote_at(int fd, ssize_t n, uint32_t what, uint64_t from, int64_t end, uint64_t began);
/* From one descriptor to another, after the call. */
void io_copied_bytes(int in, const int64_t *in_at, int out, const int64_t *out_at, ssize_t n,
		     uint32_t call, uint64_t began);
/* The kernel's own accounting leaves it out. */
void io_uncounted(ssize_t n, bool read, bool wrote);
struct mmsghdr;
void io_moved_messages(int fd, const struct mmsghdr *messages, int n, bool wrote, uint32_t call,
		       uint64_t began);
void io_did(int fd, enum io_deed deed, bool failed, uint32_t call, uint64_t began);
void io_sought(int fd, int64_t to, uint64_t began);
void io_by_path(bool is_open_that_failed, uint64_t began);

/* io_table.c */
void io_begin(const char *path);
void io_opened(int fd, int flags, uint32_t call, uint64_t began);
void io_closes(int fd);
/* It is something new, and was not told of by an open. */
void io_made(int fd);
void io_closes_from(unsigned first, unsigned last);
void io_copied(int fd, int copy);
void io_set_flags(int fd, int flags);
/* Somebody else will have the same open files, and move their positions. */
extern uint32_t io_epoch;
void io_become_child(void);
struct statx;
/* A file has lost its last name. */
void io_lost_name(const struct statx *about);
/* The program has no more use of the processor's counter. */
void io_stop(void);
void io_say_last(void);
void io_before_exec(void);
uint64_t io_space(void);

/* io_streams.c */
void io_see_streams(void);

#define IO_BEGIN() const uint64_t io_began = io_now()
#define IO_MOVED(fd, n, transfer, wrote, place, from, call) \
	io_moved(fd, n, IO_WHAT(transfer, wrote, place, SYS_##call), from, io_began)
#define IO(...) __VA_ARGS__

#else

#define IO_BEGIN()
#define IO_MOVED(fd, n, transfer, wrote, place, from, call)
#define IO(...)

#endif

#endif
