/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all conventions share: which libweigh they call, open regions by thread, names. See tools.h. */
#include "tools.h"

#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

struct tools_api tools_api;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Regions that a thread has open. Deeper ones end without their name. */
enum { DEPTH = 256 };
struct stack {
	uint32_t depth, beyond;
	struct {
		const void *owner;
		weigh_name name;
	} open[DEPTH];
};
static __thread struct stack *own_stack;

/* The functions of the program's libweigh, if it has all of them. */
static bool find_in_program(struct tools_api *api)
{
	bool all = (api->active = dlsym(RTLD_DEFAULT, "weigh_regions_active"));
#define FIND(type, name, ...) all = (api->name = (type (*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name)) && all;
	TOOLS_FUNCTIONS(FIND)
#undef FIND
	return all;
}

#ifdef WEIGH_WITH_REGIONS
static void take_own(struct tools_api *api)
{
	api->active = &weigh_regions_active;
#define TAKE(type, name, ...) api->name = name;
	TOOLS_FUNCTIONS(TAKE)
#undef TAKE
}
#else
/* That of the library of all conventions, beside which this one is loaded. */
static void take_own(struct tools_api *api)
{
	const struct tools_api *(*of_tools)(void) = dlsym(RTLD_DEFAULT, TOOLS_API);
	const struct tools_api *found = of_tools ? of_tools() : NULL;

	*api = found ? *found : (struct tools_api){ 0 };
}
#endif

static void free_stack(void *stack)
{
	own_stack = NULL;
	free(stack);
}

static void begin(void)
{
	struct tools_api api;

	has_key = !pthread_key_create(&key, free_stack);
	if (!find_in_program(&api))
		take_own(&api);
	tools_api = api;
}

#ifdef WEIGH_WITH_REGIONS
/* A function of its own since glibc 2.33; the linker leads libweigh's calls here (--wrap). */
int __wrap_fstat(int descriptor, struct stat *about);
int __wrap_fstat(int descriptor, struct stat *about)
{
	return (int)syscall(SYS_fstat, descriptor, about);
}

TOOL const struct tools_api *libweigh_tools_api(void);
TOOL const struct tools_api *libweigh_tools_api(void)
{
	return pthread_once(&once, begin) ? NULL : &tools_api;
}

/* For who calls by number: functions of Python. */
TOOL weigh_name libweigh_tools_name(const char *text);
TOOL weigh_name libweigh_tools_name(const char *text)
{
	return tools_listen("python") ? tools_api.weigh_region_name(text) : 0;
}

TOOL void libweigh_tools_begin(weigh_name name);
TOOL void libweigh_tools_begin(weigh_name name)
{
	if (name && tools_active())
		tools_api.weigh_region_begin(name);
}

TOOL void libweigh_tools_end(weigh_name name);
TOOL void libweigh_tools_end(weigh_name name)
{
	if (name && tools_active())
		tools_api.weigh_region_end(name);
}
#endif

bool tools_asked_for(const char *convention)
{
	const char *list = getenv(TOOLS_VARIABLE);
	size_t length = strlen(convention);

	for (; list && *list; list += *list == ',') {
		size_t part = strcspn(list, ",");
		if (part == length && !memcmp(list, convention, length))
			return true;
		list += part;
	}
	return !getenv(TOOLS_VARIABLE);
}

bool tools_listen(const char *convention)
{
	int kept = errno;
	bool listens = tools_asked_for(convention) && !pthread_once(&once, begin) && tools_active();

	errno = kept;
	return listens;
}

static struct stack *stack_of_thread(void)
{
	int kept = errno;

	if (!own_stack && has_key && (own_stack = calloc(1, sizeof *own_stack)))
		pthread_setspecific(key, own_stack);
	errno = kept;
	return own_stack;
}

void tools_begin(const void *owner, weigh_name name)
{
	struct stack *stack = stack_of_thread();

	if (stack && stack->depth < DEPTH && !stack->beyond) {
		stack->open[stack->depth].owner = owner;
		stack->open[stack->depth++].name = name;
	} else if (stack) {
		stack->beyond++;
	}
	tools_api.weigh_region_begin(name);
}

/* The innermost one of `owner` is taken out; 0 if there is none. */
static weigh_name take_innermost(struct stack *stack, const void *owner)
{
	uint32_t at = stack->depth;

	while (at && stack->open[at - 1].owner != owner)
		at--;
	if (!at)
		return 0;
	weigh_name name = stack->open[at - 1].name;
	memmove(&stack->open[at - 1], &stack->open[at], (stack->depth - at) * sizeof *stack->open);
	stack->depth--;
	return name;
}

void tools_end(const void *owner, const char *orphan)
{
	struct stack *stack = stack_of_thread();

	if (stack && stack->beyond) {
		stack->beyond--;
		tools_api.weigh_region_end(0);
		return;
	}
	weigh_name name = stack ? take_innermost(stack, owner) : 0;
	tools_api.weigh_region_end(name ? name : tools_api.weigh_region_name(orphan));
}

/* Domains that Python's packages have where a program names none. */
static bool is_default(const char *domain)
{
	return !strcmp(domain, "NVTX") || !strcmp(domain, "ittapi");
}

weigh_name tools_name_in(const char *domain, const char *text)
{
	char joined[512];

	if (!text)
		text = "(no name)";
	if (!domain || !*domain || is_default(domain))
		return tools_api.weigh_region_name(text);
	size_t before = strnlen(domain, 255), after = strnlen(text, sizeof joined - before - 1);
	memcpy(joined, domain, before);
	joined[before] = ':';
	memcpy(joined + before + 1, text, after);
	return tools_api.weigh_region_name_of(joined, before + 1 + after);
}

struct search {
	const char *part, *name;
	void *found;
};

static int look_in(struct dl_phdr_info *about, size_t size, void *to)
{
	struct search *search = to;

	(void)size;
	if (!about->dlpi_name || !strstr(about->dlpi_name, search->part))
		return 0;
	void *library = dlopen(about->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!library)
		return 0;
	search->found = dlsym(library, search->name);
	dlclose(library);
	return !!search->found;
}

void *tools_find_in(const char *part, const char *name)
{
	struct search search = { part, name, NULL };

	dl_iterate_phdr(look_in, &search);
	return search.found;
}

const char *tools_narrow(char *to, size_t bytes, const void *wide)
{
	const wchar_t *from = wide;
	size_t at = 0;

	for (; from && *from && at + 4 < bytes; from++) {
		uint32_t c = (uint32_t)*from;
		if (c < 0x80) {
			to[at++] = (char)c;
		} else if (c < 0x800) {
			to[at++] = (char)(0xc0 | c >> 6);
			to[at++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) {
			to[at++] = (char)(0xe0 | c >> 12);
			to[at++] = (char)(0x80 | (c >> 6 & 0x3f));
			to[at++] = (char)(0x80 | (c & 0x3f));
		} else {
			to[at++] = (char)(0xf0 | (c >> 18 & 7));
			to[at++] = (char)(0x80 | (c >> 12 & 0x3f));
			to[at++] = (char)(0x80 | (c >> 6 & 0x3f));
			to[at++] = (char)(0x80 | (c & 0x3f));
		}
	}
	to[at] = 0;
	return to;
}
