/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Accounts of calls that are bound to regions. A thread has one interval open at a time: while a region of the kind is
 * inside of another, the account is the inner one's.
 */
#include "region.h"
#include <errno.h>

/* "region", in the upper bytes of a token. */
#define TOKENS 0x726567696f6e0000ULL

static uint64_t wanted[PROFILE_NAMES_RECORDS];

uint64_t weigh_bound_token(uint64_t name)
{
	return TOKENS + name;
}

static void open_interval(struct region_thread *t, const struct open_call *call)
{
	uint64_t name = call->node[NODE_AT_NAME];

	weigh_begin(t->account, weigh_bound_token(name), wanted[name]);
}

/* The innermost call below this one that has an account. */
static struct open_call *bound_around(struct region_thread *t, struct open_call *call)
{
	while (call > t->open && !(call->special & IS_BOUND))
		call--;
	return call > t->open ? call : 0;
}

/* The call is not open yet. */
void weigh_bound_begin(struct region_thread *t, struct open_call *call)
{
	int before = errno;

	if (!t->account)
		t->account = weigh_open();
	if (bound_around(t, call - 1))
		weigh_end(t->account);
	call->node[NODE_AT_ACCOUNT] = weigh_bound_token(call->node[NODE_AT_NAME]) + 1;
	call->special |= IS_BOUND;
	open_interval(t, call);
	errno = before;
}

void weigh_bound_end(struct region_thread *t, struct open_call *call)
{
	struct open_call *around = bound_around(t, call - 1);
	int before = errno;

	weigh_end(t->account);
	if (around)
		open_interval(t, around);
	errno = before;
}

EXPORT int weigh_region_account(weigh_name name, uint64_t parts)
{
	enum weigh_reason reason;
	weigh *w;

	if (!weigh_regions_active || !weigh_profile_prepare())
		return WEIGH_NO_SERVER;
	if (weigh_name_checked(name) != name)
		return WEIGH_NO_TOKEN;
	w = weigh_open();
	reason = weigh_want(w, parts);
	if (!reason)
		reason = weigh_reason_now(w);
	weigh_names_lock();
	wanted[name] = parts;
	if (!weigh_name_flags[name])
		atomic_fetch_add(&weigh_regions.goes_long_way, 1);
	weigh_name_flags[name] |= NAME_BOUND;
	weigh_names_unlock();
	return (int)reason;
}
