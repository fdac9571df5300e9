/* mixed PATH CHUNK
 *
 * Reads PATH, which must hold CHUNK bytes, from its beginning, CHUNK bytes at a time by pread64, in turn by the C
 * library, by syscall(3), and by an instruction of its own: PLAIN, BY_NUMBER and RAW times. So do, with a
 * descriptor of their own where they are not guests, a thread, a child by fork, a child by vfork, and a handler of
 * a signal that comes while a read of a pipe waits. The vfork child has its parent's descriptor, and opens the file
 * once more, too.
 *
 * A program that is linked statically does the same.
 *
 * Truth: calls and bytes of PATH, opens and closes of it. Of the pipe 7 bytes are written and read, by one call each. */
#include "common.h"

#include <pthread.h>
#include <signal.h>

enum { PLAIN = 101, BY_NUMBER = 103, RAW = 107 };

static const char *path;
static size_t chunk;
static int waited[2], handlers_file = -1;
static _Atomic uint64_t calls, opens, closes;

static long raw_pread(int file, char *to)
{
	long result;
#if defined(__x86_64__)
	register long at __asm__("r10") = 0;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_pread64), "D"(file), "S"(to), "d"(chunk), "r"(at)
			 : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_pread64;
	register long x0 __asm__("x0") = file;
	register long x1 __asm__("x1") = (long)to;
	register long x2 __asm__("x2") = chunk;
	register long x3 __asm__("x3") = 0;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(number), "r"(x1), "r"(x2), "r"(x3) : "memory");
	result = x0;
#endif
	return result;
}

static void must(long got, const char *what)
{
	if (got != (long)chunk)
		die("%s: %ld", what, got);
	calls++;
}

static void read_in_all_ways(int file)
{
	char *to = alloca(chunk);

	for (int i = 0; i < PLAIN; i++)
		must(pread(file, to, chunk, 0), "pread");
	for (int i = 0; i < BY_NUMBER; i++)
		must(syscall(SYS_pread64, file, to, chunk, 0), "by number");
	for (int i = 0; i < RAW; i++)
		must(raw_pread(file, to), "raw");
}

static int open_it(void)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		die("%s", path);
	opens++;
	return file;
}

static void close_it(int file)
{
	close(file);
	closes++;
}

static void *thread(void *unused)
{
	int file = open_it();

	read_in_all_ways(file);
	close_it(file);
	return unused;
}

static void handle(int signal)
{
	(void)signal;
	read_in_all_ways(handlers_file);
	if (write(waited[1], "1234567", 7) != 7)
		die("write");
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		die("a child: %d", status);
}

/* A read waits, and goes on by itself when the handler has come back. */
static void interrupt_a_read(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	char bytes[7];

	handlers_file = open_it();
	if (pipe(waited) || sigaction(SIGALRM, &action, NULL))
		die("pipe");
	ualarm(20000, 0);
	if (read(waited[0], bytes, 7) != 7)
		die("read");
	close_it(handlers_file);
}

int main(int argc, char **argv)
{
	pthread_t second;

	if (argc != 3)
		die("usage: mixed PATH CHUNK");
	path = argv[1];
	chunk = number(argv[2], "CHUNK");
	int file = open_it();
	read_in_all_ways(file);
	if (pthread_create(&second, NULL, thread, NULL) || pthread_join(second, NULL))
		die("a thread");
	pid_t child = fork();
	if (!child) {
		thread(NULL);
		_exit(0);
	}
	wait_for(child);
	/* What the child has counted is its own. */
	calls += PLAIN + BY_NUMBER + RAW;
	opens++;
	closes++;
	child = vfork();
	if (!child) {
		read_in_all_ways(file);
		int again = open_it();
		close_it(again);
		_exit(0);
	}
	wait_for(child);
	interrupt_a_read();
	/* Once more, when all that is over. */
	read_in_all_ways(file);
	close_it(file);
	truth("calls", calls);
	truth("bytes", calls * chunk);
	truth("opens", opens);
	truth("closes", closes);
	truth_tell();
	return 0;
}
