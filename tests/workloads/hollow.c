/* hollow MOUNTPOINT NAME SIZE COMMAND...
 *
 * Mounts a file system (FUSE, as root) with one file NAME of SIZE bytes at MOUNTPOINT, runs COMMAND, takes the mount
 * away and ends with COMMAND's status. Every read(2) and write(2) of the file is a request (direct I/O), and nothing is
 * done for it: bytes read are those of one buffer, bytes written go nowhere. So it is what any file system at that
 * place costs at least. One thread serves.
 *
 * It has no truth of its own. */
#include "common.h"

#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define MOST_BYTES (1 << 20)
#define ITS_NODE 2

static int device;
static uint64_t size;
static const char *name;
static char request[MOST_BYTES + 4096], content[MOST_BYTES];

static void answer(uint64_t unique, int error, const void *data, size_t length)
{
	struct fuse_out_header header = { .len = sizeof header + length, .error = error, .unique = unique };
	struct iovec parts[] = { { &header, sizeof header }, { (void *)data, length } };

	/* A request may have been interrupted meanwhile. */
	if (writev(device, parts, length ? 2 : 1) < 0 && errno != ENOENT)
		die("writev");
}

static struct fuse_attr attributes(uint64_t node)
{
	if (node == ITS_NODE)
		return (struct fuse_attr){ .ino = node, .size = size, .mode = S_IFREG | 0644, .nlink = 1 };
	return (struct fuse_attr){ .ino = node, .mode = S_IFDIR | 0755, .nlink = 2 };
}

static void begin(const struct fuse_in_header *in, const struct fuse_init_in *wanted)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = wanted->max_readahead,
		.flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_INIT_EXT,
		/* FUSE_DIRECT_IO_ALLOW_MMAP, which older headers lack. */
		.flags2 = 1U << 4,
		.max_pages = MOST_BYTES / 4096,
		.max_write = MOST_BYTES,
		.time_gran = 1,
	};
	answer(in->unique, 0, &out, sizeof out);
}

static void look_up(const struct fuse_in_header *in, const char *wanted)
{
	struct fuse_entry_out out = { .nodeid = ITS_NODE, .entry_valid = 3600, .attr_valid = 3600 };

	out.attr = attributes(ITS_NODE);
	if (strcmp(wanted, name))
		answer(in->unique, -ENOENT, NULL, 0);
	else
		answer(in->unique, 0, &out, sizeof out);
}

static void give_attributes(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr_valid = 3600, .attr = attributes(in->nodeid) };

	answer(in->unique, 0, &out, sizeof out);
}

static void give_content(const struct fuse_in_header *in, const struct fuse_read_in *wanted)
{
	uint64_t left = wanted->offset < size ? size - wanted->offset : 0;

	answer(in->unique, 0, content, wanted->size < left ? wanted->size : left);
}

/* Whether there may be another request. */
static bool serve(void)
{
	ssize_t length = read(device, request, sizeof request);
	const struct fuse_in_header *in = (void *)request;
	const void *body = in + 1;
	struct fuse_open_out open = { .fh = 1, .open_flags = FOPEN_DIRECT_IO };

	if (length < 0)
		return errno == EINTR || errno == ENOENT || errno == EAGAIN;
	switch (in->opcode) {
	case FUSE_INIT:
		begin(in, body);
		break;
	case FUSE_LOOKUP:
		look_up(in, body);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		give_attributes(in);
		break;
	case FUSE_OPEN:
		answer(in->unique, 0, &open, sizeof open);
		break;
	case FUSE_READ:
		give_content(in, body);
		break;
	case FUSE_WRITE: {
		struct fuse_write_out out = { .size = ((const struct fuse_write_in *)body)->size };
		answer(in->unique, 0, &out, sizeof out);
		break;
	}
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_FSYNC:
		answer(in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(in->unique, -ENOSYS, NULL, 0);
	}
	return true;
}

int main(int count, char **arguments)
{
	char options[128];
	int status;

	if (count < 5)
		die("usage: hollow MOUNTPOINT NAME SIZE COMMAND...");
	name = arguments[2];
	size = number(arguments[3], "SIZE");
	memset(content, 1, sizeof content);
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		die("/dev/fuse");
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", device, MOST_BYTES);
	if (mount("hollow", arguments[1], "fuse", MS_NOSUID | MS_NODEV, options))
		die("mount %s", arguments[1]);
	pid_t server = fork();
	if (server < 0)
		die("fork");
	if (!server) {
		while (serve())
			;
		_exit(0);
	}
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		execvp(arguments[4], arguments + 4);
		die("%s", arguments[4]);
	}
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	if (umount2(arguments[1], MNT_DETACH))
		die("umount2");
	/* The server's is the last descriptor of the device then, and its read ends. */
	close(device);
	if (waitpid(server, NULL, 0) != server)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
