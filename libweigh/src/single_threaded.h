/*
 * Whether the process has one thread alone, as glibc says from 2.32 on. It is looked up: a library that asked the
 * loader for it would not be loaded by an older one. There nobody knows, and others are reckoned with.
 */
#ifndef WEIGH_SINGLE_THREADED_H
#define WEIGH_SINGLE_THREADED_H

#include <dlfcn.h>
#include <stdbool.h>

static const char has_other_threads;
static const char *single_threaded = &has_other_threads;

__attribute__((constructor(101))) static void find_single_threaded(void)
{
	const char *found = dlsym(RTLD_DEFAULT, "__libc_single_threaded");

	if (found)
		single_threaded = found;
}

static inline bool is_single_threaded(void)
{
	return *single_threaded;
}

#endif
