/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What calls do, as far as they are about files.
 */
#ifndef WEIGH_IO_CALL_KINDS_H
#define WEIGH_IO_CALL_KINDS_H

/* What a call does, by its number. */
enum io_call {
	CALL_NONE,
	CALL_READ,
	CALL_WRITE,
	CALL_PREAD,
	CALL_PWRITE,
	CALL_READV,
	CALL_WRITEV,
	CALL_PREADV,
	CALL_PWRITEV,
	CALL_RECEIVE,
	CALL_SEND,
	CALL_RECEIVE_MANY,
	CALL_SEND_MANY,
	CALL_SENDFILE,
	CALL_SPLICE,
	CALL_TEE,
	CALL_VMSPLICE,
	CALL_COPY_RANGE,
	CALL_OPEN,
	CALL_OPENAT,
	CALL_OPENAT2,
	CALL_CREAT,
	CALL_CLOSE,
	CALL_SEEK,
	CALL_SYNC,
	CALL_TRUNCATE,
	CALL_METADATA, /* by descriptor */
	CALL_STATAT, /* by descriptor with an empty path, else by path */
	CALL_PATH,
	CALL_MMAP,
	CALL_AIO_SUBMIT,
	CALL_AIO_EVENTS,
	CALL_URING, /* the requests are told where they complete */
	CALL_FREE, /* of interest only because it may free space of a file system */
	CALL_FREES = 64, /* besides: it may free space of a file system; see frees.h */
	CALL_SHORT = 128, /* besides: what has this number in 32-bit programs is about files */
};

#endif
