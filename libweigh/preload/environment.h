/*
 * The environment that a new program gets: with the library in it, whatever the program that
 * executes it took out. It may be large, and the stack small: it has memory of its own.
 */
#ifndef WEIGH_ENVIRONMENT_H
#define WEIGH_ENVIRONMENT_H

#include "shim.h"

/* Memory that an environment was made in. */
struct room {
	void *at;
	size_t bytes;
};

/*
 * `given` with the two variables for `slot`, or, unless the library can be loaded, without; just as it is where
 * there is no memory. What comes back is good until drop_environment().
 */
char *const *environment_for(char *const *given, const struct slot *slot, bool loads, struct room *room);
void drop_environment(const struct room *room);

/* Behind a filter of system calls none is made for it: it is on the stack. */
size_t environment_bytes(char *const *given);
char **environment_of(char *const *given, const struct slot *slot, bool loads, void *at);
#define FILTERED_ENVIRONMENT(given) \
	environment_of(given, NULL, false, __builtin_alloca(environment_bytes(given)))
#pragma GCC diagnostic ignored "-Walloca"

#endif
