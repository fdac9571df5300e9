/*
 * The function that a program would have called without the library.
 *
 * Reads the loader's list of libraries and their tables of names (DT_GNU_HASH). Takes no lock, allocates nothing, and
 * touches no thread storage: dlsym(3) waits while another thread loads a library, loses what dlerror(3) was to tell, and
 * breaks its lock where two processes share memory and thread storage (CLONE_VM). It is asked only for what none of the
 * libraries has that were there at the start.
 */
#include "shim.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>

/* The loader's: without a version, and with no need of the loader's name. */
#pragma weak _r_debug

enum { ADDRESS_BITS = 8 * sizeof(ElfW(Addr)), VERSION_IS_HIDDEN = 0x8000 };

struct library {
	const uint32_t *hash_table;
	const ElfW(Sym) *symbols;
	const char *names;
	const ElfW(Versym) *versions;
};

/* What stands behind is loaded later, and may be unloaded. */
static struct link_map *_Atomic last_at_start;

static struct link_map *own_library(void)
{
	struct link_map *map = &_r_debug ? _r_debug.r_map : NULL;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	return map;
}

__attribute__((constructor(101))) static void find_last_library(void)
{
	struct link_map *map = own_library();

	while (map && map->l_next)
		map = map->l_next;
	last_at_start = map;
}

/* The loader has put addresses in place of offsets, except where it may not write. */
static const void *address_of(const struct link_map *map, ElfW(Addr) told)
{
	return (const void *)(told < map->l_addr ? map->l_addr + told : told);
}

static struct library read_library(const struct link_map *map)
{
	struct library library = { 0 };

	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *address = address_of(map, entry->d_un.d_ptr);

		if (entry->d_tag == DT_GNU_HASH)
			library.hash_table = address;
		else if (entry->d_tag == DT_SYMTAB)
			library.symbols = address;
		else if (entry->d_tag == DT_STRTAB)
			library.names = address;
		else if (entry->d_tag == DT_VERSYM)
			library.versions = address;
	}
	return library;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Whether a symbol is what a caller gets that names no version. */
static bool is_default(const struct library *library, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &library->symbols[index];

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       !(library->versions && library->versions[index] & VERSION_IS_HIDDEN) &&
	       !strcmp(library->names + symbol->st_name, name);
}

static const ElfW(Sym) *symbol_of(const struct library *library, const char *name, uint32_t hash)
{
	const uint32_t *table = library->hash_table;
	uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
	const ElfW(Addr) *filter = (const ElfW(Addr) *)(table + 4);
	const uint32_t *bucket = (const uint32_t *)(filter + words), *chain = bucket + buckets;
	ElfW(Addr) word = filter[hash / ADDRESS_BITS % words];

	if (!(word >> hash % ADDRESS_BITS & word >> (hash >> shift) % ADDRESS_BITS & 1))
		return NULL;
	uint32_t index = bucket[hash % buckets];
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t found = chain[index - first];

		if ((found | 1) == (hash | 1) && is_default(library, index, name))
			return &library->symbols[index];
		if (found & 1)
			return NULL;
	}
}

/* A null pointer where only the loader knows: an old library's table, or an address that is chosen by code. */
static void *find_next(const char *name)
{
	if (!last_at_start)
		find_last_library();
	const struct link_map *map = last_at_start ? own_library() : NULL;
	uint32_t hash = hash_of(name);

	while (map && map != last_at_start) {
		map = map->l_next;
		struct library library = read_library(map);
		if (!library.hash_table)
			return NULL;
		const ElfW(Sym) *symbol = symbol_of(&library, name, hash);
		if (!symbol)
			continue;
		bool is_plain = ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC;
		return is_plain ? (void *)(map->l_addr + symbol->st_value) : NULL;
	}
	return NULL;
}

void *next_function(const char *name)
{
	void *found = find_next(name);

	if (found)
		return found;
	int before = errno;
	found = dlsym(RTLD_NEXT, name);
	errno = before;
	return found;
}
