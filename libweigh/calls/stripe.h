/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef WEIGH_CALLS_STRIPE_H
#define WEIGH_CALLS_STRIPE_H

#include "shim.h"

/* Maps the file that is shared with weigh. */
bool map_file(const char *path);
bool has_file(void);

void count(unsigned call, uint64_t time, bool failed, uint64_t bytes, bool is_split);
void count_moved(unsigned call, uint64_t sent, uint64_t received, uint64_t messages);

#endif
