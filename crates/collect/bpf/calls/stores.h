/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What threads of the job do between calls: stores to mapped memory. Where nobody tells where calls
 * begin and end, it is all that they do.
 */
#ifndef WEIGH_CALLS_STORES_H
#define WEIGH_CALLS_STORES_H

#include "pages.h"

/* Makes a thread's stores a cause; none if it is not of the job, or in a call. */
static __always_inline struct cell *stores_of(struct cause *cause, struct window *window)
{
	if (window->stage != STAGE_MEMBER || window->inside)
		return 0;
	return name_no_call(cause, STORES, bpf_get_current_task_btf());
}

/* The same for a call of which nobody told that it began. */
static __always_inline struct window *untold_call(struct cause *cause)
{
	struct window *window;

	if (follows_calls)
		return 0;
	window = window_of(bpf_get_current_task_btf());
	return window && stores_of(cause, window) ? window : 0;
}

#endif
