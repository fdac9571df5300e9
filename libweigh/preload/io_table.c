/*
 * The second shared file, with a place for each file and process, and which of them a descriptor
 * refers to.
 *
 * A descriptor that the library does not know is looked up when it is first used: who opened it may have
 * been another program, or the C library by itself. A process without a place counts in the rest.
 */
#include "io_table.h"

#include <linux/limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { BUCKETS = 1024, SPINS = 100, YIELDS = 100, LIMIT_PARTS = 8 };

struct uses_file *uses_file;
bool io_is_on;
struct io_process *io_self;
bool io_is_by_counter;
uint32_t io_epoch = 1;

/* Which process this is of those that have had this memory. */
uint32_t io_life = 1;
static uint32_t self_index;

struct descriptor io_first[IO_FIRST];
static struct descriptor *_Atomic later;

/* Uses by their files, plus one; those of another life mean nothing. */
static uint32_t buckets[BUCKETS], buckets_life;
static uint64_t table_lock;
/* Of who meets a descriptor for the first time: it counts once, though two threads use it at once. */
static uint64_t meeting_lock;

bool io_lock_slowly(uint64_t *lock)
{
	for (int i = 0; i < SPINS + YIELDS; i++) {
		if (!__atomic_load_n(lock, __ATOMIC_RELAXED) && !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
			return true;
		if (i >= SPINS)
			RAW(sched_yield);
	}
	return false;
}

/* A child by vfork has descriptors of its own: they are not the parent's. */
static bool are_others(void)
{
	return !io_is_on || !known.pid || is_guest();
}

/* Makes room for so many at a place; weigh makes some ahead. */
static bool found_room(uint64_t *bound, uint64_t index, uint64_t most, const void *first, size_t size)
{
	uint64_t room = __atomic_load_n(bound, __ATOMIC_ACQUIRE);

	while (index >= room) {
		if (room > most - USE_STEP ||
		    !make_room((const char *)first + room * size, USE_STEP * size))
			return false;
		if (__atomic_compare_exchange_n(bound, &room, room + USE_STEP, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			room += USE_STEP;
	}
	return true;
}

/* Whether the file has room for this process's numbers. */
static bool introduce(void)
{
	self_index = index_of(self);
	io_self = &uses_file->processes[self_index].at;
	return found_room(&uses_file->head.process_room, self_index, SLOTS, uses_file->processes,
			sizeof *uses_file->processes);
}

static bool has_room(void)
{
	struct rlimit64 limit;

	return !RAW(prlimit64, 0, RLIMIT_AS, NULL, &limit) &&
	       limit.rlim_cur / LIMIT_PARTS >= sizeof(struct uses_file);
}

uint64_t io_space(void)
{
	return uses_file ? sizeof *uses_file : 0;
}

/* What the kernel has counted for this thread, without what the library itself has read. */
static bool kernel_count(uint64_t *bytes, uint64_t *calls)
{
	char text[256] = "\n";
	uint64_t own_bytes = self->own_bytes, own_calls = self->own_calls;
	int fd = raw_open("/proc/thread-self/io", O_RDONLY);

	if (fd < 0)
		return false;
	long got = charged_read(fd, text + 1, sizeof text - 2, self);
	RAW(close, fd);
	text[1 + (got > 0 ? got : 0)] = 0;
	if (!number_behind(text, "\nrchar:", bytes) || !number_behind(text, "\nsyscr:", calls))
		return false;
	*bytes -= own_bytes;
	*calls -= own_calls;
	return true;
}

void io_before_exec(void)
{
	if (io_is_on)
		kernel_count(&io_self->executed_read_bytes, &io_self->executed_read_calls);
}

/* The program has just begun: what was read since it was executed nobody could see. */
static void count_start(void)
{
	uint64_t bytes, calls;

	if (!kernel_count(&bytes, &calls) || bytes < io_self->executed_read_bytes)
		return;
	io_self->start_read_bytes += bytes - io_self->executed_read_bytes;
	io_self->start_read_calls += calls - io_self->executed_read_calls;
}

static void *own_map(size_t size, int fd)
{
	long at = RAW(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at < 0 && at > -4096 ? MAP_FAILED : (void *)at;
}

/* Beside the file of the processes; the slot is this process's. */
void io_begin(const char *path)
{
	char name[256 + sizeof USES_SUFFIX];
	struct stat about;

	strcpy(name, path);
	strcat(name, USES_SUFFIX);
	int fd = raw_open(name, O_RDWR);
	if (fd < 0)
		return;
	struct uses_file *file = MAP_FAILED;
	size_t size = has_room() ? sizeof *file : sizeof file->head;
	if (!RAW(fstat, fd, &about) && about.st_size == sizeof *file)
		file = own_map(size, fd);
	RAW(close, fd);
	if (file == MAP_FAILED)
		return;
	if (file->head.magic != USES_MAGIC || size < sizeof *file) {
		if (file->head.magic == USES_MAGIC)
			__atomic_fetch_add(&file->head.refused, 1, __ATOMIC_RELAXED);
		munmap(file, size);
		return;
	}
	io_is_by_counter = file->head.is_by_counter;
	uses_file = file;
	if (!introduce()) {
		io_is_on = true;
		io_stop();
		return;
	}
	count_start();
	io_see_streams();
	io_is_on = true;
}

void io_stop(void)
{
	if (io_is_on)
		__atomic_fetch_add(&uses_file->head.refused, 1, __ATOMIC_RELAXED);
	io_is_on = false;
}

/* The caller is a new process: what it has inherited is another's. */
void io_become_child(void)
{
	if (!io_is_on)
		return;
	io_life++;
	io_epoch++;
	table_lock = meeting_lock = 0;
	if (!known.pid || pid_of(self->life) != known.pid)
		io_is_on = false;
	else if (!introduce())
		io_stop();
}

struct descriptor *io_descriptor(int fd, bool makes_room)
{
	struct descriptor *more = later, *none = NULL;
	const size_t size = IO_DESCRIPTORS * sizeof *more;

	if ((unsigned)fd < IO_FIRST)
		return &io_first[fd];
	if ((unsigned)fd >= IO_DESCRIPTORS)
		return NULL;
	if (!more && makes_room) {
		long at = RAW(mmap, NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at < 0 && at > -4096)
			return NULL;
		more = (struct descriptor *)at;
		if (!atomic_compare_exchange_strong(&later, &none, more)) {
			RAW(munmap, more, size);
			more = none;
		}
	}
	return more ? &more[fd] : NULL;
}

bool io_is_known(int fd)
{
	const struct descriptor *descriptor = io_descriptor(fd, false);

	return descriptor && descriptor->use && descriptor->life == io_life;
}

int64_t io_ask_position(int fd)
{
	return RAW(lseek, fd, 0, SEEK_CUR);
}

bool io_is_open(const struct io_use *use)
{
	return uses_file->states[use - uses_file->uses] == USE_OPEN && use->slot == self_index &&
	       use->pid == known.pid;
}

static uint32_t *bucket_of(uint64_t device, uint64_t inode)
{
	if (buckets_life != io_life) {
		memset(buckets, 0, sizeof buckets);
		buckets_life = io_life;
	}
	return &buckets[(inode ^ inode >> 10 ^ device) % BUCKETS];
}

/* A use that was given back, else a new one; the first one is the rest. */
static struct io_use *claim_use(void)
{
	uint64_t free = uses_file->head.free, used;
	struct io_use *use;

	while ((uint32_t)free && (uint32_t)free < USES) {
		use = &uses_file->uses[(uint32_t)free];
		if (__atomic_compare_exchange_n(&uses_file->head.free, &free,
						((free >> 32) + 1) << 32 | use->next_free, true,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			goto claimed;
	}
	used = uses_file->head.used;
	do {
		if (used >= USES ||
		    !found_room(&uses_file->head.room, used, USES, uses_file->uses, sizeof *use))
			return NULL;
	} while (!__atomic_compare_exchange_n(&uses_file->head.used, &used, used + 1, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	use = &uses_file->uses[used];
claimed:
	memset((char *)use + sizeof use->lock, 0, sizeof *use - sizeof use->lock);
	use->slot = self_index;
	use->pid = known.pid;
	uses_file->states[use - uses_file->uses] = USE_BEGUN;
	return use;
}

/* As the kernel has it after /proc/self/fd: a path, or what the object is. */
static void name_use(struct io_use *use, int fd)
{
	char link[32] = "/proc/self/fd/", *end = link + strlen(link), digits[10];
	char *path = borrow(PATH_MAX);
	int n = 0;

	for (unsigned left = fd; n == 0 || left; left /= 10)
		digits[n++] = '0' + left % 10;
	while (n)
		*end++ = digits[--n];
	*end = 0;
	long length = path ? RAW(readlinkat, AT_FDCWD, link, path, PATH_MAX) : 0;
	if (length == -ENAMETOOLONG)
		length = stpcpy(path, "(its path is longer than 4095 bytes)") - path;
	if (length > 0) {
		size_t kept = (size_t)length < sizeof use->name ? (size_t)length : sizeof use->name;
		memcpy(use->name, path + length - kept, kept);
		use->name_bytes = length;
	}
	bring_back(path, PATH_MAX);
}

static uint64_t device_of(const struct statx *about)
{
	return (uint64_t)about->stx_dev_major << 20 | about->stx_dev_minor;
}

/* A mark of when it was made, where that is known. */
static uint32_t born_of(const struct statx *about)
{
	if (!(about->stx_mask & STATX_BTIME))
		return 0;
	return (uint32_t)(about->stx_btime.tv_sec * 1000000000ull + about->stx_btime.tv_nsec);
}

static bool is_of(const struct io_use *use, const struct statx *about)
{
	return use->inode == about->stx_ino && use->device == device_of(about) &&
	       use->born == born_of(about);
}

static struct io_use *begin_use(const struct statx *about, int fd)
{
	struct io_use *use = claim_use();

	if (!use)
		return NULL;
	use->device = device_of(about);
	use->inode = about->stx_ino;
	use->born = born_of(about);
	use->mode = about->stx_mode;
	use->rdev = (uint64_t)about->stx_rdev_major << 20 | about->stx_rdev_minor;
	use->links = about->stx_nlink;
	name_use(use, fd);
	return use;
}

void io_lost_name(const struct statx *about)
{
	struct uses_head *head = &uses_file->head;
	uint64_t number = __atomic_load_n(&head->unlinked, __ATOMIC_ACQUIRE);

	do {
		if (number - __atomic_load_n(&head->unlinked_read, __ATOMIC_ACQUIRE) >= UNLINKED) {
			__atomic_fetch_add(&head->unlinked_lost, 1, __ATOMIC_RELAXED);
			return;
		}
	} while (!__atomic_compare_exchange_n(&head->unlinked, &number, number + 1, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	struct io_unlinked *told = &uses_file->unlinked[number % UNLINKED];
	told->device = device_of(about);
	told->inode = about->stx_ino;
	told->born = born_of(about);
	__atomic_store_n(&told->complete, number + 1, __ATOMIC_RELEASE);
}

/* The use of the file behind a descriptor, one descriptor more for it. */
static struct io_use *take_use(int fd)
{
	struct statx about;
	struct io_use *use = NULL;

	if (RAW(statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &about))
		return NULL;
	if (!io_lock(&table_lock))
		return NULL;
	uint32_t *bucket = bucket_of(device_of(&about), about.stx_ino);
	for (uint64_t at = *bucket; at && at < USES && !use; at = uses_file->uses[at].next_in_bucket)
		if (is_of(&uses_file->uses[at], &about))
			use = &uses_file->uses[at];
	if (!use && (use = begin_use(&about, fd))) {
		use->next_in_bucket = *bucket;
		*bucket = use - uses_file->uses;
		uses_file->states[*bucket] = USE_OPEN;
	}
	if (use)
		use->descriptors++;
	io_unlock(&table_lock);
	return use;
}

/* One descriptor less; with the last one the process is done with the file. */
static void leave_use(struct io_use *use)
{
	if (!io_lock(&table_lock))
		return;
	if (io_is_open(use) && !--use->descriptors) {
		uint32_t index = use - uses_file->uses, *bucket = bucket_of(use->device, use->inode);
		if (*bucket == index) {
			*bucket = use->next_in_bucket;
		} else {
			uint64_t at = *bucket;
			while (at && at < USES && uses_file->uses[at].next_in_bucket != index)
				at = uses_file->uses[at].next_in_bucket;
			if (at && at < USES)
				uses_file->uses[at].next_in_bucket = use->next_in_bucket;
		}
		/* A thread that counts in it finishes first, unless it was killed, or interrupted by us. */
		bool locked = io_lock(&use->lock);
		uses_file->states[index] = USE_DONE;
		if (locked)
			io_unlock(&use->lock);
	}
	io_unlock(&table_lock);
}

static struct io_use *known_use(const struct descriptor *descriptor)
{
	struct io_use *use = __atomic_load_n(&descriptor->use, __ATOMIC_ACQUIRE);

	return LIKELY(use && descriptor->life == io_life) ? use : NULL;
}

static struct io_use *meet(struct descriptor *descriptor, int fd)
{
	struct io_use *use = known_use(descriptor);
	long flags;

	if (use)
		return use;
	use = take_use(fd);
	if (!use)
		return NULL;
	flags = RAW(fcntl, fd, F_GETFL);
	descriptor->flags = (flags < 0 ? 0 : flags & (O_APPEND | O_DIRECT)) | IO_SHARED;
	descriptor->position = -1;
	descriptor->twin = 0;
	descriptor->epoch = io_epoch;
	descriptor->life = io_life;
	__atomic_store_n(&descriptor->use, use, __ATOMIC_RELEASE);
	return use;
}

struct io_use *io_use_of(struct descriptor *descriptor, int fd)
{
	struct io_use *use = known_use(descriptor);

	if (LIKELY(use))
		return use;
	if (are_others() || !io_lock(&meeting_lock))
		return NULL;
	use = meet(descriptor, fd);
	io_unlock(&meeting_lock);
	return use;
}

static void forget(struct descriptor *descriptor, int fd)
{
	struct io_use *use;
	struct descriptor *twin;

	if (!known_use(descriptor))
		return;
	use = __atomic_exchange_n(&descriptor->use, NULL, __ATOMIC_ACQ_REL);
	if (!use)
		return;
	twin = descriptor->twin ? io_descriptor(descriptor->twin - 1, false) : NULL;
	/* The other one is alone now: its position is asked for once more. */
	if (twin && twin->use == use && twin->life == io_life && twin->twin == (uint32_t)fd + 1) {
		twin->twin = 0;
		twin->position = -1;
	}
	leave_use(use);
}

void io_opened(int fd, int flags, uint32_t call, uint64_t began)
{
	struct descriptor *descriptor;
	struct io_use *use;
	uint64_t ended = io_now();

	if (are_others())
		return;
	if (!began || began > ended)
		began = ended;
	if (fd < 0) {
		io_by_path(true, began);
		return;
	}
	descriptor = io_descriptor(fd, true);
	if (!descriptor)
		return;
	/* It was closed by somebody who did not say so. */
	forget(descriptor, fd);
	use = io_use_of(descriptor, fd);
	if (!use)
		return;
	descriptor->flags = flags & (O_APPEND | O_DIRECT);
	descriptor->position = flags & O_APPEND ? -1 : 0;
	if (!io_lock(&use->lock))
		return;
	use->numbers.opens++;
	use->numbers.truncates += !!(flags & O_TRUNC);
	use->numbers.metadata_ns += ended - began;
	if (!use->numbers.first_ns)
		use->numbers.first_ns = began;
	use->numbers.last_ns = ended;
	if (ended - began > use->slowest_time) {
		use->slowest_time = ended - began;
		use->slowest_call = call;
		use->slowest_at = ended;
	}
	io_unlock(&use->lock);
}

/* Before it is closed: then nothing is known of it any more. */
void io_closes(int fd)
{
	struct descriptor *descriptor = io_is_on ? io_descriptor(fd, false) : NULL;
	struct io_use *use = descriptor ? known_use(descriptor) : NULL;
	struct stat about;

	if (!use || are_others())
		return;
	if (use->descriptors == 1 && S_ISREG(use->mode) && !RAW(fstat, fd, &about))
		use->links = about.st_nlink;
	if (io_lock(&use->lock)) {
		use->numbers.closes++;
		use->numbers.last_ns = io_now();
		io_unlock(&use->lock);
	}
	forget(descriptor, fd);
}

/* Whether files have a name still is asked at the end, for nobody can say so later. */
void io_say_last(void)
{
	struct stat about;

	for (int fd = 0; io_is_on && fd < IO_FIRST; fd++) {
		struct io_use *use = io_is_known(fd) ? io_first[fd].use : NULL;
		if (use && S_ISREG(use->mode) && !RAW(fstat, fd, &about))
			use->links = about.st_nlink;
	}
}

void io_made(int fd)
{
	struct descriptor *descriptor = io_is_on ? io_descriptor(fd, false) : NULL;

	if (descriptor && !are_others())
		forget(descriptor, fd);
}

void io_closes_from(unsigned from, unsigned last)
{
	if (!io_is_on || are_others())
		return;
	if (last >= IO_DESCRIPTORS)
		last = IO_DESCRIPTORS - 1;
	for (unsigned fd = from; fd <= last; fd++) {
		struct descriptor *descriptor = io_descriptor(fd, false);
		if (!descriptor)
			break;
		forget(descriptor, fd);
	}
}

void io_copied(int fd, int copy)
{
	struct descriptor *one, *other;

	if (!io_is_on || fd == copy || are_others())
		return;
	one = io_descriptor(fd, false);
	other = io_descriptor(copy, true);
	if (other)
		forget(other, copy);
	if (!one || !other || !one->use || one->life != io_life)
		return;
	*other = (struct descriptor){ .position = one->position, .life = io_life, .epoch = one->epoch,
				      .flags = one->flags, .twin = fd + 1 };
	if (one->twin) {
		one->flags |= IO_MANY;
		other->flags |= IO_MANY;
	}
	one->twin = copy + 1;
	if (!io_lock(&table_lock))
		return;
	one->use->descriptors++;
	other->use = one->use;
	io_unlock(&table_lock);
}

void io_set_flags(int fd, int flags)
{
	struct descriptor *descriptor = io_is_on ? io_descriptor(fd, false) : NULL;

	if (!descriptor || !descriptor->use || descriptor->life != io_life)
		return;
	descriptor->flags &= ~(O_APPEND | O_DIRECT);
	descriptor->flags |= flags & (O_APPEND | O_DIRECT);
	if (flags & O_APPEND)
		descriptor->position = -1;
}
