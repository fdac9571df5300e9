/*
 * What a descriptor is, as far as bytes over the network are concerned: known without a system
 * call for all but the first use of it.
 */
#ifndef WEIGH_DESCRIPTORS_H
#define WEIGH_DESCRIPTORS_H

#include "shim.h"

enum kind { UNKNOWN, OTHER, DATAGRAMS, STREAM, CONNECTING };
/* Those of the first descriptors are in the library's own page; there is more for more. */
enum { FIRST = 512, KINDS = 65536 };

extern uint8_t first_kinds[FIRST];

/* What is known of any descriptor. */
enum kind kind_known(int fd);
/* For one that is not among the first. */
void set_later_kind(int fd, enum kind kind);
/* Asks the kernel. */
enum kind learn(int fd);
/* Bytes went over an Internet socket. */
void moved_slowly(int fd, ssize_t bytes, bool sent);
/* A connection that was begun stands. */
void connected(int fd);

static inline enum kind kind_of(int fd)
{
	enum kind kind = kind_known(fd);

	return kind ? kind : learn(fd);
}

static inline void set_kind(int fd, enum kind kind)
{
	if (LIKELY((unsigned)fd < FIRST))
		first_kinds[fd] = kind;
	else
		set_later_kind(fd, kind);
}

static inline void moved(int fd, ssize_t bytes, bool sent)
{
	if (bytes > 0 && !((unsigned)fd < FIRST && LIKELY(first_kinds[fd] == OTHER)))
		moved_slowly(fd, bytes, sent);
}

#endif
