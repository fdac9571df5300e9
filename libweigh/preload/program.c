/*
 * Whether the library will be in a program that is about to be executed, and why not.
 *
 * Reads the first bytes of the file, of a script's interpreter instead. Where the dynamic loader
 * is another one than that the library is for, LD_PRELOAD would make it complain on the program's
 * standard error, or fail: then the variable must not be there. So it is where a sanitizer's runtime must
 * come first, and where the program runs as a user that cannot open the shared file.
 */
#include "shim.h"
#include "sanitized.h"

#include <elf.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { HEAD = 832, SCRIPTS = 4 };

static uint32_t of_loader(struct reading *reading, const Elf64_Phdr *part)
{
	char loader[sizeof shared_head->loader];
	size_t size = part->p_filesz < sizeof loader ? part->p_filesz : sizeof loader;

	if (!size || read_at(reading, loader, size, part->p_offset) != (long)size)
		return 0;
	return strncmp(loader, shared_head->loader, size) ? FLAG_OTHER_LOADER : 0;
}

static uint32_t of_elf(struct reading *reading, const char *head, long length)
{
	const Elf64_Ehdr *elf = (const void *)head;
	Elf64_Phdr part, dynamic = { .p_type = PT_NULL };
	uint32_t blind = FLAG_STATIC;

	if (length < (long)sizeof *elf || elf->e_ident[EI_CLASS] != ELFCLASS64)
		return FLAG_OTHER_LOADER;
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		uint64_t at = elf->e_phoff + (uint64_t)i * elf->e_phentsize;
		if (at + sizeof part <= (uint64_t)length)
			memcpy(&part, head + at, sizeof part);
		else if (read_at(reading, &part, sizeof part, at) != sizeof part)
			return 0;
		if (part.p_type == PT_INTERP)
			blind = of_loader(reading, &part);
		else if (part.p_type == PT_DYNAMIC)
			dynamic = part;
	}
	if (!blind && dynamic.p_type == PT_DYNAMIC && needs_first(reading, elf, &dynamic))
		return FLAG_SANITIZED;
	return blind;
}

static bool is_privileged(const struct stat *about)
{
	if (!(about->st_mode & (S_ISUID | S_ISGID)))
		return false;
	return (about->st_mode & S_ISUID && about->st_uid != (uint32_t)RAW(geteuid)) ||
	       (about->st_mode & S_ISGID && about->st_gid != (uint32_t)RAW(getegid));
}

/* Whether a script's interpreter is named by the first line, which it is cut down to. */
static const char *interpreter_in(char *head, long length)
{
	if (length < 3 || head[0] != '#' || head[1] != '!')
		return NULL; /* the caller's shell will read it */
	head[length] = 0;
	char *start = head + 2 + strspn(head + 2, " \t");
	start[strcspn(start, " \t\n")] = 0;
	return start;
}

/* The same of one file: `path` becomes a script's interpreter, which lies in `head`. */
static uint32_t why_blind_file(struct reading *reading, const char **path, char *head)
{
	struct stat about;
	long length = read_at(reading, head, HEAD, 0);

	if (RAW(fstat, reading->fd, &about))
		about.st_mode = 0;
	*path = NULL;
	if (length < 0)
		return 0;
	if (is_privileged(&about))
		return FLAG_PRIVILEGED;
	if (length >= 4 && !memcmp(head, ELFMAG, SELFMAG))
		return of_elf(reading, head, length);
	*path = interpreter_in(head, length);
	return 0;
}

/* Whether this user, as which the program will run, can open what it would count in. */
static bool is_out_of_reach(void)
{
	long file = RAW(faccessat2, AT_FDCWD, shared_head->file, 6 /* R_OK, W_OK */, AT_EACCESS);

	return file == -EACCES || file == -ENOENT ||
	       RAW(faccessat, AT_FDCWD, shared_head->library, 4 /* R_OK */);
}

uint32_t why_blind(struct slot *reader, int directory, const char *path)
{
	char head[HEAD + 1];
	uint32_t blind = 0;

	if (is_out_of_reach())
		return FLAG_OUT_OF_REACH;
	for (int i = 0; path && !blind && i < SCRIPTS; i++) {
		struct reading reading = {
			.fd = (int)RAW(openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)
		};
		if (reading.fd < 0)
			return 0;
		blind = why_blind_file(&reading, &path, head);
		RAW(close, reading.fd);
		if (reader) {
			reader->own_calls += reading.calls;
			reader->own_bytes += reading.bytes;
		}
		directory = AT_FDCWD;
	}
	return blind;
}

uint32_t why_blind_by(char *const *given)
{
	return environment_has_first(given) ? FLAG_SANITIZED : 0;
}

static uint32_t look_for(struct slot *reader, const char *file, const char *list, char *path)
{
	for (size_t length = strlen(file); *list;) {
		size_t part = strcspn(list, ":");
		if (part + length + 2 <= PATH_MAX) {
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

/* As execvp(3) looks for it. */
uint32_t why_blind_in_path(struct slot *reader, const char *file)
{
	const char *list = getenv("PATH");

	if (strchr(file, '/'))
		return why_blind(reader, AT_FDCWD, file);
	char *path = borrow(PATH_MAX);
	uint32_t blind = path ? look_for(reader, file, list ? list : "/bin:/usr/bin", path) : 0;
	bring_back(path, PATH_MAX);
	return blind;
}

bool can_load(uint32_t blind)
{
	return !(blind & (FLAG_OTHER_LOADER | FLAG_OUT_OF_REACH | FLAG_FILTERED | FLAG_SANITIZED));
}
