/*
 * Whether the library will be in a program that is about to be executed, and why not.
 *
 * Reads the first bytes of the file, of a script's interpreter instead. Where the dynamic loader
 * is another one than that the library is for, LD_PRELOAD would make it complain on the program's
 * standard error, or fail: then the variable must not be there.
 */
#include "shim.h"

#include <elf.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { HEAD = 2048, SCRIPTS = 4 };

/* The first bytes of a file and what the kernel says of it; negative if it can not be read. */
static long head_of(struct slot *reader, int directory, const char *path, char *head,
		    struct stat *about)
{
	int fd = (int)RAW(openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	long got = RAW(pread64, fd, head, HEAD, 0);
	if (RAW(fstat, fd, about))
		about->st_mode = 0;
	RAW(close, fd);
	if (reader) {
		reader->own_calls++;
		if (got > 0)
			reader->own_bytes += got;
	}
	return got;
}

static uint32_t of_elf(const char *head, long length)
{
	const Elf64_Ehdr *elf = (const void *)head;

	if (length < (long)sizeof *elf || elf->e_ident[EI_CLASS] != ELFCLASS64)
		return FLAG_OTHER_LOADER;
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		uint64_t at = elf->e_phoff + (uint64_t)i * elf->e_phentsize;
		if (at + sizeof(Elf64_Phdr) > (uint64_t)length)
			return 0;
		const Elf64_Phdr *part = (const void *)(head + at);
		if (part->p_type != PT_INTERP)
			continue;
		if (part->p_offset + part->p_filesz > (uint64_t)length || !part->p_filesz)
			return 0;
		const char *loader = head + part->p_offset;
		return strncmp(loader, shared_head->loader, part->p_filesz) ? FLAG_OTHER_LOADER : 0;
	}
	return FLAG_STATIC;
}

static bool is_privileged(const struct stat *about)
{
	if (!(about->st_mode & (S_ISUID | S_ISGID)))
		return false;
	return (about->st_mode & S_ISUID && about->st_uid != (uint32_t)RAW(geteuid)) ||
	       (about->st_mode & S_ISGID && about->st_gid != (uint32_t)RAW(getegid));
}

uint32_t why_blind(struct slot *reader, int directory, const char *path)
{
	char head[HEAD + 1];
	char interpreter[256];
	struct stat about;

	if (RAW(faccessat, AT_FDCWD, shared_head->library, 4 /* R_OK */))
		return FLAG_OUT_OF_REACH;
	for (int i = 0; i < SCRIPTS; i++) {
		long length = head_of(reader, directory, path, head, &about);
		if (length < 0)
			return 0;
		if (is_privileged(&about))
			return FLAG_PRIVILEGED;
		if (length >= 4 && !memcmp(head, ELFMAG, SELFMAG))
			return of_elf(head, length);
		if (length < 3 || head[0] != '#' || head[1] != '!')
			return 0; /* the caller's shell will read it */
		head[length] = 0;
		const char *start = head + 2 + strspn(head + 2, " \t");
		size_t part = strcspn(start, " \t\n");
		if (part >= sizeof interpreter)
			return 0;
		memcpy(interpreter, start, part);
		interpreter[part] = 0;
		directory = AT_FDCWD;
		path = interpreter;
	}
	return 0;
}

/* As execvp(3) looks for it. */
uint32_t why_blind_in_path(struct slot *reader, const char *file)
{
	char path[PATH_MAX];
	const char *list = getenv("PATH");

	if (strchr(file, '/'))
		return why_blind(reader, AT_FDCWD, file);
	if (!list)
		list = "/bin:/usr/bin";
	for (size_t length = strlen(file); *list;) {
		size_t part = strcspn(list, ":");
		if (part + length + 2 <= sizeof path) {
			memcpy(path, list, part);
			path[part] = part ? '/' : 0;
			memcpy(path + part + !!part, file, length + 1);
			if (!RAW(faccessat, AT_FDCWD, path, 1 /* X_OK */))
				return why_blind(reader, AT_FDCWD, path);
		}
		list += part;
		list += *list == ':';
	}
	return 0;
}

bool can_load(uint32_t blind)
{
	return !(blind & (FLAG_OTHER_LOADER | FLAG_OUT_OF_REACH | FLAG_FILTERED));
}
