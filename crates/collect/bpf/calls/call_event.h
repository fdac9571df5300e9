/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * One call as it is told to user space. An account has room for whatever a call may do, and nearly
 * every call does little of it: of the structure's numbers those are sent that are not 0, and which
 * those are.
 */
#ifndef WEIGH_CALLS_TOLD_H
#define WEIGH_CALLS_TOLD_H

#include "contention.h"

struct call_record {
	__u32 pid, tid;
	__u64 sequence, number, result;
	__u64 began, ended; /* nanoseconds of the monotonic clock */
	__u64 of[2];
	__u64 interval, token; /* of libweigh, that the call is in; 0: none */
	struct rival rivals[RIVAL_KINDS];
	struct weigh_account account;
};

#define NUMBER_OF(field) (__builtin_offsetof(struct call_record, field) / sizeof(__u64))
#define CALL_NUMBERS (sizeof(struct call_record) / sizeof(__u64))
#define TOLD_HEAD NUMBER_OF(account)
#define GIVEN_WORDS ((CALL_NUMBERS + 63) / 64)

/*
 * A call on its way. Its numbers go on into the account that follows it in a window: those of an
 * account move to places before their own.
 */
struct telling {
	__u64 given[GIVEN_WORDS]; /* bit set of the numbers of struct call_record that follow */
	__u64 numbers[TOLD_HEAD];
};

const volatile struct call_record call_record_layout;

#endif
