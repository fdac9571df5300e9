/* See environment.h. */
#include "environment.h"

static const char LIBRARIES[] = "LD_PRELOAD=";
static const char PLACE[] = "WEIGH_PRELOAD=";

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

size_t environment_bytes(char *const *given)
{
	size_t pointers = 3, text = 0;

	for (; given && *given; given++, pointers++)
		if (starts_with(*given, LIBRARIES))
			text += strlen(*given);
	return pointers * sizeof(char *) + text + sizeof LIBRARIES + sizeof PLACE +
	       sizeof shared_head->library + sizeof shared_head->file + 32;
}

static char *append(char *at, const char *text, size_t length)
{
	memcpy(at, text, length);
	at[length] = 0;
	return at + length;
}

/* What stands in the shared file ends somewhere, whatever others write there. */
#define LENGTH(text) strnlen(text, sizeof(text) - 1)

/* The libraries of `list` but ours, each with a colon before it. */
static char *append_others(char *at, const char *list)
{
	size_t ours = LENGTH(shared_head->library);

	while (*list) {
		size_t part = strcspn(list, ": ");
		if (part && !(part == ours && !memcmp(list, shared_head->library, ours))) {
			at = append(at, ":", 1);
			at = append(at, list, part);
		}
		list += part;
		list += !!*list;
	}
	return at;
}

static char *append_number(char *at, uint32_t number)
{
	char digits[10];
	int n = 0;

	do
		digits[n++] = '0' + number % 10;
	while (number /= 10);
	while (n)
		*at++ = digits[--n];
	*at = 0;
	return at;
}

char **environment_of(char *const *given, const struct slot *slot, bool loads, void *room)
{
	size_t entries = 0;
	char **made = room, **next = made;
	const char *list = "";

	for (char *const *entry = given; entry && *entry; entry++)
		entries++;
	char *text = (char *)(made + entries + 3);
	for (char *const *entry = given; entry && *entry; entry++) {
		if (starts_with(*entry, LIBRARIES))
			list = *entry + strlen(LIBRARIES);
		else if (!starts_with(*entry, PLACE))
			*next++ = *entry;
	}
	char *libraries = text, *end = append(text, LIBRARIES, strlen(LIBRARIES));
	char *value = end;
	if (loads)
		end = append(end, shared_head->library, LENGTH(shared_head->library));
	end = append_others(end, list);
	if (!loads && *value == ':') /* the first one's colon */
		memmove(value, value + 1, strlen(value));
	if (*value)
		*next++ = libraries;
	if (loads) {
		char *place = *next++ = end + 1;
		end = append(place, PLACE, strlen(PLACE));
		end = append(end, shared_head->file, LENGTH(shared_head->file));
		end = append(end, ":", 1);
		end = append_number(end, slot ? index_of(slot) : SLOTS);
		end = append(end, ".", 1);
		append_number(end, slot ? generation_of(slot->life) : 0);
	}
	*next = NULL;
	return made;
}

/* A child by vfork leaves what it has made there for the next one: nobody else would give it back. */
static __thread struct room of_guests;

static struct room room_for(size_t bytes, bool guest)
{
	if (guest && bytes <= of_guests.bytes)
		return of_guests;
	struct room room = { borrow(bytes), bytes };
	if (guest && room.at) {
		bring_back(of_guests.at, of_guests.bytes);
		of_guests = room;
	}
	return room;
}

char *const *environment_for(char *const *given, const struct slot *slot, bool loads, struct room *room)
{
	bool guest = is_guest();
	struct room made = room_for(environment_bytes(given), guest);

	*room = guest ? (struct room){ 0 } : made;
	return made.at ? environment_of(given, slot, loads, made.at) : (char **)given;
}

void drop_environment(const struct room *room)
{
	bring_back(room->at, room->bytes);
}
