/*
 * The shared file and this process's place in it.
 *
 * Reads WEIGH_PRELOAD ("FILE:SLOT.GENERATION"). Does nothing where it is missing or the file is not of
 * this build.
 *
 * A slot is a process's as long as that lives: it, and nobody else, writes there as it likes. Whoever
 * knows of another's may come too late: his process has ended, weigh has given the slot back, and it is
 * somebody else's, of the next generation. So he changes a number only if it is still what only that
 * process's can be.
 */
#include "shim.h"
#include "io.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* What glibc's loader reads of each library, in one call (elf/dl-load.c, struct filebuf). */
enum { LOADER_READS = 832 };

/* The whole file is mapped where that is at most one of so many parts of the address space that
   the program may have. */
enum { LIMIT_PARTS = 8 };

/* The smallest pages there are. */
enum { PAGE = 4096 };

static size_t page_size;

/* The C library's static part asks for it; nobody unloads this library. */
__attribute__((visibility("hidden"))) void *__dso_handle;

static struct slot nowhere;
struct head *shared_head;
struct slot *self = &nowhere;
/* Where this process's own slot was mapped at its start, and which one it is. */
static struct slot *own_slot;
static uint32_t own_index = SLOTS;
/* Of which generation it is said to be, by an environment that may be older. */
static uint32_t own_generation;
static struct shared *_Atomic all_mapped;
struct known known;

/*
 * In a PID namespace of its own a process still has the PID that everybody knows in /proc, unless
 * that is the namespace's own, too: then it gets a number instead, and weigh finds out who it is.
 */
