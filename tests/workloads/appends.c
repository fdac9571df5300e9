/* appends calls|aio PATH
 *
 * Writes to a new file at offsets that do not count: by O_APPEND and RWF_APPEND the kernel puts it at the end.
 *
 *   calls  13 writes: each kind of write at an offset, flags set and cleared later, by this descriptor and by a copy
 *   aio    5000 bytes, then 3 requests of 100 bytes at once, at the offset 0, and one of a vector
 *
 * Truth: io_written_bytes, highest (the file's size), rewritten, and `at`: the beginning of each write, as the file's
 * size and position tell it after the call. */
#include "common.h"

#include <linux/aio_abi.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define NO_APPEND 0x20 /* RWF_NOAPPEND, of Linux 6.9 */

static char data[5000];
static char places[1024];
static uint64_t written, rewritten;

static uint64_t size_of(int fd)
{
	struct stat about;

	if (fstat(fd, &about))
		die("fstat");
	return about.st_size;
}

static void wrote(ssize_t bytes, size_t expected, uint64_t at)
{
	if (bytes != (ssize_t)expected)
		die("%zd of %zu bytes", bytes, expected);
	written += bytes;
	sprintf(places + strlen(places), "%s%llu", *places ? " " : "", (unsigned long long)at);
}

static void appended(int fd, ssize_t bytes, size_t expected)
{
	wrote(bytes, expected, size_of(fd) - expected);
}

static void set_flags(int fd, int flags)
{
	if (fcntl(fd, F_SETFL, flags))
		die("F_SETFL");
}

static void by_calls(int fd)
{
	struct iovec two[] = { { data, 60 }, { data, 40 } };

	appended(fd, write(fd, data, 5000), 5000);
	appended(fd, pwrite(fd, data, 100, 0), 100);
	appended(fd, pwritev(fd, two, 2, 7), 100);
	appended(fd, pwritev2(fd, two, 2, 3, 0), 100);
	appended(fd, pwritev2(fd, two, 2, -1, RWF_APPEND), 100);
	ssize_t there = pwritev2(fd, two, 1, 0, NO_APPEND);
	if (there >= 0) {
		wrote(there, 60, 0);
		rewritten += 60;
	} else if (errno != EOPNOTSUPP) {
		die("RWF_NOAPPEND");
	}
	set_flags(fd, 0);
	wrote(pwrite(fd, data, 100, 5600), 100, 5600);
	appended(fd, pwritev2(fd, two, 2, 0, RWF_APPEND), 100);
	if (lseek(fd, 0, SEEK_SET))
		die("lseek");
	appended(fd, pwritev2(fd, two, 2, -1, RWF_APPEND), 100);
	appended(fd, write(fd, data, 100), 100);
	set_flags(fd, O_APPEND);
	appended(fd, pwrite(fd, data, 100, 0), 100);
	int copy = dup(fd);
	set_flags(copy, 0);
	wrote(pwrite(fd, data, 20, 100), 20, 100);
	rewritten += 20;
	set_flags(fd, O_APPEND);
	appended(copy, pwrite(copy, data, 100, 0), 100);
	close(copy);
}

static void by_aio(int fd)
{
	aio_context_t context = 0;
	struct iovec two[] = { { data, 60 }, { data, 40 } };
	struct iocb requests[4], *list[4];
	struct io_event events[4];

	appended(fd, write(fd, data, 5000), 5000);
	for (int i = 0; i < 4; i++) {
		requests[i] = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd,
					     .aio_buf = (uintptr_t)data, .aio_nbytes = 100 };
		list[i] = &requests[i];
	}
	requests[3].aio_lio_opcode = IOCB_CMD_PWRITEV;
	requests[3].aio_buf = (uintptr_t)two;
	requests[3].aio_nbytes = 2;
	if (syscall(SYS_io_setup, 8, &context) || syscall(SYS_io_submit, context, 4, list) != 4 ||
	    syscall(SYS_io_getevents, context, 4, 4, events, NULL) != 4)
		die("AIO");
	for (int i = 0; i < 4; i++)
		wrote(events[i].res, 100, 5000 + 100 * i);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: appends calls|aio PATH");
	int fd = open(argv[2], O_CREAT | O_EXCL | O_WRONLY | O_APPEND, 0666);
	if (fd < 0)
		die("%s", argv[2]);
	if (!strcmp(argv[1], "aio"))
		by_aio(fd);
	else
		by_calls(fd);
	truth("io_written_bytes", written);
	truth("highest", size_of(fd));
	truth("rewritten", rewritten);
	truth_text("at", places);
	truth_tell();
	return 0;
}
