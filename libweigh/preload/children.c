/*
 * Processes that come of this one: a slot for each before it is there, and what its maker and it itself say of it.
 *
 * Reads who calls; refuses a slot where all are taken, which is counted.
 */
#include "shim.h"
#include "io.h"

#include <sys/stat.h>

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
 * Past a limit on processes, a process that wants to make one more waits until weigh has noticed, which is
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

bool is_guest(void)
{
	return (uint32_t)RAW(getpid) != known.local_pid;
}

static uint32_t pid_of_caller(void)
{
	return is_guest() ? outer_pid() : known.pid;
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
	bool is_nested = known.pid != known.local_pid;

	expected = child->outer;
	if (is_nested && pid > 0 && state == STATE_RUNNING)
		shared_head->nested_made++;
	if (child->is_refused && pid > 0)
		shared_head->overflow++;
	if (!child->slot)
		return;
	if (pid < 0)
		give_back(child->slot);
	else if (!is_nested)
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
	if (known.pid != known.local_pid)
		shared_head->nested_begun++;
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

/* Whether it has its parent's memory still, of whom the library knows. */
static bool shares_memory(uint32_t local)
{
	return !RAW(kcmp, local, known.local_pid, 1 /* KCMP_VM */, 0, 0);
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
	if (!just_made && shares_memory(local))
		flag(slot, FLAG_GUEST);
	begin_in(slot, pid);
	return slot;
}

struct slot *mine(void)
{
	return slot_of_caller(false);
}

/* A child that was made to execute a program does so at once: no need to ask the kernel when it began. */
struct slot *mine_at_exec(void)
{
	return slot_of_caller(true);
}
