// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What a job reads and writes, by file and process: `weigh io`.
 *
 * Attached to the entry and the exit of system calls while a job asks, which costs every call of
 * the machine; to io_uring's completions; to where pages come into the page cache and become
 * dirty, for what is done by mapped memory; and to the requests of block devices. All is added up
 * here. User space is told when a process is done with a file, and may look at any time.
 */
#include "io/membership.h"
#include "io/calls.h"
#include "io/uring.h"
#include "io/cache.h"
#include "io/device.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
