/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the preload library counts with, in a program of its own that a sanitizer has instrumented: none of the
 * functions that it stands before is there, so that the sanitizer's runtime begins as in any program (loaded into
 * another one, its first system calls came to the library before the runtime was ready, and crashed).
 *
 * Threads count in the same files, open and close their own, and take processes' places. The sums are exact.
 *
 * usage: threads FOLDER
 */
#include "io_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 1500, FILES = 64, BYTES = 10, OWN_BYTES = 7, USES_ROOM = 64 };

#define SAME(found, expected)                                                                            \
	do {                                                                                             \
		unsigned long long found_ = (found), expected_ = (expected);                             \
		if (found_ != expected_) {                                                               \
			fprintf(stderr, "%d: %s is %llu, expected %llu\n", __LINE__, #found, found_, expected_); \
			exit(1);                                                                         \
		}                                                                                        \
	} while (0)

static const char *folder;
static int files[FILES];
static pthread_barrier_t together;

static int in_folder(const char *name, int number, off_t bytes)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s%d", folder, name, number);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	SAME(fd < 0 || ftruncate(fd, bytes), 0);
	return fd;
}

static void *mapped(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	SAME(fd < 0 || ftruncate(fd, bytes), 0);
	void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	SAME(at == MAP_FAILED, 0);
	close(fd);
	return at;
}

/* As weigh begins the two files, with this process in the first slot. */
static struct uses_file *begin(void)
{
	char path[256], uses_path[300];

	snprintf(path, sizeof path, "%s/shared", folder);
	snprintf(uses_path, sizeof uses_path, "%s%s", path, USES_SUFFIX);
	struct shared *shared = mapped(path, sizeof *shared);
	struct uses_file *uses = mapped(uses_path, sizeof *uses);
	uint32_t pid = getpid();
	shared->head.used = 1;
	shared->head.room = ROOM_STEP;
	shared->slots[0].life = life_of(0, pid, STATE_RUNNING);
	shared->head.magic = MAGIC;
	uses->head.used = 1;
	uses->head.room = uses->head.process_room = USES_ROOM;
	uses->head.magic = USES_MAGIC;
	SAME(map_file(path, 0), true);
	self = own_slot;
	known.pid = known.local_pid = pid;
	io_begin(path);
	SAME(io_is_on, true);
	return uses;
}

static void take_a_place(uint32_t pid)
{
	struct slot *slot = claim(STATE_SPAWNING);

	SAME(!slot, 0);
	enter(slot, generation_of(slot->life), pid, STATE_RUNNING);
	SAME(pid_of(slot->life), pid);
	end_life();
	give_back(slot);
}

static void *work(void *argument)
{
	int number = (int)(intptr_t)argument;

	pthread_barrier_wait(&together);
	for (int round = 0; round < ROUNDS; round++) {
		int fd = in_folder("own", number, 0);

		io_moved(files[round % FILES], BYTES, IO_WHAT(0, 1, IO_AT_OFFSET, SYS_pwrite64), round, io_now());
		io_opened(fd, O_RDWR, SYS_openat, io_now());
		io_moved(fd, OWN_BYTES, IO_WHAT(0, 0, IO_AT_POSITION, SYS_read), 0, io_now());
		io_closes(fd);
		close(fd);
		count(0, 1);
		take_a_place(1000 + number);
	}
	return 0;
}

static bool is_shared(uint64_t inode)
{
	struct stat about;

	for (int i = 0; i < FILES; i++)
		if (!fstat(files[i], &about) && about.st_ino == inode)
			return true;
	return false;
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];
	uint64_t written = 0, read = 0;

	SAME(count, 2);
	folder = arguments[1];
	struct uses_file *uses = begin();
	for (int i = 0; i < FILES; i++)
		files[i] = in_folder("file", i, 1 << 16);
	SAME(pthread_barrier_init(&together, 0, THREADS), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		SAME(pthread_create(&threads[i], 0, work, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	for (uint64_t use = 0; use < uses->head.used; use++) {
		/* Threads that meet a descriptor at the same time count it once. */
		if (is_shared(uses->uses[use].inode))
			SAME(uses->uses[use].descriptors, 1);
		written += uses->uses[use].numbers.bytes[0][1];
		read += uses->uses[use].numbers.bytes[0][0];
	}
	SAME(self->counters[0], THREADS * ROUNDS);
	SAME(shared_head->alive, 0);
	SAME(shared_head->refused, 0);
	/* Who did not get a file's lock in time counts in the rest. */
	SAME(written, THREADS * ROUNDS * BYTES);
	SAME(read, THREADS * ROUNDS * OWN_BYTES);
	return 0;
}
