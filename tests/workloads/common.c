/* See common.h. */
#include "common.h"

#include <linux/futex.h>
#include <stdarg.h>

static char truth_buffer[16384];
static size_t truth_used;

void die(const char *format, ...)
{
	int error = errno;
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (error)
		dprintf(STDERR_FILENO, "%s: %s: %s\n", program_invocation_short_name, text, strerror(error));
	else
		dprintf(STDERR_FILENO, "%s: %s\n", program_invocation_short_name, text);
	_exit(2);
}

uint64_t number(const char *text, const char *what)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-')
		die("%s must be a plain number, not '%s'", what, text);
	return value;
}

void truth_text(const char *key, const char *value)
{
	int length = snprintf(truth_buffer + truth_used, sizeof truth_buffer - truth_used, "%s=%s\n", key, value);
	if (length < 0 || (size_t)length >= sizeof truth_buffer - truth_used)
		die("the truth is too long");
	truth_used += length;
}

void truth(const char *key, uint64_t value)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
	truth_text(key, digits);
}

size_t truth_length(void)
{
	return truth_used;
}

bool truth_opens_a_file(void)
{
	return getenv("TRUTH_FILE") != NULL;
}

void truth_tell(void)
{
	int fd = STDERR_FILENO;
	if (truth_opens_a_file()) {
		fd = open(getenv("TRUTH_FILE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (fd < 0)
			die("%s", getenv("TRUTH_FILE"));
	}
	ssize_t written = write(fd, truth_buffer, truth_used);
	if (written != (ssize_t)truth_used)
		die("telling the truth");
	if (fd != STDERR_FILENO)
		close(fd);
	truth_used = 0;
}

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + page_size() - 1) / page_size() * page_size();
}

char *map_pages(uint64_t bytes, int sharing)
{
	uint64_t inside = whole_pages(bytes);
	char *guard = mmap(NULL, inside + 2 * page_size(), PROT_NONE, sharing | MAP_ANONYMOUS, -1, 0);
	if (guard == MAP_FAILED)
		die("mapping %llu bytes", (unsigned long long)bytes);
	char *start = guard + page_size();
	if (inside && mprotect(start, inside, PROT_READ | PROT_WRITE))
		die("mprotect");
	return start;
}

void unmap_pages(char *start, uint64_t bytes)
{
	if (munmap(start - page_size(), whole_pages(bytes) + 2 * page_size()))
		die("munmap");
}

void touch_pages(char *start, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += page_size())
		*(volatile char *)(start + at) = 1;
}

uint64_t read_pages(const char *start, uint64_t bytes)
{
	uint64_t sum = 0;
	for (uint64_t at = 0; at < bytes; at += page_size())
		sum += *(const volatile char *)(start + at);
	return sum;
}

uint64_t mapped_bytes(const char *line)
{
	static const char path[] = "/proc/self/smaps_rollup";
	char text[4096];
	size_t used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s", path);
	for (;;) {
		ssize_t n = read(fd, text + used, sizeof text - 1 - used);
		if (n < 0)
			die("%s", path);
		if (n == 0)
			break;
		used += n;
	}
	close(fd);
	text[used] = 0;
	char *found = strstr(text, line);
	if (!found)
		die("%s has no line %s", path, line);
	return strtoull(found + strlen(line), NULL, 10) * 1024;
}

void sleep_us(uint64_t us)
{
	struct timespec rest = { us / 1000000, us % 1000000 * 1000 };
	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void gate_add(gate *g)
{
	atomic_fetch_add(g, 1);
	syscall(SYS_futex, g, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void gate_wait(gate *g, uint32_t at_least)
{
	struct timespec patience = { 120, 0 };
	for (;;) {
		uint32_t now = atomic_load(g);
		if (now >= at_least)
			return;
		if (syscall(SYS_futex, g, FUTEX_WAIT, now, &patience, NULL, 0) && errno == ETIMEDOUT)
			die("waited in vain for %u others, %u came", at_least, now);
	}
}

void reap(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
	errno = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("process %d ended with wait status 0x%x", child, status);
}

int work_but_for_the_write(void)
{
	char *memory = map_pages(WORK_MEMORY, MAP_PRIVATE);
	touch_pages(memory, WORK_MEMORY);
	unmap_pages(memory, WORK_MEMORY);
	uint64_t until = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + WORK_CPU_NS;
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < until)
		;
	int file = memfd_create("work", MFD_CLOEXEC);
	if (file < 0)
		die("memfd_create");
	return file;
}

void work_write(int file)
{
	static const char bytes[WORK_BYTES];
	if (write(file, bytes, sizeof bytes) != sizeof bytes)
		die("writing %d bytes", WORK_BYTES);
}

void work(void)
{
	int file = work_but_for_the_write();
	work_write(file);
	close(file);
}

void truth_of_works(uint64_t processes, uint64_t works, uint64_t extra)
{
	truth("processes_total", processes);
	truth("cpu_ns_at_least", works * WORK_CPU_NS);
	truth("peak_process_rss_bytes_at_least", WORK_MEMORY);
	truth("io_written_bytes", works * WORK_BYTES + extra);
	truth_tell();
}
