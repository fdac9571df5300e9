/* grow step STEP STEP_US MAX
 * grow once BYTES
 * grow children N STEP STEP_US MAX
 * grow trap-term STEP STEP_US MAX
 * grow copies N BYTES
 *
 * For limits. step: takes STEP bytes more of private memory every STEP_US us, touching each page
 * once, until it holds MAX, and then waits to be ended, 10 s, on a machine that is WEIGH_TEST_SCALE times slower so many
 * times longer. once: BYTES by one memset, and waits.
 * children: N children that do as step, MAX each, begun together. copies: N children that inherit
 * BYTES and, after a fifth of a second, make copies of them by writing, which changes nobody's
 * resident size; they wait then. trap-term: as step, with SIGTERM
 * ignored. Ends with status 3 if nobody has ended it.
 *
 * If the environment variable GROW_PROGRESS names a file, it holds one unsigned 64-bit number
 * (native byte order) for each process that grows: the bytes it has touched, written after each
 * step (once: before and after), through a shared mapping, so that it survives SIGKILL.
 *
 * Truth: none; the one that ends it has to know. */
#include "common.h"

#include <signal.h>

enum { PATIENCE_US = 10000000, MAX_CHILDREN = 64 };

static void wait_to_be_ended(void)
{
	const char *scale = getenv("WEIGH_TEST_SCALE");
	sleep_us(PATIENCE_US * (scale ? number(scale, "WEIGH_TEST_SCALE") : 1));
}

static volatile uint64_t *progress;

static void open_progress(uint64_t processes)
{
	const char *path = getenv("GROW_PROGRESS");
	if (processes > MAX_CHILDREN)
		die("at most %d children", MAX_CHILDREN);
	if (!path)
		return;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, processes * sizeof *progress))
		die("%s", path);
	progress = mmap(NULL, processes * sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (progress == MAP_FAILED)
		die("%s", path);
	close(fd);
}

static void report(uint64_t who, uint64_t bytes)
{
	if (progress)
		progress[who] = bytes;
}

static void step_by_step(uint64_t who, uint64_t step, uint64_t step_us, uint64_t max)
{
	char *memory = map_pages(max, MAP_PRIVATE);
	uint64_t next = clock_ns(CLOCK_MONOTONIC);
	for (uint64_t held = 0; held < max;) {
		uint64_t part = max - held < step ? max - held : step;
		touch_pages(memory + held, part);
		held += part;
		report(who, held);
		next += step_us * 1000;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now < next)
			sleep_us((next - now) / 1000);
	}
	wait_to_be_ended();
}

static void at_once(uint64_t bytes)
{
	char *memory = map_pages(bytes, MAP_PRIVATE);
	report(0, 0);
	memset(memory, 1, bytes);
	report(0, bytes);
	wait_to_be_ended();
}

static void copies(uint64_t n, uint64_t bytes)
{
	char *memory = map_pages(bytes, MAP_PRIVATE);
	touch_pages(memory, bytes);
	for (uint64_t i = 0; i < n; i++) {
		pid_t child = fork();
		if (child < 0)
			die("fork");
		if (child == 0) {
			sleep_us(200000);
			touch_pages(memory, bytes);
			report(i, bytes);
			wait_to_be_ended();
			_exit(3);
		}
	}
	for (uint64_t i = 0; i < n; i++)
		wait(NULL);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	if (!strcmp(how, "once") && argc == 3) {
		open_progress(1);
		at_once(number(argv[2], "BYTES"));
	} else if ((!strcmp(how, "step") || !strcmp(how, "trap-term")) && argc == 5) {
		if (!strcmp(how, "trap-term"))
			signal(SIGTERM, SIG_IGN);
		open_progress(1);
		step_by_step(0, number(argv[2], "STEP"), number(argv[3], "STEP_US"), number(argv[4], "MAX"));
	} else if (!strcmp(how, "children") && argc == 6) {
		uint64_t n = number(argv[2], "N");
		int begin[2];
		open_progress(n);
		if (pipe(begin))
			die("pipe");
		for (uint64_t i = 0; i < n; i++) {
			pid_t child = fork();
			if (child < 0)
				die("fork");
			if (child == 0) {
				char nothing;
				close(begin[1]);
				if (read(begin[0], &nothing, 1))
					die("read");
				step_by_step(i, number(argv[3], "STEP"), number(argv[4], "STEP_US"), number(argv[5], "MAX"));
				_exit(3);
			}
		}
		close(begin[1]);
		for (uint64_t i = 0; i < n; i++)
			wait(NULL);
	} else if (!strcmp(how, "copies") && argc == 4) {
		uint64_t n = number(argv[2], "N");
		open_progress(n);
		copies(n, number(argv[3], "BYTES"));
	} else {
		die("usage: grow step|trap-term STEP STEP_US MAX, grow once BYTES, grow copies N BYTES, or grow children N STEP STEP_US MAX");
	}
	return 3;
}
