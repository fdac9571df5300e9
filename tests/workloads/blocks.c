/* blocks WAY PATH SIZE BLOCK TIMES
 *
 * Goes TIMES times through the SIZE bytes of the file PATH, which is there already, by blocks of BLOCK
 * bytes (the last one may be shorter), in one of these ways:
 *
 *   read    by read(2), from one open, back to the beginning by lseek(2)
 *   write   the same by write(2)
 *   load    copied out of memory that the file is mapped to, mapped anew each time
 *   store   copied into it
 *
 * Truth: bytes moved, wall_ns from before the first to after the last. */
#include "common.h"

static uint64_t size, block;
static char *buffer;

static uint64_t part_at(uint64_t at)
{
	return size - at < block ? size - at : block;
}

static void by_calls(int file, bool writing)
{
	if (lseek(file, 0, SEEK_SET))
		die("lseek");
	for (uint64_t at = 0; at < size; at += block) {
		uint64_t part = part_at(at);
		ssize_t done = writing ? write(file, buffer, part) : read(file, buffer, part);
		if (done != (ssize_t)part)
			die("%zd of %ju bytes", done, (uintmax_t)part);
	}
}

static void by_memory(int file, bool writing)
{
	char *mapped = mmap(NULL, size, writing ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		die("mmap");
	for (uint64_t at = 0; at < size; at += block) {
		if (writing)
			memcpy(mapped + at, buffer, part_at(at));
		else
			memcpy(buffer, mapped + at, part_at(at));
		/* The copies are to be made, though nobody looks at them. */
		__asm__ volatile("" ::: "memory");
	}
	munmap(mapped, size);
}

int main(int count, char **arguments)
{
	if (count != 6)
		die("usage: blocks read|write|load|store PATH SIZE BLOCK TIMES");
	const char *way = arguments[1];
	bool writing = !strcmp(way, "write") || !strcmp(way, "store");
	bool mapping = !strcmp(way, "load") || !strcmp(way, "store");
	if (!writing && !mapping && strcmp(way, "read"))
		die("%s: no such way", way);
	size = number(arguments[3], "SIZE");
	block = number(arguments[4], "BLOCK");
	uint64_t times = number(arguments[5], "TIMES");
	if (!block)
		die("BLOCK is 0");
	buffer = malloc(block);
	if (!buffer)
		die("malloc");
	memset(buffer, 1, block);
	int file = open(arguments[2], (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (file < 0)
		die("%s", arguments[2]);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	for (uint64_t time = 0; time < times; time++) {
		if (mapping)
			by_memory(file, writing);
		else
			by_calls(file, writing);
	}
	truth("wall_ns", clock_ns(CLOCK_MONOTONIC) - began);
	truth("bytes", size * times);
	close(file);
	truth_tell();
	return 0;
}
