/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names: given out once, and kept in private memory, so that the profile of a child has the same numbers.
 *
 * Finding takes no lock; giving out does.
 */
#include "region.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TABLE_ENTRIES (2 * PROFILE_NAMES_RECORDS)

struct own_name {
	uint64_t hash;
	uint32_t at, bytes, cut, profiled; /* the generation in whose profile it stands */
};

static struct names {
	_Atomic uint32_t table[TABLE_ENTRIES]; /* numbers; 0: none */
	struct own_name names[PROFILE_NAMES_RECORDS];
	uint8_t flags[PROFILE_NAMES_RECORDS];
	char texts[8 * PROFILE_TEXTS_RECORDS];
} *own;
static _Atomic uint32_t names_count;
static uint32_t texts_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guard locked; /* of the thread that has the lock */
uint8_t *weigh_name_flags;

void weigh_names_lock(void)
{
	struct guard guard;

	weigh_guard_begin(&guard);
	pthread_mutex_lock(&lock);
	locked = guard;
}

void weigh_names_unlock(void)
{
	struct guard guard = locked;

	pthread_mutex_unlock(&lock);
	weigh_guard_end(&guard);
}

/* Writes a text into the profile; its first word, or NO_NUMBER. The lock is held, or nobody else is there. */
uint64_t weigh_text_write(const char *text, uint64_t bytes)
{
	uint64_t *used = &weigh_regions.words[PROFILE_AT_USED + PROFILE_TEXTS], at = *used;

	if ((bytes + 7) / 8 > weigh_regions.records[PROFILE_TEXTS] - at)
		return NO_NUMBER;
	memcpy(weigh_regions.section[PROFILE_TEXTS] + at, text, bytes);
	store(used, at + (bytes + 7) / 8);
	return at;
}

static bool write_name(uint32_t number)
{
	struct own_name *name = &own->names[number];
	uint64_t *record, at;

	if (number >= weigh_regions.records[PROFILE_NAMES])
		return false;
	at = weigh_text_write(own->texts + name->at, name->bytes);
	if (at == NO_NUMBER)
		return false;
	record = weigh_regions.section[PROFILE_NAMES] + (uint64_t)number * NAME_LENGTH;
	record[NAME_AT_TEXT] = at;
	record[NAME_AT_CUT] = name->cut;
	store(&record[NAME_AT_BYTES], name->bytes);
	store(&weigh_regions.words[PROFILE_AT_USED + PROFILE_NAMES], number + 1);
	name->profiled = weigh_regions.generation;
	return true;
}

static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325;

	/* FNV-1a. */
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3;
	return hash ? hash : 1;
}

static uint32_t find(const char *text, size_t bytes, uint32_t cut, uint64_t hash)
{
	for (uint64_t i = hash;; i++) {
		uint32_t number = atomic_load_explicit(&own->table[i % TABLE_ENTRIES], memory_order_acquire);
		struct own_name *name = &own->names[number];

		if (!number)
			return 0;
		if (name->hash == hash && name->bytes == bytes && name->cut == cut &&
		    !memcmp(own->texts + name->at, text, bytes))
			return number;
	}
}

static void enter_table(uint32_t number, uint64_t hash)
{
	uint64_t i = hash;

	while (atomic_load_explicit(&own->table[i % TABLE_ENTRIES], memory_order_relaxed))
		i++;
	atomic_store_explicit(&own->table[i % TABLE_ENTRIES], number, memory_order_release);
}

/* Adds a name; 0 if there is no room. The lock is held, or nobody else is there. */
static uint32_t add_name(const char *text, size_t bytes, uint32_t cut, uint64_t hash)
{
	uint32_t number = atomic_load(&names_count);

	if (number >= PROFILE_NAMES_RECORDS || bytes > sizeof(own->texts) - texts_bytes)
		return 0;
	memcpy(own->texts + texts_bytes, text, bytes);
	own->names[number] =
		(struct own_name){ .hash = hash, .at = texts_bytes, .bytes = (uint32_t)bytes, .cut = cut };
	if (!write_name(number))
		return 0;
	texts_bytes += (uint32_t)bytes;
	atomic_store(&names_count, number + 1);
	weigh_control_name(number, own->texts + own->names[number].at, bytes);
	weigh_bound_name(number, own->texts + own->names[number].at, bytes);
	enter_table(number, hash);
	return number;
}

static bool make_names(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *memory = own ? own : mmap(0, sizeof(*own), PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	own = memory;
	weigh_name_flags = own->flags;
	return true;
}

/* Writes all names into a new profile. What found no room in it is (other). */
void weigh_names_rewrite(void)
{
	uint32_t count = atomic_load(&names_count);

	pthread_mutex_init(&lock, 0);
	if (!make_names())
		return;
	if (!count) {
		const char *other = PROFILE_OTHER_NAME;

		atomic_store(&names_count, OTHER_NAME);
		add_name(other, strlen(other), 0, hash_of(other, strlen(other)));
		return;
	}
	for (uint32_t i = OTHER_NAME; i < count; i++) {
		if (!write_name(i))
			profile_add(PROFILE_AT_NAMES_LOST, 1);
	}
}

/* A name as a node has it: (other) if the profile does not have it. */
uint64_t weigh_name_checked(uint64_t name)
{
	if (!name || name >= atomic_load_explicit(&names_count, memory_order_acquire))
		return OTHER_NAME;
	return own->names[name].profiled == weigh_regions.generation ? name : OTHER_NAME;
}

/* A name's text, which has no zero behind it; NULL behind the last. */
const char *weigh_name_text(uint64_t name, uint64_t *bytes)
{
	if (name >= atomic_load(&names_count))
		return 0;
	*bytes = own->names[name].bytes;
	return own->texts + own->names[name].at;
}

static uint32_t give_out(const char *text, size_t bytes, uint32_t cut, uint64_t hash)
{
	uint32_t number;

	weigh_names_lock();
	number = find(text, bytes, cut, hash);
	if (!number)
		number = add_name(text, bytes, cut, hash);
	weigh_names_unlock();
	if (number)
		return number;
	profile_add(PROFILE_AT_NAMES_LOST, 1);
	return OTHER_NAME;
}

EXPORT weigh_name weigh_region_name_of(const char *text, size_t length)
{
	size_t bytes = length > PROFILE_MOST_TEXT ? PROFILE_MOST_TEXT : length, cut = length - bytes;
	uint64_t hash;
	uint32_t number;
	int before = errno;

	if (!weigh_regions_active || !text || !weigh_profile_prepare() || !own)
		return 0;
	if (!bytes)
		return OTHER_NAME;
	hash = hash_of(text, bytes);
	number = find(text, bytes, (uint32_t)cut, hash);
	if (!number)
		number = give_out(text, bytes, (uint32_t)cut, hash);
	errno = before;
	return number;
}

EXPORT weigh_name weigh_region_name(const char *text)
{
	if (!weigh_regions_active || !text)
		return 0;
	return weigh_region_name_of(text, strlen(text));
}
