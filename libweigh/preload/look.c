/*
 * What a process can say of itself: memory, CPU time, faults, I/O as the kernel counts them.
 *
 * Reads /proc with system calls of its own, and notes how much it read: the kernel counts that as
 * the process's. What cannot be read is not marked as known.
 */
#include "shim.h"
#include "io.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { CHUNK = 1024, KEPT = 64 };

long charged_read(int fd, char *at, size_t room, struct slot *slot)
{
	long got = RAW(read, fd, at, room);

	slot->own_calls++;
	if (got > 0)
		slot->own_bytes += got;
	return got;
}

bool number_behind(const char *text, const char *label, uint64_t *value)
{
	const char *found = strstr(text, label);

	if (!found)
		return false;
	found += strlen(label);
	while (*found == ' ' || *found == '\t')
		found++;
	uint64_t number = 0;
	const char *digit = found;
	for (; *digit >= '0' && *digit <= '9'; digit++)
		number = number * 10 + (*digit - '0');
	/* Without what follows, the number may have been cut. */
	if (digit == found || !*digit)
		return false;
	*value = number;
	return true;
}

static void raise_to(_Atomic uint64_t *peak, uint64_t value)
{
	if (value > *peak)
		*peak = value;
}

/* As the first line of the status has it: a newline and a backslash are escaped there. */
static void take_name(struct slot *slot, const char *line)
{
	char name[sizeof slot->name] = "";
	size_t length = 0;

	if (strncmp(line, "Name:\t", 6))
		return;
	for (line += 6; *line && *line != '\n' && length < sizeof name - 1; line++) {
		if (*line == '\\')
			line++;
		name[length++] = *line == 'n' && line[-1] == '\\' ? '\n' : *line;
	}
	memcpy(slot->name, name, sizeof name);
}

/* Where the name is that of the process, it is taken, too. */
static bool look_at_status(const char *path, bool is_of_process, struct slot *slot)
{
	char text[KEPT + CHUNK + 1];
	size_t kept = 0;
	uint64_t resident, size, swap;
	bool done = false;
	int fd = raw_open(path, O_RDONLY);

	while (fd >= 0 && !done) {
		long got = charged_read(fd, text + kept, CHUNK, slot);
		if (got <= 0)
			break;
		text[kept + got] = 0;
		if (!kept && is_of_process)
			take_name(slot, text);
		if (number_behind(text, "\nVmPeak:", &size)) {
			slot->own_virtual_peak = size * 1024 - own_space();
			raise_to(&slot->virtual_peak, slot->own_virtual_peak);
		}
		if (number_behind(text, "\nVmHWM:", &resident)) {
			slot->own_rss_peak = resident * 1024;
			raise_to(&slot->rss_peak, resident * 1024);
		}
		if ((done = number_behind(text, "\nVmSwap:", &swap)))
			raise_to(&slot->swap_peak, swap * 1024);
		size_t held = kept + got;
		kept = held < KEPT ? held : KEPT;
		memmove(text, text + held - kept, kept);
	}
	if (fd >= 0)
		RAW(close, fd);
	return done;
}

/* A first thread that has ended has no memory any more, where others still run. */
bool look_at_memory(struct slot *slot)
{
	return look_at_status("/proc/self/status", true, slot) ||
	       look_at_status("/proc/thread-self/status", false, slot);
}

/* A clock tick is 10 ms on every machine this is for. */
uint64_t started_by_kernel_ns(struct slot *slot)
{
	char text[CHUNK + 1];
	int fd = raw_open("/proc/thread-self/stat", O_RDONLY);
	long got = fd < 0 ? 0 : charged_read(fd, text, CHUNK, slot);

	if (fd >= 0)
		RAW(close, fd);
	text[got > 0 ? got : 0] = 0;
	const char *field = strrchr(text, ')');
	/* Behind the name comes field 3; the start is field 22. */
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	uint64_t ticks = 0;
	for (const char *digit = field ? field + 1 : ""; *digit >= '0' && *digit <= '9'; digit++)
		ticks = ticks * 10 + (*digit - '0');
	return ticks ? common_ns(ticks * 10000000ull) : now_ns();
}

static const struct {
	const char *label;
	enum counter counter;
} IO[] = {
	{ "\nrchar:", COUNTER_READ_CHARS },
	{ "\nwchar:", COUNTER_WRITE_CHARS },
	{ "\nsyscr:", COUNTER_READ_CALLS },
	{ "\nsyscw:", COUNTER_WRITE_CALLS },
	{ "\nread_bytes:", COUNTER_STORAGE_READ },
	{ "\nwrite_bytes:", COUNTER_STORAGE_WRITTEN },
	{ "\ncancelled_write_bytes:", COUNTER_STORAGE_CANCELLED },
};

