/*
 * A file system that a program serves, and a process that asks it in exact amounts.
 *
 * usage: serve FOLDER COUNT MS
 *
 * Mounts itself over FOLDER, which needs root, and has an empty folder there whose attributes are
 * never remembered. Another process calls stat on it COUNT times; each answer takes MS ms.
 *
 * Truth: getattr: requests for attributes that came; stat_ns: how long the calls took.
 */
#include "common.h"

#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int device;

static void answer(uint64_t unique, int error, const void *data, size_t bytes)
{
	static char reply[4096];
	struct fuse_out_header head = {
		.len = sizeof(head) + bytes,
		.error = error,
		.unique = unique,
	};

	memcpy(reply, &head, sizeof(head));
	memcpy(reply + sizeof(head), data, bytes);
	if (write(device, reply, head.len) != (ssize_t)head.len)
		die("an answer");
}

static void ask(const char *folder, uint64_t count)
{
	uint64_t began, took = 0;
	struct stat found;

	for (uint64_t i = 0; i < count; i++) {
		began = clock_ns(CLOCK_MONOTONIC);
		if (stat(folder, &found))
			die("stat");
		took += clock_ns(CLOCK_MONOTONIC) - began;
	}
	truth("stat_ns", took);
	truth_tell();
	if (umount2(folder, 0))
		die("umount");
	exit(0);
}

static uint64_t serve(uint64_t pause_ms)
{
	static char request[1 << 17];
	struct fuse_in_header *in = (void *)request;
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION };
	struct fuse_attr_out attributes = { .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };
	uint64_t asked = 0;

	init.max_write = 4096;
	for (;;) {
		ssize_t bytes = read(device, request, sizeof(request));
		if (bytes < 0 && errno == ENODEV)
			return asked;
		if (bytes < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (bytes < (ssize_t)sizeof(*in))
			die("a request");
		switch (in->opcode) {
		case FUSE_INIT:
			answer(in->unique, 0, &init, sizeof(init));
			break;
		case FUSE_GETATTR:
			asked++;
			sleep_us(pause_ms * 1000);
			answer(in->unique, 0, &attributes, sizeof(attributes));
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
			break;
		case FUSE_DESTROY:
			answer(in->unique, 0, 0, 0);
			break;
		default:
			answer(in->unique, -ENOSYS, 0, 0);
		}
	}
}

int main(int argc, char **argv)
{
	char options[128];
	uint64_t asked;
	pid_t asker;

	if (argc != 4)
		die("usage: serve FOLDER COUNT MS");
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
	if (device < 0 || mount("weigh", argv[1], "fuse", MS_NOSUID | MS_NODEV, options))
		die("FUSE");
	asker = fork();
	if (!asker) {
		close(device);
		ask(argv[1], number(argv[2], "COUNT"));
	}
	asked = serve(number(argv[3], "MS"));
	reap(asker);
	truth("getattr", asked);
	truth_tell();
	return 0;
}
