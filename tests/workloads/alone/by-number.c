/*
 * Calls the kernel by the numbers of 32-bit programs, and by nothing else: without a C library, and with all its data
 * below 4 GiB. Reads `source`, and makes `far`. The status is 0 if each call has done what it should.
 */
#ifdef __x86_64__
#define MORE , "r8", "r9", "r10", "r11"
#else
#define MORE
#endif

typedef unsigned int word;
#define AT(object) ((word)(unsigned long)(object))

static int call(int number, word a, word b, word c, word d, word e)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory" MORE);
	return result;
}

static char bytes[1021], from[] = "source", to[] = "far";
static word pieces[4], arguments[6], position[2], offset[2] = { 100, 77 };
static int ends[2];
/* Of mmap: the program's file has it, and the program has not touched it. */
static const word away[1024] __attribute__((aligned(4096))) = { 0, 4096, 1, 2, 100, 0 };

void _start(void)
{
	int file = call(5, AT(from), 0, 0, 0, 0), far = call(5, AT(to), 0101102, 0644, 0, 0), all = 0, well;

	for (int got = 1; got > 0 && all < 1000003; all += got)
		got = call(3, file, AT(bytes), sizeof bytes, 0, 0);
	/* Behind 4 GiB: the offset is in two halves. */
	well = call(181, far, AT(bytes), 1021, 7, 1) == 1021;
	pieces[0] = AT(bytes), pieces[1] = 3, pieces[2] = AT(bytes) + 3, pieces[3] = 400;
	well &= call(334, far, AT(pieces), 2, 2000, 1) == 403;
	well &= call(140, far, 0, 5, AT(position), 0) == 0;
	well &= call(187, far, file, AT(offset), 4099, 0) == 4099;
	well &= call(63, file, 100, 0, 0, 0) == 100;
	well &= call(219, AT(away), 4096, 4, 0, 0) == 0;
	well &= (word)call(90, AT(away), 0, 0, 0, 0) < 0xfffff000u;
	/* A pair of sockets: one sends to the other. */
	arguments[0] = 1, arguments[1] = 1, arguments[2] = 0, arguments[3] = AT(ends);
	well &= call(102, 8, AT(arguments), 0, 0, 0) == 0;
	arguments[0] = ends[0], arguments[1] = AT(bytes), arguments[2] = 911, arguments[3] = 0;
	well &= call(102, 9, AT(arguments), 0, 0, 0) == 911;
	arguments[0] = ends[1], arguments[2] = 1021;
	well &= call(102, 10, AT(arguments), 0, 0, 0) == 911;
	call(6, far, 0, 0, 0, 0);
	call(1, well && all == 1000003 ? 0 : 1, 0, 0, 0, 0);
}
