/*
 * The environment that a new program gets: with the library in it, whatever the program that
 * executes it took out; on the stack of whoever asks, for nothing may be allocated.
 */
#ifndef WEIGH_ENVIRONMENT_H
#define WEIGH_ENVIRONMENT_H

#include "shim.h"

/* Bytes that environment_of() needs. */
size_t environment_bytes(char *const *given);

/* `given` with the two variables for `slot`, or, unless the library can be loaded, without. */
char **environment_of(char *const *given, const struct slot *slot, bool loads, void *room);

#define ENVIRONMENT(given, slot, loads) \
	environment_of(given, slot, loads, __builtin_alloca(environment_bytes(given)))

#endif
