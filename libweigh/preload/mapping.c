/*
 * Where the shared file is mapped: its head and this process's own slot from the start on, the whole of it when
 * there is need.
 *
 * Reads the file; does nothing with one that is not of this build.
 */
#include "shim.h"
#include "io.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The whole file is mapped where that is at most one of so many parts of the address space that
   the program may have. */
enum { LIMIT_PARTS = 8 };

/* The smallest pages there are. */
enum { PAGE = 4096 };

static size_t page_size;
struct head *shared_head;
struct slot *own_slot;
static uint32_t own_index = SLOTS;
struct shared *_Atomic all_mapped;

/*
 * Most programs do nothing but run and end: they have no need of more than two pages of the file.
 * Where the address space is limited the program is to have it: a child that it makes is counted as
 * one that got no slot, and looked at in /proc.
 */
struct shared *whole(void)
{
	struct shared *all = all_mapped, *none = NULL;
	struct rlimit64 limit;

	if (LIKELY(all))
		return all;
	if (!shared_head || RAW(prlimit64, 0, RLIMIT_AS, NULL, &limit) ||
	    limit.rlim_cur / LIMIT_PARTS < sizeof *all)
		return NULL;
	/* With an old size of 0 the same file is mapped once more: no descriptor is needed for it. */
	long at = RAW(mremap, shared_head, 0, sizeof *all, MREMAP_MAYMOVE);
	if (at < 0 && at > -4096)
		return NULL;
	all = (struct shared *)at;
	if (!atomic_compare_exchange_strong(&all_mapped, &none, all)) {
		RAW(munmap, all, sizeof *all);
		return none;
	}
	return all;
}

void *borrow(size_t bytes)
{
	long at = RAW(mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at < 0 && at > -4096 ? NULL : (void *)at;
}

void bring_back(void *at, size_t bytes)
{
	if (at)
		RAW(munmap, at, bytes);
}

/* Linux 5.14: it fails where a touch would be a SIGBUS. */
enum { POPULATE_WRITE = 23 };

/*
 * What was made room for is the file's: it is not to stand in the program's own account of memory for
 * longer than this takes.
 */
bool make_room(const void *at, size_t bytes)
{
	uintptr_t from = (uintptr_t)at & -page_size;
	size_t size = ((uintptr_t)at + bytes - from + page_size - 1) & -page_size;

	if (RAW(madvise, from, size, POPULATE_WRITE))
		return false;
	RAW(madvise, from, size, MADV_DONTNEED);
	return true;
}

uint64_t own_space(void)
{
	return (shared_head ? page_size : 0) + (own_slot ? page_size : 0) +
	       (all_mapped ? sizeof(struct shared) : 0) IO(+ io_space());
}

uint32_t index_of(const struct slot *slot)
{
	return slot == own_slot ? own_index : (uint32_t)(slot - all_mapped->slots);
}

static void *map_page(int fd, off_t at)
{
	long page = RAW(mmap, NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);

	return page < 0 && page > -4096 ? NULL : (void *)page;
}

/* Maps the head of the file, and the page that holds the slot of this number. */
bool map_file(const char *path, uint32_t index)
{
	_Static_assert(sizeof(struct head) <= PAGE, "the head is the first page");
	_Static_assert(PAGE % sizeof(struct slot) == 0 &&
			       offsetof(struct shared, slots) % sizeof(struct slot) == 0,
		       "a slot does not lie across two pages");
	struct stat about;
	int fd = raw_open(path, O_RDWR);

	if (fd < 0)
		return false;
	page_size = getauxval(AT_PAGESZ);
	struct head *head = NULL;
	if (!RAW(fstat, fd, &about) && about.st_size == sizeof(struct shared))
		head = map_page(fd, 0);
	if (head && head->magic == MAGIC && index < SLOTS && index < head->room) {
		off_t at = offsetof(struct shared, slots) + index * sizeof(struct slot);
		char *page = map_page(fd, at & -page_size);
		if (page) {
			own_slot = (struct slot *)(page + (at & (page_size - 1)));
			own_index = index;
		}
	}
	RAW(close, fd);
	if (head && head->magic != MAGIC) {
		munmap(head, page_size);
		head = NULL;
	}
	shared_head = head;
	return head;
}
