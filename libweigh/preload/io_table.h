/* Which file a descriptor refers to, and what is kept of it: between io_table.c and io_count.c. */
#ifndef WEIGH_IO_TABLE_H
#define WEIGH_IO_TABLE_H

#include "io.h"
#include "../src/single_threaded.h"

struct descriptor {
	struct io_use *use;
	/* The file's position, as far as this process alone moves it; negative: to be asked for. */
	int64_t position;
	/* Of which process this is known: a child knows nothing of its own yet. */
	uint32_t life;
	/* When it was opened, counted in processes made: those have it, too. */
	uint32_t epoch;
	/* O_APPEND, O_DIRECT, and the following. */
	uint32_t flags;
	/* Another descriptor of the same open file, plus one; all of them beyond that: IO_MANY. */
	uint32_t twin;
};

/* Others have the open file since before this program began. */
enum { IO_SHARED = 1 << 30, IO_MANY = 1 << 29 };

/* The first descriptors are in the library's own pages; there is more for more. */
enum { IO_FIRST = 256, IO_DESCRIPTORS = 65536 };

extern struct descriptor io_first[IO_FIRST];
extern uint32_t io_life;

/* The place of a descriptor, a null pointer where there is no room for it. */
struct descriptor *io_descriptor(int fd, bool makes_room);
/* Whether it is known already which file it refers to. */
bool io_is_known(int fd);
/* What is kept of the file behind it, which is looked up if it must; a null pointer where nothing is. */
struct io_use *io_use_of(struct descriptor *descriptor, int fd);
/* Whether a use is this process's, and open still. Under its lock. */
bool io_is_open(const struct io_use *use);
/* Where the file's position is now. */
int64_t io_ask_position(int fd);

/* At most a few microseconds: the holder may be what a signal handler has interrupted. */
bool io_lock_slowly(uint64_t *lock);

static inline bool io_lock(uint64_t *lock)
{
	if (LIKELY(is_single_threaded())) {
		if (*(volatile uint64_t *)lock)
			return false;
		*(volatile uint64_t *)lock = 1;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		return true;
	}
	return !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) || io_lock_slowly(lock);
}

static inline void io_unlock(uint64_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
