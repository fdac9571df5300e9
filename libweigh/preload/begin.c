/*
 * A program begins, with the slot that was set aside for it or one of its own, and ends.
 *
 * Reads WEIGH_PRELOAD ("FILE:SLOT.GENERATION"). Does nothing where it is missing or the file is not of
 * this build.
 */
#include "shim.h"
#include "io.h"

#include <pthread.h>
#include <stdlib.h>

/* What glibc's loader reads of each library, in one call (elf/dl-load.c, struct filebuf). */
enum { LOADER_READS = 832 };

/* The C library's static part asks for it; nobody unloads this library. */
__attribute__((visibility("hidden"))) void *__dso_handle;

/* Of which generation this process's slot is said to be, by an environment that may be older. */
static uint32_t own_generation;

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
 * The slot that the executor of this program has set aside for it; not that of a program in between in
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

/* The executor of the program may have left in the slot what /proc would tell. */
static uint32_t known_pid(const struct slot *slot, uint32_t local)
{
	uint64_t life = is_meant(slot) ? slot->life : 0;

	if (state_of(life) == STATE_EXECED && slot->local_pid == local && pid_of(life))
		return pid_of(life);
	return outer_pid();
}

static void __attribute__((constructor)) begin(int argc, char **argv)
{
	int before = errno;
	const char *given = getenv("WEIGH_PRELOAD");
	const char *colon = given ? strrchr(given, ':') : NULL;
	char path[256], *end;

	if (!colon || (size_t)(colon - given) >= sizeof path)
		goto out;
	memcpy(path, given, colon - given);
	path[colon - given] = 0;
	uint32_t index = strtoul(colon + 1, &end, 10);
	own_generation = *end ? strtoul(end + 1, NULL, 10) : 0;
	if (!map_file(path, index))
		goto out;
	/* A program executed by one that the library was not in may come from anywhere. */
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
	__atomic_fetch_and((uint32_t *)&slot->flags, ~(FLAG_EXECED | FLAG_GUEST),
			   __ATOMIC_RELAXED);
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
