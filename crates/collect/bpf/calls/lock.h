/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Contended locks: whoever finds a lock taken, until it has it.
 */
#ifndef WEIGH_CALLS_LOCK_H
#define WEIGH_CALLS_LOCK_H

#include "account.h"

SEC("?tp_btf/contention_begin")
int BPF_PROG(lock__begin)
{
	enter(WEIGH_LOCK);
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(lock__end)
{
	leave(WEIGH_LOCK);
	return 0;
}

#endif
