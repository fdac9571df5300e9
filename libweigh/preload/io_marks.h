/*
 * Who counts a call, where the kernel side counts in the job, too (`weigh io --mechanism preload+bpf`): whatever
 * the library answers for, nothing else passes over there.
 *
 * Each thread has a word with a bit for each kind of call (bpf/io/call_kinds.h). The library sets the bits of the
 * kinds that it is about to make and count, and puts back what was there when it is done; the BPF program reads
 * the word where a call begins. So calls that go past the library are counted by the kernel side: those of the
 * loader, of the C library by itself, by syscall(3), and of signal handlers that interrupt a call of ours.
 */
#ifndef WEIGH_IO_MARKS_H
#define WEIGH_IO_MARKS_H

#if LEVEL >= 4

#include "io_call_kinds.h"

struct mark {
	uint64_t kinds;
	/* The kernel side knows where this is. */
	bool is_told;
};

extern _Thread_local struct mark io_mark;
/* Whether there is a kernel side that counts. */
extern bool io_is_marked;

#define KIND(call) (1ull << CALL_##call)
/* What the library does for itself nobody counts. */
#define OWN_CALLS (~0ull)
#define OPENS (KIND(OPEN) | KIND(OPENAT) | KIND(OPENAT2) | KIND(CREAT))
#define ABOUT_FILES (KIND(METADATA) | KIND(STATAT) | KIND(PATH))

/* io_marks.c. For the first thread before anything is known, for others when they come to a call. */
void io_tell_mark(void);
/* Which file a descriptor refers to, as statx(2) tells it. */
void io_tell_file(int fd, uint32_t device, uint32_t born, uint64_t inode, uint32_t pid);

/* Returns what is to be put back. */
static inline uint64_t set_mark(uint64_t kinds)
{
	uint64_t before = io_mark.kinds;

	if (io_is_marked && !io_mark.is_told)
		io_tell_mark();
	*(volatile uint64_t *)&io_mark.kinds = kinds;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return before;
}

static inline void put_back_mark(const uint64_t *before)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uint64_t *)&io_mark.kinds = *before;
}

#undef RAW_
#define RAW_(number, a, b, c, d, e, f, ...)                                                            \
	({                                                                                             \
		const uint64_t mark_before = set_mark(OWN_CALLS);                                      \
		long raw_result = raw6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
				       (long)(f));                                                     \
		put_back_mark(&mark_before);                                                           \
		raw_result;                                                                            \
	})

#endif

#endif
