/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The calls of the C library that take a program's arguments one by one, by those that take an array. What includes it
 * has `execve` and `execvpe`, and says by WRAPPER how they are exported.
 */
#ifndef WEIGH_EXEC_LIST_H
#define WEIGH_EXEC_LIST_H

#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

/* The arguments up to the null pointer, in an array on the stack: the C library does so, too. */
#pragma GCC diagnostic ignored "-Walloca"
#define ARGUMENTS(first)                                                       \
	va_list list;                                                          \
	size_t count = 1;                                                      \
	va_start(list, first);                                                 \
	while (va_arg(list, char *))                                           \
		count++;                                                       \
	va_end(list);                                                          \
	char **argv = __builtin_alloca((count + 1) * sizeof *argv);            \
	argv[0] = (char *)first;                                               \
	va_start(list, first);                                                 \
	for (size_t i = 1; i <= count; i++)                                    \
		argv[i] = va_arg(list, char *)

WRAPPER int execl(const char *path, const char *first, ...)
{
	ARGUMENTS(first);
	va_end(list);
	return execve(path, argv, environ);
}

WRAPPER int execlp(const char *file, const char *first, ...)
{
	ARGUMENTS(first);
	va_end(list);
	return execvpe(file, argv, environ);
}

WRAPPER int execle(const char *path, const char *first, ...)
{
	ARGUMENTS(first);
	char *const *envp = va_arg(list, char *const *);
	va_end(list);
	return execve(path, argv, envp);
}

#endif
