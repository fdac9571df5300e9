/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that are executed: where this library is loaded before a program's own (LD_PRELOAD), it is left out of the
 * environment of those whose loader would complain of it, or whose sanitizer's runtime must come first. It is what the
 * library for calls does, with other loaders besides.
 */
#define WEIGH_CALLS_SHIM_H
#include "../preload/sanitized.h"
#include "tools.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>

#define WRAPPER TOOL
/* The function that the program would have called without the library. */
#define REAL(type, name, ...)                                                  \
	static type (*real_##name(void))(__VA_ARGS__)                          \
	{                                                                      \
		static type (*found)(__VA_ARGS__);                             \
		int kept = errno;                                              \
                                                                               \
		if (!found)                                                    \
			found = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name); \
		errno = kept;                                                  \
		return found;                                                  \
	}                                                                      \
	/* A child of vfork() must not look it up. */                          \
	__attribute__((constructor)) static void find_##name(void)             \
	{                                                                      \
		real_##name();                                                 \
	}

#if defined(__aarch64__)
static const char LOADER[] = "/lib/ld-linux-aarch64.so.1";
#else
static const char LOADER[] = "/lib64/ld-linux-x86-64.so.2";
#endif

/* Whether a dynamic program names another loader than that which this library is for. */
static bool has_other_loader(int directory, const char *path)
{
	struct reading reading = { .fd = (int)RAW(openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) };
	char name[sizeof LOADER];
	Elf64_Ehdr elf;
	Elf64_Phdr part;
	bool other = false;

	if (reading.fd < 0)
		return false;
	if (read_at(&reading, &elf, sizeof elf, 0) == sizeof elf && !memcmp(elf.e_ident, ELFMAG, SELFMAG)) {
		other = elf.e_ident[EI_CLASS] != ELFCLASS64;
		for (unsigned i = 0; !other && i < elf.e_phnum; i++) {
			if (read_at(&reading, &part, sizeof part, elf.e_phoff + (uint64_t)i * elf.e_phentsize) !=
			    sizeof part)
				break;
			if (part.p_type == PT_INTERP)
				other = read_at(&reading, name, sizeof name, part.p_offset) != sizeof name ||
					memcmp(name, LOADER, sizeof name);
		}
	}
	RAW(close, reading.fd);
	return other;
}

/* This library, as the loader was told. */
static const char *own_path(void)
{
	Dl_info about;

	return dladdr(LOADER, &about) ? about.dli_fname : NULL;
}

/* Others of weigh's may be beside this one: the variable has them all. */
static const char *own_libraries(void)
{
	const char *all = getenv(TOOLS_PRELOAD);

	return all ? all : own_path();
}
#define HAS_OWN_LIBRARIES

/* Where weigh has ended before the job. */
static bool is_gone(void)
{
	const char *path = own_path();

	return path && RAW(faccessat, AT_FDCWD, path, 4 /* R_OK */);
}

static bool must_be_without(int directory, const char *path)
{
	return is_gone() || file_needs_first(directory, path) || has_other_loader(directory, path);
}
#define file_needs_first must_be_without

#include "../calls/exec.c"
