/* probed COUNT [ms]
 *
 * Calls given() COUNT times, for N from 0 to COUNT - 1 with (N, or -N if it is odd; N << 33; "even" or
 * "odd"), which returns the first plus the second; and passes the points weigh_test:step (by turns in two
 * places, where its arguments lie in registers and in memory; outer() calls inner(), which passes it), and
 * weigh_test:asked if somebody asks for
 * that. With ms it sleeps so long after each call. Says on standard output what all calls returned, and
 * ends with status 5.
 *
 * Truth: given (calls), asked (how often somebody asked), calls_cpu_ns (CPU time of all of that). */
#include "common.h"

/* Stacks are followed by frame pointers. */
#pragma GCC optimize("no-omit-frame-pointer")

/* A point as sys/sdt.h of SystemTap makes it, by the compiler's own hand: an instruction that does
 * nothing, and a note of where it is and where its arguments lie. */
#define POINT(name, semaphore, arguments, ...)                                                    \
	__asm__ volatile("990: nop\n"                                                             \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"                             \
			 ".balign 4\n"                                                            \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                       \
			 "991: .asciz \"stapsdt\"\n"                                              \
			 "992: .balign 4\n"                                                       \
			 "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                      \
			 ".asciz \"weigh_test\"\n"                                                \
			 ".asciz \"" name "\"\n"                                                  \
			 ".asciz \"" arguments "\"\n"                                             \
			 "994: .balign 4\n"                                                       \
			 ".popsection\n"                                                          \
			 ".ifndef _.stapsdt.base\n"                                               \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"  \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                         \
			 "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                    \
			 ".popsection\n.endif\n"                                                  \
			 ::__VA_ARGS__)

/* A register that a function has to keep for its caller. */
#ifdef __aarch64__
#define KEPT "x19"
#else
#define KEPT "rbx"
#endif

/* What the kernel raises while somebody asks for the point. */
__attribute__((section(".probes"), used)) volatile unsigned short asked_semaphore;

__attribute__((noinline, noclone)) long given(int number, long wide, const char *text)
{
	/* It begins as functions do: with its frame. */
	__asm__ volatile("" ::"r"(text) : "memory", KEPT);
	return number + wide;
}

__attribute__((noinline, noclone)) static void in_registers(int number, long wide)
{
	/* It has a frame before it comes to the point. */
	__asm__ volatile("" ::: KEPT);
	POINT("step", "0", "-4@%[number] 8@%[wide] -4@$-7", [number] "r"(number), [wide] "r"(wide));
}

__attribute__((noinline, noclone)) static void in_memory(int number, long wide)
{
	volatile long both[2] = { number, wide };

#ifdef __aarch64__
	POINT("step", "0", "-4@[%[both]] 8@[%[both], 8] -4@-7", [both] "r"(both), "m"(both));
#else
	POINT("step", "0", "-4@(%[both]) 8@-8(%[both],%[two],8) -4@$-7", [both] "r"(both),
	      [two] "r"(2L), "m"(both));
#endif
}

__attribute__((noinline, noclone)) static void inner(int number, long wide)
{
	if (number < 0)
		in_registers(number, wide);
	else
		in_memory(number, wide);
	/* So that it is no jump: the caller is to be on the stack. */
	__asm__ volatile("");
}

__attribute__((noinline, noclone)) static void outer(int number, long wide)
{
	inner(number, wide);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 3)
		die("usage: probed COUNT [ms]");
	uint64_t count = number(argv[1], "COUNT"), ms = argc == 3 ? number(argv[2], "ms") : 0;
	uint64_t asked = 0;
	/* They are in memory then: a probe cannot have them brought in. */
	static char even[] = "even", odd[] = "odd";
	long sum = even[0] + odd[0] - 'e' - 'o';

	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t n = 0; n < count; n++) {
		int small = n & 1 ? -(int)n : (int)n;

		sum += given(small, (long)n << 33, n & 1 ? odd : even);
		outer(small, (long)n << 33);
		if (asked_semaphore) {
			asked++;
			POINT("asked", "asked_semaphore", "8@%[n]", [n] "r"(n));
		}
		if (ms)
			sleep_us(ms * 1000);
	}
	uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
	printf("%ld\n", sum);
	truth("given", count);
	truth("asked", asked);
	truth("calls_cpu_ns", took);
	truth_tell();
	return 5;
}
