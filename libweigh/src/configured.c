/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the agent's configuration has made of the parts of the kernel: which it leaves out and why, the names of
 * those that it defines, and of their numbers.
 *
 * A program keeps the numbers of parts that it has found by name, and its accounts outlive the agent. So the
 * names that are found first stay: of an agent that has others the program sees no part of a configuration.
 */
#include "internal.h"
#include <string.h>
#include <unistd.h>

#define OWN_PARTS (WEIGH_SUBSYSTEMS - WEIGH_FIRST_OWN)
#define OWN_BITS (((1ULL << OWN_PARTS) - 1) << WEIGH_FIRST_OWN)

_Atomic uint64_t weigh_own_parts, weigh_hidden_parts;
static _Atomic uint64_t removed;

/* Names are written once in a process, before their parts are known. Of why something is not seen the lock is held. */
static struct weigh_configured known;
static struct weigh_configured fresh;

void weigh_forget_configured(void)
{
	memset(&known, 0, sizeof(known));
	memset(&fresh, 0, sizeof(fresh));
	atomic_store(&weigh_own_parts, 0);
	atomic_store(&weigh_hidden_parts, 0);
	atomic_store(&removed, 0);
}

static uint64_t named(const struct weigh_configured *configured)
{
	uint64_t parts = 0;

	for (unsigned part = WEIGH_FIRST_OWN; part < WEIGH_SUBSYSTEMS; part++)
		parts |= configured->parts[part].name[0] ? 1ULL << part : 0;
	return parts;
}

/* The server at a path from the environment may be anything: texts are ended, and numbers are held to parts that exist. */
static void make_sound(struct weigh_configured *configured)
{
	uint64_t parts;

	for (unsigned part = 0; part < WEIGH_SUBSYSTEMS; part++) {
		configured->parts[part].name[WEIGH_NAME_BYTES - 1] = 0;
		configured->parts[part].why[WEIGH_WHY_BYTES - 1] = 0;
	}
	parts = named(configured);
	for (unsigned number = 0; number < WEIGH_OWN_NUMBERS; number++) {
		WEIGH_U64 part = configured->numbers[number].part;

		configured->numbers[number].name[WEIGH_NAME_BYTES - 1] = 0;
		if (part >= WEIGH_SUBSYSTEMS || !(parts >> part & 1))
			configured->numbers[number].part = 0;
	}
	configured->removed &= (1ULL << WEIGH_FIRST_OWN) - 1;
}

static bool same_names(void)
{
	for (unsigned part = WEIGH_FIRST_OWN; part < WEIGH_SUBSYSTEMS; part++) {
		if (strcmp(known.parts[part].name, fresh.parts[part].name))
			return false;
	}
	for (unsigned number = 0; number < WEIGH_OWN_NUMBERS; number++) {
		if (known.numbers[number].part != fresh.numbers[number].part ||
		    known.numbers[number].is_ns != fresh.numbers[number].is_ns ||
		    strcmp(known.numbers[number].name, fresh.numbers[number].name))
			return false;
	}
	return true;
}

static bool ask(void)
{
	struct weigh_request request = { .layout = WEIGH_LAYOUT, .kind = WEIGH_ASK_CONFIGURED };
	struct weigh_reply reply;
	ssize_t length;
	int file;

	if (weigh_talk(&request, &reply, &file) || file < 0)
		return false;
	length = pread(file, &fresh, sizeof(fresh), 0);
	close(file);
	return length == sizeof(fresh);
}

/* Learns what the agent that has just been found says of it, if it says anything. The lock is held. */
void weigh_learn_parts(bool is_any)
{
	memset(&fresh, 0, sizeof(fresh));
	if (is_any && !ask())
		memset(&fresh, 0, sizeof(fresh));
	make_sound(&fresh);
	atomic_store(&removed, fresh.removed);
	if (!atomic_load(&weigh_own_parts)) {
		known = fresh;
		atomic_store(&weigh_own_parts, named(&known));
	}
	atomic_store(&weigh_hidden_parts, same_names() ? 0 : OWN_BITS);
}

/* Why a part is not there that nobody has attached, as far as the agent's configuration is why. */
enum weigh_reason weigh_why_configured(uint64_t part)
{
	if (atomic_load(&weigh_hidden_parts) & part)
		return WEIGH_OTHER_PARTS;
	return atomic_load(&removed) & part ? WEIGH_REMOVED : WEIGH_MEASURED;
}

static const char *const built_in[] = { WEIGH_PART_NAMES };

static const char *name_of(unsigned part)
{
	if (part < WEIGH_FIRST_OWN)
		return built_in[part];
	if (part < WEIGH_SUBSYSTEMS && atomic_load(&weigh_own_parts) >> part & 1)
		return known.parts[part].name;
	return 0;
}

EXPORT int weigh_part(const weigh *w, const char *name)
{
	(void)w;
	for (unsigned part = 0; part < WEIGH_SUBSYSTEMS; part++) {
		const char *found = name_of(part);

		if (found && !strcmp(found, name))
			return (int)part;
	}
	return -1;
}

EXPORT const char *weigh_part_name(const weigh *w, unsigned part)
{
	(void)w;
	return name_of(part);
}

EXPORT int weigh_own_number(const weigh *w, unsigned number, struct weigh_own_number *told)
{
	(void)w;
	if (number >= WEIGH_OWN_NUMBERS || !atomic_load(&weigh_own_parts) || !known.numbers[number].part)
		return 0;
	told->part = (uint32_t)known.numbers[number].part;
	told->is_ns = known.numbers[number].is_ns != 0;
	told->name = known.numbers[number].name;
	return 1;
}

EXPORT int weigh_own(const weigh *w, int part, const char *name)
{
	struct weigh_own_number told;

	for (unsigned number = 0; number < WEIGH_OWN_NUMBERS; number++) {
		if (weigh_own_number(w, number, &told) && (int)told.part == part && !strcmp(told.name, name))
			return (int)number;
	}
	return -1;
}

EXPORT size_t weigh_why_text(const weigh *w, unsigned part, char *text, size_t room)
{
	enum weigh_reason reason = weigh_why_part(w, part);
	bool is_told = (reason == WEIGH_REMOVED || reason == WEIGH_NOT_SEEN) && part < WEIGH_SUBSYSTEMS;
	char why[WEIGH_WHY_BYTES] = "";
	const char *said = why;
	size_t length, copied;

	if (!reason) {
		if (room)
			*text = 0;
		return 0;
	}
	if (is_told) {
		weigh_lock();
		memcpy(why, fresh.parts[part].why, sizeof(why));
		weigh_unlock();
	}
	if (!*said)
		said = weigh_text(reason);
	length = strlen(said);
	if (room) {
		copied = length < room ? length : room - 1;
		memcpy(text, said, copied);
		text[copied] = 0;
	}
	return length;
}
