/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The rank of a process in the head of its profile, where the profile is that of the libweigh inside of this library. */
#include "tools.h"
#include "../src/region.h"

void tools_set_rank(uint64_t rank)
{
	if (tools_api.active == &weigh_regions_active && has_profile())
		__atomic_store_n(&weigh_regions.words[PROFILE_AT_RANK], rank + 1, __ATOMIC_RELEASE);
}
