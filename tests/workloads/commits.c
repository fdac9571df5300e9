/*
 * Changes of metadata, and dirty pages that a call itself sends on their way, in exact amounts.
 *
 * usage: commits FOLDER
 *
 * 101 fchmods of a file in FOLDER; 7 more with an fsync after each; a write of 1,001 pages and a
 * sync_file_range that begins to write them; 23 times a write of 53 pages and a syncfs.
 *
 * Truth: fchmod, fsync, pages (of sync_file_range).
 */
#include "common.h"

#include <sys/stat.h>

#define PAGE 4096

static char bytes[1001 * PAGE];

static void must(long long got, long long expected, const char *what)
{
	if (got != expected)
		die("%s", what);
}

int main(int argc, char **argv)
{
	char path[4096];
	int file;

	if (argc != 2)
		die("usage: commits FOLDER");
	snprintf(path, sizeof(path), "%s/commits", argv[1]);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0)
		die("%s", path);
	must(fsync(file), 0, "fsync");
	for (int i = 0; i < 101; i++)
		must(fchmod(file, 0600 | (i & 1)), 0, "fchmod");
	for (int i = 0; i < 7; i++) {
		must(fchmod(file, 0600 | (i & 1) << 2), 0, "fchmod");
		must(fsync(file), 0, "fsync");
	}
	must(pwrite(file, bytes, sizeof(bytes), 0), sizeof(bytes), "pwrite");
	must(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE), 0, "sync_file_range");
	for (int i = 0; i < 23; i++) {
		must(pwrite(file, bytes, 53 * PAGE, sizeof(bytes)), 53 * PAGE, "pwrite");
		must(syncfs(file), 0, "syncfs");
	}
	truth("fchmod", 108);
	truth("fsync", 8);
	truth("pages", 1001);
	truth_tell();
	return 0;
}
