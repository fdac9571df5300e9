// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The kernel side of `weigh run`: one object, its parts in the headers beside it.
 *
 * Attached at tracepoints that fire when a process or thread begins, executes, ends, when memory
 * counters change, and where sockets and io_uring do their work. No system-call tracepoint, but
 * for limits of I/O, and of processes before 6.13: it slows every call of every process on the machine.
 */
#include "call_limits.h"
#include "cpu_waits.h"
#include "join.h"
#include "lifecycle.h"
#include "network.h"
#include "signals.h"
#include "uring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