uint32_t outer_pid(void)
{
	char text[16];
	long length = RAW(readlinkat, AT_FDCWD, "/proc/self", text, sizeof text);
	uint32_t told = 0, local = RAW(getpid);
	struct stat about;

	for (long i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		told = told * 10 + (text[i] - '0');
	if (local == 1 || (told && told != local))
		known.is_nested = true;
	if (LIKELY(!known.is_nested))
		return local;
	if (told && !RAW(newfstatat, AT_FDCWD, "/proc/self", &about, AT_SYMLINK_NOFOLLOW) &&
	    about.st_dev == shared_head->proc_device)
		return told;
	if (RAW(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &about, 0))
		about.st_ino = 0;
	return HIDDEN | about.st_ino % HIDDEN_NAMESPACES * HIDDEN_PIDS | local;
}

/*
 * Most programs do nothing but run and end: they have no need of more than two pages of the file.
 * Where the address space is limited the program is to have it: whoever it makes is counted as
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

uint64_t own_space(void)
{
	return (shared_head ? page_size : 0) + (own_slot ? page_size : 0) +
	       (all_mapped ? sizeof(struct shared) : 0) IO(+ io_space());
}

uint32_t index_of(const struct slot *slot)
{
	return slot == own_slot ? own_index : (uint32_t)(slot - all_mapped->slots);
}

static void begin_life(void)
{
	uint32_t alive = ++shared_head->alive, peak = shared_head->alive_peak;

	while (alive > peak && !atomic_compare_exchange_weak(&shared_head->alive_peak, &peak, alive))
		;
}

void end_life(void)
{
	shared_head->alive--;
}

/* What stands in the list of PIDs. */
static uint64_t listed(uint32_t generation, uint32_t pid)
{
	return (uint64_t)generation << 32 | pid;
}

void set_pid(struct slot *slot, uint32_t pid)
{
	uint64_t life = slot->life;

	while (!atomic_compare_exchange_weak(&slot->life, &life,
					     life_of(generation_of(life), pid, state_of(life))))
		;
	if (known.is_nested)
		flag(slot, FLAG_NESTED);
	/* Who is alone has been entered by whoever made it. */
	if (all_mapped)
		all_mapped->pids[index_of(slot)] = listed(generation_of(life), pid);
}

void set_state(struct slot *slot, uint32_t state)
{
	uint64_t life = slot->life;

	while (!atomic_compare_exchange_weak(&slot->life, &life,
					     life_of(generation_of(life), pid_of(life), state)))
		;
	/* One thread has said the last, and another one executes a program. */
	if (state_of(life) == STATE_ENDED)
		begin_life();
}

/*
 * There is a process for the slot that was set aside. Who makes it and it itself say so, in any order,
 * and each may be killed, or held up, before any of these lines: the one who comes first is the one who
 * counts it.
 */
static void enter(struct slot *slot, uint32_t generation, uint32_t pid, uint32_t state)
{
	uint64_t untold = UNTOLD | generation, nobody = listed(generation, 0);
	uint64_t life = life_of(generation, 0, STATE_SPAWNING);

	/* Not before the process is there: an older one may have had its PID. */
	atomic_compare_exchange_strong(&slot->started_ns, &untold, now_ns());
	if (atomic_compare_exchange_strong(&slot->life, &life, life_of(generation, pid, state)))
		begin_life();
	else if (generation_of(life) == generation)
		pid = pid_of(life);
	else
		return;
	if (all_mapped)
		atomic_compare_exchange_strong(&all_mapped->pids[index_of(slot)], &nobody,
					       listed(generation, pid));
}

/* The same of a slot that the process itself has claimed. */
static void begin_in(struct slot *slot, uint32_t pid)
{
	set_pid(slot, pid);
	set_state(slot, STATE_RUNNING);
	begin_life();
}

/* It is nobody's, and becomes the next process's. */
static struct slot *made_ready(struct shared *all, uint32_t index, uint32_t state)
{
	struct slot *slot = &all->slots[index];
	uint32_t generation = generation_of(slot->life);

	slot->next_free = 0;
	slot->started_ns = slot->ended_ns = slot->wait_status = UNTOLD | generation;
	all->pids[index] = listed(generation, 0);
	slot->life = life_of(generation, 0, state);
	return slot;
}

/* Takes a slot out of the list of free ones, else a new one; none if all are taken. */
struct slot *claim(uint32_t state)
{
	struct shared *all = whole();
	uint64_t free = shared_head->free;

	if (!all) {
		shared_head->refused = 1;
		return NULL;
	}
	while ((uint32_t)free) {
		struct slot *slot = &all->slots[(uint32_t)free - 1];
		uint64_t next = ((free >> 32) + 1) << 32 | slot->next_free;

		if (atomic_compare_exchange_weak(&shared_head->free, &free, next))
			return made_ready(all, slot - all->slots, state);
	}
	uint32_t used = shared_head->used;
	while (used < SLOTS && !atomic_compare_exchange_weak(&shared_head->used, &used, used + 1))
		;
	if (used >= SLOTS) {
		shared_head->refused = 1;
		return NULL;
	}
	return made_ready(all, used, state);
}

/* Only for one that nobody has heard of yet. */
void give_back(struct slot *slot)
{
	uint64_t free = shared_head->free, mine;
	uint32_t generation = (generation_of(slot->life) + 1) & ((1u << GENERATION_BITS) - 1);

	memset((void *)slot, 0, sizeof *slot);
	slot->life = life_of(generation, 0, 0);
	do {
		slot->next_free = (uint32_t)free;
		mine = ((free >> 32) + 1) << 32 | (index_of(slot) + 1);
	} while (!atomic_compare_exchange_weak(&shared_head->free, &free, mine));
}

struct slot *slot_of(uint32_t pid, uint64_t *life)
{
	struct shared *all = whole();
	uint32_t used = shared_head->used;

	if (!all)
		return NULL;
	const uint64_t *pids = (const uint64_t *)all->pids;
	for (uint32_t i = 0; i < used; i++) {
		if (LIKELY((uint32_t)pids[i] != pid))
			continue;
		*life = all->slots[i].life;
		if (pid_of(*life) == pid && state_of(*life) < STATE_ENDED)
			return &all->slots[i];
	}
	return NULL;
}

/* Fills what a child has of the process that knows itself by `known`. */
void inherit(struct slot *slot, uint32_t parent_pid)
{
	if (known.is_nested)
		flag(slot, FLAG_NESTED);
	slot->parent_pid = parent_pid;
	slot->uid = RAW(getuid);
	memcpy(slot->name, known.name, sizeof slot->name);
	memcpy(slot->command, known.command, sizeof slot->command);
	slot->command_bytes = known.command_bytes;
}

/* The child that this thread is just making. */
static __thread struct expected *expected;

/*
 * Past a limit on processes, whoever wants to make one more waits until weigh has noticed, which is
 * about to end the job. Nobody waits for ever: weigh may be gone.
 */
static void wait_for_room(void)
{
	struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	uint32_t most;

	for (int i = 0; i < 400; i++) {
		most = shared_head->most;
		if (LIKELY(most == 0) || shared_head->alive <= most)
			return;
		RAW(nanosleep, &pause, NULL);
	}
}

/* A child by vfork has its parent's memory. */
static uint32_t pid_of_caller(void)
{
	return (uint32_t)RAW(getpid) == known.local_pid ? known.pid : outer_pid();
}

struct slot *expect_child(struct expected *child)
{
	if (known.pid)
		wait_for_room();
	IO(io_epoch++;)
	struct slot *slot = known.pid ? claim(STATE_SPAWNING) : NULL;

	if (slot)
		inherit(slot, pid_of_caller());
	*child = (struct expected){
		.slot = slot,
		.generation = slot ? generation_of(slot->life) : 0,
		.is_refused = known.pid && !slot,
		.outer = expected,
	};
	expected = child;
	return slot;
}

void child_made(struct expected *child, long pid, uint32_t state)
{
	expected = child->outer;
	if (child->is_refused && pid > 0)
		shared_head->overflow++;
	if (!child->slot)
		return;
	if (pid < 0)
		give_back(child->slot);
	else if (known.pid == known.local_pid)
		/* In a PID namespace of its own only the child itself knows. */
		enter(child->slot, child->generation, pid, state);
}

/* The caller is a new process with a memory of its own. */
void become_child(void)
{
	struct slot *slot = expected ? expected->slot : NULL;
	uint32_t generation = expected ? expected->generation : 0, parent = known.pid;

	/* What else its parent is just making are not its own children. */
	for (struct expected *child = expected; child; child = child->outer) {
		child->slot = NULL;
		child->is_refused = false;
	}
	expected = NULL;
	known.local_pid = RAW(getpid);
	known.pid = outer_pid();
	if (slot) {
		enter(slot, generation, known.pid, STATE_RUNNING);
		/* Who made it may know it better. */
		known.pid = pid_of(slot->life);
		slot->local_pid = known.local_pid;
		if (known.is_nested)
			flag(slot, FLAG_NESTED);
	} else if ((slot = claim(STATE_CLAIMED))) {
		inherit(slot, parent);
		enter_child(slot);
	}
	self = slot ? slot : &nowhere;
	IO(io_become_child();)
}

void enter_child(struct slot *slot)
{
	slot->started_ns = now_ns();
	slot->local_pid = RAW(getpid);
	begin_in(slot, outer_pid());
}

static struct slot *slot_of_caller(bool just_made)
{
	if (!known.pid)
		return NULL;
	uint32_t local = RAW(getpid);
	if (known.local_pid == local)
		return self == &nowhere ? NULL : self;
	uint32_t pid = outer_pid();
	uint64_t life;
	struct slot *slot = slot_of(pid, &life);
	if (slot || !(slot = claim(STATE_CLAIMED)))
		return slot;
	inherit(slot, known.pid);
	slot->started_ns = just_made ? now_ns() : started_by_kernel_ns(slot);
	slot->local_pid = local;
	begin_in(slot, pid);
	return slot;
}

struct slot *mine(void)
{
	return slot_of_caller(false);
}

/* Who was made to execute a program does so at once: no need to ask the kernel when it began. */
struct slot *mine_at_exec(void)
{
	return slot_of_caller(true);
}

static void after_fork_in_child(void)
{
	if (known.pid)
		become_child();
}

/* Registered first, hence called last: after the program's own handlers and destructors. */
static void at_exit(int status, void *unused)
{
	(void)unused;
	struct slot *slot = mine();
	if (slot)
		say_last(slot, (status & 0xff) << 8);
}

static void copy_arguments(struct slot *slot, int argc, char **argv)
{
	size_t used = 0;

	for (int i = 0; i < argc && argv[i]; i++) {
		size_t length = strlen(argv[i]) + 1;

		if (length > sizeof slot->command - used) {
			length = sizeof slot->command - used;
			if (!length)
				break;
		}
		memcpy(slot->command + used, argv[i], length);
		used += length;
	}
	slot->command_bytes = used;
}

static void copy_name(struct slot *slot)
{
	memset(slot->name, 0, sizeof slot->name);
	RAW(prctl, 16 /* PR_GET_NAME */, slot->name);
}

/*
 * Whether the slot is still that which the environment means: this may come from a process that the
 * library was not in, which had it from another one, and that one may be no more.
 */
static bool is_meant(const struct slot *slot)
{
	return slot && generation_of(slot->life) == own_generation;
}

/*
 * The slot that whoever executed this program has set aside for it; not that of a program in between in
 * which the library was not, and which is just being made.
 */
static struct slot *adopt(struct slot *slot, uint32_t pid)
{
	if (!is_meant(slot))
		return NULL;
	if (state_of(slot->life) == STATE_SPAWNING &&
	    (known.is_nested || (uint32_t)RAW(getppid) == slot->parent_pid))
		enter(slot, own_generation, pid, STATE_RUNNING);
	uint64_t life = slot->life;
	if (generation_of(life) != own_generation || pid_of(life) != pid ||
	    (state_of(life) != STATE_EXECED && state_of(life) != STATE_RUNNING))
		return NULL;
	set_state(slot, STATE_RUNNING);
	return slot;
}

/* Who has executed the program may have left in the slot what /proc would tell. */
static uint32_t known_pid(const struct slot *slot, uint32_t local)
{
	uint64_t life = is_meant(slot) ? slot->life : 0;

	if (state_of(life) == STATE_EXECED && slot->local_pid == local && pid_of(life))
		return pid_of(life);
	return outer_pid();
}

static void *map_page(int fd, off_t at)
{
	long page = RAW(mmap, NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);

	return page < 0 && page > -4096 ? NULL : (void *)page;
}

/* Maps the head of the file, and the page that holds the slot of this number. */
static bool map_file(const char *path, uint32_t index, uint32_t generation)
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
	if (head && head->magic == MAGIC && index < SLOTS) {
		off_t at = offsetof(struct shared, slots) + index * sizeof(struct slot);
		char *page = map_page(fd, at & -page_size);
		if (page) {
			own_slot = (struct slot *)(page + (at & (page_size - 1)));
			own_index = index;
			own_generation = generation;
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

static void __attribute__((constructor)) begin(int argc, char **argv)
{
	int before = errno;
	const char *given = getenv("WEIGH_PRELOAD");
	const char *colon = given ? strrchr(given, ':') : NULL;
	char path[256], *end;

	if (!colon || (size_t)(colon - given) >= sizeof path)
		goto out;
	IO(io_tell_mark();)
	memcpy(path, given, colon - given);
	path[colon - given] = 0;
	uint32_t index = strtoul(colon + 1, &end, 10);
	if (!map_file(path, index, *end ? strtoul(end + 1, NULL, 10) : 0))
		goto out;
	/* Who comes out of a program in which the library was not may come from anywhere. */
	known.is_nested = !is_meant(own_slot) || own_slot->flags & FLAG_NESTED;
	uint32_t local = RAW(getpid), pid = known_pid(own_slot, local);
	struct slot *slot = adopt(own_slot, pid);
	if (!slot) {
		uint64_t life;
		slot = slot_of(pid, &life);
		if (slot)
			set_state(slot, STATE_RUNNING);
	}
	if (!slot) {
		slot = claim(STATE_CLAIMED);
		if (!slot)
			goto out;
		slot->parent_pid = RAW(getppid);
		slot->started_ns = started_by_kernel_ns(slot);
		begin_in(slot, pid);
	}
	slot->uid = RAW(getuid);
	slot->local_pid = local;
	__atomic_fetch_and((uint32_t *)&slot->flags, ~FLAG_EXECED, __ATOMIC_RELAXED);
	/* The loader has read this library's head, for which the kernel charges the process. */
	slot->own_bytes += LOADER_READS;
	slot->own_calls++;
	copy_arguments(slot, argc, argv);
	copy_name(slot);
	/* And what was read before there was a slot. */
	slot->own_bytes += nowhere.own_bytes;
	slot->own_calls += nowhere.own_calls;
	set_pid(slot, pid);
	self = slot;
	known.pid = pid;
	known.local_pid = slot->local_pid;
	memcpy(known.name, slot->name, sizeof known.name);
	memcpy(known.command, slot->command, sizeof known.command);
	known.command_bytes = slot->command_bytes;
	IO(io_begin(path);)
	pthread_atfork(NULL, NULL, after_fork_in_child);
	on_exit(at_exit, NULL);
out:
	errno = before;
}
