/*
 * What a descriptor is, as far as bytes over the network are concerned: known without a system
 * call for all but the first use of it.
 */
#ifndef WEIGH_DESCRIPTORS_H
#define WEIGH_DESCRIPTORS_H

#include "shim.h"

enum kind { UNKNOWN, OTHER, DATAGRAMS, STREAM, CONNECTING };
enum { KINDS = 65536 };

extern uint8_t kinds[KINDS];

/* Asks the kernel. */
enum kind learn(int fd);
/* Bytes went over an Internet socket. */
void moved_slowly(int fd, ssize_t bytes, bool sent);
/* A connection that was begun stands. */
void connected(int fd);

static inline enum kind kind_of(int fd)
{
	enum kind kind = (unsigned)fd < KINDS ? kinds[fd] : UNKNOWN;

	return kind ? kind : learn(fd);
}

static inline void set_kind(int fd, enum kind kind)
{
	if ((unsigned)fd < KINDS)
		kinds[fd] = kind;
}

static inline void moved(int fd, ssize_t bytes, bool sent)
{
	if (bytes > 0 && !((unsigned)fd < KINDS && LIKELY(kinds[fd] == OTHER)))
		moved_slowly(fd, bytes, sent);
}

#endif
