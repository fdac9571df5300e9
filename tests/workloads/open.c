/* open N PATHPREFIX
 *
 * Makes N empty files PATHPREFIX0, PATHPREFIX1, … by mknod(2), which opens nothing; opens each
 * once, by open, openat, openat2 and creat in turn, and closes it; tries to open five files that
 * do not exist; removes the files.
 *
 * Truth: opened_files (N), opens_total (N, and one if the truth goes to a file), failed_opens.
 * Not in it: what the kernel and the loader open to start the program (for a static program the
 * program itself; for a dynamic one also its interpreter, /etc/ld.so.cache and libraries). */
#include "common.h"

#include <linux/openat2.h>
#include <sys/stat.h>

enum { FAILED = 5 };

static int open_by(uint64_t turn, const char *path)
{
	struct open_how how = { .flags = O_RDONLY };
	switch (turn % 4) {
#ifdef SYS_open
	case 0:
		return syscall(SYS_open, path, O_RDONLY);
#endif
	case 1:
		return syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
	case 2:
		return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	default:
		return creat(path, 0600);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: open N PATHPREFIX");
	uint64_t n = number(argv[1], "N");
	char path[4096];
	for (uint64_t i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s%llu", argv[2], (unsigned long long)i);
		if (mknod(path, S_IFREG | 0600, 0))
			die("making %s", path);
	}
	for (uint64_t i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s%llu", argv[2], (unsigned long long)i);
		int fd = open_by(i, path);
		if (fd < 0)
			die("%s", path);
		close(fd);
	}
	for (uint64_t i = 0; i < FAILED; i++) {
		snprintf(path, sizeof path, "%s-missing-%llu", argv[2], (unsigned long long)i);
		if (open(path, O_RDONLY) >= 0)
			die("%s exists", path);
	}
	for (uint64_t i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s%llu", argv[2], (unsigned long long)i);
		unlink(path);
	}
	truth("opened_files", n);
	truth("opens_total", n + truth_opens_a_file());
	truth("failed_opens", FAILED);
	truth_tell();
	return 0;
}
