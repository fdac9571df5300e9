// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What calls cost in each part of the kernel: `weigh calls`, and accounts of libweigh.
 *
 * Each program is named SUBSYSTEM__EVENT: user space loads those of the subsystems that are asked
 * for, and attaches them only while somebody asks. Those named `member__` hold the job's threads
 * together, those named `call__` bound system calls, where no library does.
 */
#include "calls/call.h"
#include "calls/membership.h"
#include "calls/wakers.h"
#include "calls/sched.h"
#include "calls/irq.h"
#include "calls/lock.h"
#include "calls/memory.h"
#include "calls/file.h"
#include "calls/dirty.h"
#include "calls/writeback.h"
#include "calls/journal.h"
#include "calls/fuse.h"
#include "calls/block.h"
#include "calls/network.h"
#include "calls/segments.h"
#include "calls/sockets.h"
#include "calls/qdisc.h"
#include "calls/deferred.h"
#include "calls/custom_subsystem.h"
#include "calls/look.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
