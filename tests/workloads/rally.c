/* rally TURNS WORK
 *
 * Two processes that go on together, as the ranks of an MPI program do: TURNS times each adds up WORK numbers, and then
 * waits for the other one by looking at shared memory again and again, without a system call. What keeps one of them from
 * its CPU keeps both.
 *
 * Truth: turns (of each), wall_ns (from when both were there to when both were done). */
#include "common.h"

struct rank {
	_Alignas(128) _Atomic uint64_t turn;
};

static void play(struct rank *own, struct rank *other, uint64_t turns, uint64_t work)
{
	volatile uint64_t sum = 0;

	for (uint64_t left = turns; left; left--) {
		for (uint64_t i = 0; i < work; i++)
			sum += i;
		uint64_t turn = ++own->turn;
		while (other->turn < turn)
			;
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: rally TURNS WORK");
	uint64_t turns = number(argv[1], "TURNS"), work = number(argv[2], "WORK");
	struct rank *ranks = (void *)map_pages(2 * sizeof(*ranks), MAP_SHARED);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	struct rank *own = &ranks[!child], *other = &ranks[!!child];
	/* A turn without work: both are there. */
	play(own, other, 1, 0);
	uint64_t begun = clock_ns(CLOCK_MONOTONIC);
	play(own, other, turns, work);
	uint64_t ended = clock_ns(CLOCK_MONOTONIC);
	if (!child)
		_exit(0);
	reap(child);
	truth("turns", turns);
	truth("wall_ns", ended - begun);
	truth_tell();
	return 0;
}