/* Whether the kernel has added any child's counts to those of this process. */
static bool has_waited_for_any(void)
{
	struct rusage children;

	return RAW(getrusage, RUSAGE_CHILDREN, &children) || children.ru_maxrss ||
	       children.ru_minflt;
}

/*
 * What the kernel keeps for the process. Where it has waited for children theirs is in it: then of
 * the one thread there is, its own, unless there are or were others.
 */
static void look_at_io(struct slot *slot)
{
	char text[CHUNK + 2] = "\n";
	bool children = has_waited_for_any();
	bool together = children && slot->flags & FLAG_THREADS;
	uint64_t own_bytes = slot->own_bytes, own_calls = slot->own_calls;
	int fd = raw_open(children && !together ? "/proc/thread-self/io" : "/proc/self/io", O_RDONLY);

	if (fd < 0)
		return;
	long got = charged_read(fd, text + 1, CHUNK, slot);
	RAW(close, fd);
	text[1 + (got > 0 ? got : 0)] = 0;
	uint64_t values[sizeof IO / sizeof *IO];
	for (size_t i = 0; i < sizeof IO / sizeof *IO; i++)
		if (!number_behind(text, IO[i].label, &values[i]))
			return;
	for (size_t i = 0; i < sizeof IO / sizeof *IO; i++)
		slot->counters[IO[i].counter] = values[i];
	/* What the library itself has read is not the program's. */
	slot->counters[COUNTER_READ_CHARS] -= own_bytes < values[0] ? own_bytes : values[0];
	slot->counters[COUNTER_READ_CALLS] -= own_calls < values[2] ? own_calls : values[2];
	flag(slot, FLAG_IO | (together ? FLAG_IO_OF_CHILDREN : 0));
}

static uint64_t nanoseconds(struct timeval t)
{
	return t.tv_sec * 1000000000ull + t.tv_usec * 1000ull;
}

static void look_at_usage(struct slot *slot)
{
	struct rusage usage;
	struct timespec cpu;

	if (RAW(getrusage, RUSAGE_SELF, &usage) || RAW(clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &cpu))
		return;
	slot->counters[COUNTER_RUNTIME] = cpu.tv_sec * 1000000000ull + cpu.tv_nsec;
	slot->counters[COUNTER_USER_TICKS] = nanoseconds(usage.ru_utime);
	slot->counters[COUNTER_SYSTEM_TICKS] = nanoseconds(usage.ru_stime);
	slot->counters[COUNTER_MINOR_FAULTS] = usage.ru_minflt;
	slot->counters[COUNTER_MAJOR_FAULTS] = usage.ru_majflt;
	slot->counters[COUNTER_VOLUNTARY_SWITCHES] = usage.ru_nvcsw;
	slot->counters[COUNTER_INVOLUNTARY_SWITCHES] = usage.ru_nivcsw;
	/* Without /proc; it counts from before the last exec on. */
	if (!slot->virtual_peak)
		raise_to(&slot->rss_peak, usage.ru_maxrss * 1024ull);
	flag(slot, FLAG_USAGE);
}

/* The kernel's own structure: it does not depend on the C library's idea of a signal set. */
static bool ignores_children(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} action;

	if (RAW(rt_sigaction, SIGCHLD, 0, &action, 8))
		return false;
	return action.handler == (void *)SIG_IGN || action.flags & SA_NOCLDWAIT;
}

/* What is known so far, if nothing more comes; looks at /proc know better. */
void look_in_between(struct slot *slot)
{
	uint32_t before = slot->flags;

	look_at_memory(slot);
	look_at_usage(slot);
	look_at_io(slot);
	slot->flags = before;
}

void say_last(struct slot *slot, uint32_t wait_status)
{
	uint64_t life = slot->life;

	if (state_of(life) != STATE_RUNNING)
		return;
	IO(if (slot == self) io_say_last();)
	if (!look_at_memory(slot))
		flag(slot, FLAG_NO_MEMORY);
	look_at_usage(slot);
	look_at_io(slot);
	if (ignores_children())
		flag(slot, FLAG_IGNORES_CHILDREN);
	slot->wait_status = status_of(generation_of(life), wait_status);
	slot->ended_ns = now_ns();
	if (atomic_compare_exchange_strong(
		    &slot->life, &life,
		    life_of(generation_of(life), pid_of(life), STATE_ENDED)))
		end_life();
}
