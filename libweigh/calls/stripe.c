/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The counts of calls, in a file that is shared with weigh: of a process in its stripe. As long as
 * there are stripes that were nobody's, each process takes one for itself alone, and while it has
 * one thread it adds without locking the bus. The others share what is left, by their numbers.
 */
#include "stripe.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include "../src/single_threaded.h"
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN_STRIPES (STRIPES / 2)
#define FILE_BYTES (sizeof(struct shim_head) + STRIPES * sizeof(struct stripe))

static struct shim_head no_head;
struct shim shim = { .head = &no_head };
static char file_path[4096];

bool has_file(void)
{
	return shim.stripe;
}

static size_t free_stripe(void)
{
	uint64_t none;

	for (size_t number = 0; number < OWN_STRIPES; number++) {
		none = 0;
		if (__atomic_compare_exchange_n(&shim.head->taken[number], &none, 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return number;
	}
	return OWN_STRIPES + (unsigned)getpid() % (STRIPES - OWN_STRIPES);
}

/* In the place of the one that it had from its parent, if it had. */
static bool map_stripe(int file)
{
	size_t number = free_stripe();
	off_t at = (off_t)(sizeof(struct shim_head) + number * sizeof(struct stripe));
	void *map = (void *)syscall(SYS_mmap, shim.stripe, sizeof(struct stripe), PROT_READ | PROT_WRITE,
				    MAP_SHARED | (shim.stripe ? MAP_FIXED : 0), file, at);

	if (map == MAP_FAILED)
		return false;
	shim.stripe = map;
	atomic_store(&shim.process->ready, 0);
	atomic_store(&shim.process->has, number < OWN_STRIPES ? HAS_OWN : HAS_SHARED);
	return true;
}

static int open_file(void)
{
	struct stat about;
	int file = (int)syscall(SYS_openat, AT_FDCWD, file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (file < 0 || (!syscall(SYS_fstat, file, &about) && (size_t)about.st_size == FILE_BYTES))
		return file;
	syscall(SYS_close, file);
	return -1;
}

/*
 * A signal handler may come here, too: nothing but system calls, and none by the C library's functions, which
 * are this library's own: they would come here again.
 */
SELDOM static void leave_parents_stripe(void)
{
	int kept = errno, file = open_file();

	/* What cannot be done now is tried again; until then both add with care. */
	if (file >= 0) {
		map_stripe(file);
		syscall(SYS_close, file);
	}
	errno = kept;
}

static bool map_of_process(void)
{
	void *page = mmap(0, sizeof(struct of_process), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || madvise(page, sizeof(struct of_process), MADV_WIPEONFORK))
		return false;
	shim.process = page;
	return true;
}

bool map_file(const char *path)
{
	void *head;
	int file;

	if (strlen(path) >= sizeof(file_path))
		return false;
	strcpy(file_path, path);
	file = open_file();
	if (file < 0)
		return false;
	head = mmap(0, sizeof(struct shim_head), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (head != MAP_FAILED && map_of_process()) {
		shim.head = head;
		if (!map_stripe(file))
			shim.head = &no_head;
	}
	syscall(SYS_close, file);
	return shim.stripe;
}

/* Whole before a signal's handler as well, which may count, too. */
static inline void raise_by(uint64_t *number, uint64_t by, bool alone)
{
#if defined(__x86_64__)
	if (alone) {
		__asm__("addq %1, %0" : "+m"(*number) : "r"(by) : "cc");
		return;
	}
#else
	(void)alone;
#endif
	add(number, by);
}

static unsigned bucket_of(uint64_t time)
{
	unsigned high;

	if (time < 1 << BUCKET_BITS)
		return (unsigned)time;
	high = 63 - (unsigned)__builtin_clzll(time);
	return ((high - BUCKET_BITS + 1) << BUCKET_BITS) +
	       (unsigned)((time >> (high - BUCKET_BITS)) & ((1 << BUCKET_BITS) - 1));
}

static void keep_bounds(struct call_counts *counts, uint64_t time)
{
	uint64_t bound = __atomic_load_n(&counts->longest_ns, __ATOMIC_RELAXED);

	while (time > bound && !__atomic_compare_exchange_n(&counts->longest_ns, &bound, time, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	bound = __atomic_load_n(&counts->shortest_ns, __ATOMIC_RELAXED);
	while ((!bound || time < bound) &&
	       !__atomic_compare_exchange_n(&counts->shortest_ns, &bound, time, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Whether nobody else adds to the stripe, which is this process's afterwards. */
static bool is_alone(void)
{
	uint32_t mine = atomic_load_explicit(&shim.process->has, memory_order_relaxed);

	if (!LIKELY(mine))
		leave_parents_stripe();
	return mine == HAS_OWN && is_single_threaded();
}

/* Linux 5.14: it fails where a touch would be a SIGBUS; before, weigh has made room for all. */
#define POPULATE_WRITE 23

SELDOM static bool make_room(unsigned call)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)&shim.stripe->calls[call];
	uintptr_t to = from + sizeof(struct call_counts);
	int kept = errno;
	bool is_made;

	from &= -page;
	is_made = !syscall(SYS_madvise, from, to - from, POPULATE_WRITE) || errno == EINVAL;
	errno = kept;
	if (is_made)
		atomic_fetch_or(&shim.process->ready, 1ull << call);
	else
		add(&shim.head->refused, 1);
	return is_made;
}

/* The file system may have none for what this process has not counted before. */
static inline bool has_room(unsigned call)
{
	return LIKELY(atomic_load_explicit(&shim.process->ready, memory_order_relaxed) >> call & 1) ||
	       make_room(call);
}

void count(unsigned call, uint64_t time, bool failed, uint64_t bytes, bool is_split)
{
	struct call_counts *counts = &shim.stripe->calls[call];
	bool alone = is_alone();

	if (!has_room(call))
		return;
	raise_by(&counts->time_ns, time, alone);
	if (failed)
		raise_by(&counts->errors, 1, alone);
	else if (bytes)
		raise_by(&counts->bytes, bytes, alone);
	if (!is_split)
		raise_by(&counts->not_split, 1, alone);
	raise_by(&counts->times[bucket_of(time)], 1, alone);
	keep_bounds(counts, time);
}

/* By sockets. */
void count_moved(unsigned call, uint64_t sent, uint64_t received, uint64_t messages)
{
	struct call_counts *counts = &shim.stripe->calls[call];
	bool alone = is_alone();

	if (!has_room(call))
		return;
	raise_by(&counts->socket_moves, messages, alone);
	if (sent)
		raise_by(&counts->socket_sent, sent, alone);
	if (received)
		raise_by(&counts->socket_received, received, alone);
}
