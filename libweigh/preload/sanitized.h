/*
 * Programs whose sanitizer's runtime wants to be the first library that is loaded: with another one before it
 * they end at once (AddressSanitizer), or go wrong. No library is put into them.
 *
 * Reads which libraries a program's file names (DT_NEEDED), and which ones LD_PRELOAD does. A runtime that is
 * linked statically needs nothing.
 */
#ifndef WEIGH_SANITIZED_H
#define WEIGH_SANITIZED_H

#include "raw.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What was read of a file. */
struct reading {
	int fd;
	uint64_t calls, bytes;
};

static inline long read_at(struct reading *reading, void *to, size_t size, uint64_t at)
{
	long got = RAW(pread64, reading->fd, to, size, at);

	reading->calls++;
	if (got > 0)
		reading->bytes += got;
	return got;
}

/* Whether a library of this name has to come first; it may end at a colon or a blank. */
static inline bool must_be_first(const char *name)
{
	static const char *const runtimes[] = {
		"libasan.so",	     "libtsan.so",	  "libhwasan.so",	 "liblsan.so",
		"libclang_rt.asan", "libclang_rt.tsan", "libclang_rt.hwasan", "libclang_rt.lsan",
	};

	for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
		if (!strncmp(name, runtimes[i], strlen(runtimes[i])))
			return true;
	return false;
}

/* Whether a list as LD_PRELOAD has it names one. */
static inline bool list_has_first(const char *list)
{
	const char *name = list;

	for (; *list; list++) {
		if (*list == '/' || *list == ':' || *list == ' ')
			name = list + 1;
		else if (list == name && must_be_first(name))
			return true;
	}
	return false;
}

static inline bool environment_has_first(char *const *given)
{
	for (; given && *given; given++)
		if (!strncmp(*given, "LD_PRELOAD=", 11) && list_has_first(*given + 11))
			return true;
	return false;
}

/* Where in the file lies what will be at an address; 0 where nothing does. */
static inline uint64_t offset_of(struct reading *reading, const Elf64_Ehdr *elf, uint64_t address)
{
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		Elf64_Phdr part;

		if (read_at(reading, &part, sizeof part, elf->e_phoff + (uint64_t)i * elf->e_phentsize) !=
		    sizeof part)
			return 0;
		if (part.p_type == PT_LOAD && address - part.p_vaddr < part.p_filesz)
			return part.p_offset + (address - part.p_vaddr);
	}
	return 0;
}

enum { ENTRIES_AT_A_TIME = 32, ENTRIES_AT_MOST = 1024 };

/* The value of an entry's tag from the `from`th one on, whose place `from` becomes; false at the end. */
static inline bool next_entry(struct reading *reading, const Elf64_Phdr *dynamic, int64_t tag,
			      unsigned *from, uint64_t *value)
{
	Elf64_Dyn entries[ENTRIES_AT_A_TIME];

	while (*from < ENTRIES_AT_MOST) {
		unsigned first = *from / ENTRIES_AT_A_TIME * ENTRIES_AT_A_TIME;
		uint64_t at = first * sizeof *entries;
		uint64_t left = at < dynamic->p_filesz ? dynamic->p_filesz - at : 0;
		long got = read_at(reading, entries, left < sizeof entries ? left : sizeof entries,
				   dynamic->p_offset + at);
		unsigned end = first + (got > 0 ? got / sizeof *entries : 0);

		if (*from >= end)
			return false;
		for (; *from < end; ++*from) {
			const Elf64_Dyn *entry = &entries[*from - first];
			if (entry->d_tag == DT_NULL)
				return false;
			if (entry->d_tag == tag) {
				*value = entry->d_un.d_val;
				return true;
			}
		}
	}
	return false;
}

/* Whether a program, of which this is the header and what its dynamic loader goes by, needs such a library. */
static inline bool needs_first(struct reading *reading, const Elf64_Ehdr *elf, const Elf64_Phdr *dynamic)
{
	char name[24];
	unsigned from = 0;
	uint64_t strings, at;

	if (!next_entry(reading, dynamic, DT_STRTAB, &from, &strings) ||
	    !(strings = offset_of(reading, elf, strings)))
		return false;
	for (from = 0; next_entry(reading, dynamic, DT_NEEDED, &from, &at); from++) {
		long got = read_at(reading, name, sizeof name - 1, strings + at);

		name[got > 0 ? got : 0] = 0;
		if (must_be_first(name))
			return true;
	}
	return false;
}

/* The same of a file that is about to be executed. */
static inline bool file_needs_first(int directory, const char *path)
{
	struct reading reading = { .fd = (int)RAW(openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) };
	Elf64_Phdr part = { .p_type = PT_NULL };
	Elf64_Ehdr elf;
	bool needs = false;

	if (reading.fd < 0)
		return false;
	if (read_at(&reading, &elf, sizeof elf, 0) == sizeof elf && !memcmp(elf.e_ident, ELFMAG, SELFMAG) &&
	    elf.e_ident[EI_CLASS] == ELFCLASS64)
		for (unsigned i = 0; i < elf.e_phnum && part.p_type != PT_DYNAMIC; i++)
			if (read_at(&reading, &part, sizeof part,
				    elf.e_phoff + (uint64_t)i * elf.e_phentsize) != sizeof part)
				break;
	if (part.p_type == PT_DYNAMIC)
		needs = needs_first(&reading, &elf, &part);
	RAW(close, reading.fd);
	return needs;
}

#endif
