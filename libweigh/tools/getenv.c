/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * getenv(), where Kokkos asks which tool it is to load.
 *
 * Kokkos to 3.6 reads $KOKKOS_PROFILE_LIBRARY alone. From 3.7 on it reads $KOKKOS_TOOLS_LIBS, and prints a warning where the
 * older variable is set, whatever it says. So weigh sets the newer one alone, and a Kokkos that knows no other gets it by the
 * older name: one without the newer name among the constants of its library. Built without dlopen() Kokkos warns of the newer
 * variable, too, and gets none. All other names go to the C library's own function.
 */
#include "tools.h"

#include <link.h>
#include <stdlib.h>

static const char OLDER[] = "KOKKOS_PROFILE_LIBRARY", NEWER[] = "KOKKOS_TOOLS_LIBS";
static const char CANNOT_LOAD[] = "ignored because kokkos-tools is disabled";

/* Texts of one source lie so near. */
enum { NEAR = 64 << 10 };

/* The constants among which a text is: a segment that nobody writes. */
struct constants {
	const char *text, *begin, *end;
};

static int find_constants(struct dl_phdr_info *about, size_t size, void *to)
{
	struct constants *found = to;

	(void)size;
	for (unsigned i = 0; i < about->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &about->dlpi_phdr[i];
		const char *begin = (const char *)about->dlpi_addr + part->p_vaddr;
		if (part->p_type != PT_LOAD || part->p_flags & PF_W || !(part->p_flags & PF_R))
			continue;
		if (found->text < begin || found->text >= begin + part->p_filesz)
			continue;
		found->begin = begin;
		found->end = begin + part->p_filesz;
		return 1;
	}
	return 0;
}

static bool has_text(const struct constants *all, size_t reach, const char *text)
{
	const char *begin = (size_t)(all->text - all->begin) > reach ? all->text - reach : all->begin;
	const char *end = (size_t)(all->end - all->text) > reach ? all->text + reach : all->end;

	return memmem(begin, (size_t)(end - begin), text, strlen(text));
}

/* Whether weigh has set it, and for whom it can: a user's own tool stays. */
static bool is_own(const char *value)
{
	Dl_info about;

	return value && tools_asked_for("kokkos") && dladdr(OLDER, &about) && about.dli_fname && !strcmp(value, about.dli_fname);
}

static char *answer_kokkos(const char *name, char *value)
{
	bool is_older = !strcmp(name, OLDER);
	char *newer = is_older ? secure_getenv(NEWER) : value;
	struct constants all = { .text = name };

	if ((is_older && value) || !is_own(newer) || !dl_iterate_phdr(find_constants, &all))
		return value;
	if (is_older)
		return has_text(&all, NEAR, NEWER) || has_text(&all, SIZE_MAX, NEWER) ? value : newer;
	return has_text(&all, NEAR, CANNOT_LOAD) ? NULL : value;
}

/* Programs with more rights than their user, for which secure_getenv() is another function, do not have this library. */
TOOL char *getenv(const char *name)
{
	char *value = secure_getenv(name);

	if (*name != 'K' || (strcmp(name, OLDER) && strcmp(name, NEWER)))
		return value;
	int kept = errno;
	value = answer_kokkos(name, value);
	errno = kept;
	return value;
}
