/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Says on the page what is to be accounted, and to which account.
 */
#include "internal.h"

static void ask(struct weigh *w, struct weigh_account *account, uint64_t wanted, uint32_t calls,
		uint64_t now)
{
	struct slot *slot = slot_of(w);
	uint64_t number = (uint64_t)((union element *)account - weigh_process.page) - FIRST_ACCOUNT;

	w->running++;
	w->account = account;
	w->wanted = wanted;
	store(&slot->wanted, wanted & SHOWN);
	store(&slot->calls, calls);
	w->began = now;
	store(&slot->request, (number + 1) | (uint64_t)w->running << 32);
}

/* Stops accounting; what the kernel side does not count itself is added up. */
static void stop(struct weigh *w, uint32_t calls, enum weigh_reason reason)
{
	struct weigh_account *account = w->account;

	store(&slot_of(w)->request, 0);
	w->account = 0;
	w->next_calls = 0;
	/* Whether an interval's counters were counted is known here. */
	weigh_check_parts(account, w->wanted & ~WEIGH_COUNTERS, reason);
	if (calls) {
		add(&account->time_ns, clock_now() - w->began);
		add(&account->calls, calls);
	}
	if (w->counting)
		weigh_count_to(w, account);
}

/* Ends what weigh_next() began, unless the kernel side has done so or is to do it. */
void weigh_end_next(struct weigh *w)
{
	struct slot *slot;

	if (!w->account || !w->next_calls)
		return;
	slot = slot_of(w);
	if (!load(&slot->calls))
		/* Either it was an interval, or the calls have been made. */
		stop(w, load(&slot->request) ? w->next_calls : 0, weigh_reason_now(w));
}

static enum weigh_reason begin(struct weigh *w, uint64_t token, uint64_t wanted, uint32_t calls)
{
	struct weigh_account *account;
	enum weigh_reason reason;
	bool followed;
	uint64_t now;

	reason = weigh_reason_now(w);
	if (weigh_cannot_count(reason))
		return reason;
	if (atomic_load_explicit(&w->reason, memory_order_relaxed) == WEIGH_NO_SLOT)
		return WEIGH_NO_SLOT;
	weigh_end_next(w);
	if (w->account && !w->next_calls)
		return WEIGH_BUSY;
	/* Calls that were asked for and not made. */
	if (w->account)
		stop(w, 0, reason);
	account = weigh_take(token);
	if (!account)
		return WEIGH_NO_ACCOUNT;
	now = clock_now();
	if (now >= atomic_load_explicit(&weigh_process.look_at, memory_order_relaxed)) {
		weigh_look_after(now);
		reason = weigh_reason_now(w);
		now = clock_now();
	}
	/* What is attached for somebody else is wanted here too: it goes when nobody has said so. */
	if (wanted & KNOWN & ~atomic_load_explicit(&weigh_process.wants, memory_order_relaxed) &&
	    weigh_need_parts(wanted, reason))
		now = clock_now();
	followed = calls && !reason && weigh_process.follows_calls;
	weigh_note_wanted(account, wanted);
	if (wanted & WEIGH_BY_PART && !weigh_take_parts(account)) {
		weigh_lack(account, WEIGH_BY_PART);
		wanted &= ~WEIGH_BY_PART;
	}
	weigh_check_parts(account, followed ? wanted : wanted & ~WEIGH_COUNTERS, reason);
	w->next_calls = calls;
	if (wanted & WEIGH_COUNTERS && !followed) {
		weigh_count_from(w, account, wanted & WEIGH_COUNTERS);
		now = clock_now();
	}
	ask(w, account, wanted, followed ? calls : 0, now);
	return reason;
}

EXPORT enum weigh_reason weigh_begin(weigh *w, uint64_t token, uint64_t wanted)
{
	return begin(w, token, wanted, 0);
}

EXPORT enum weigh_reason weigh_next_n(weigh *w, uint64_t token, uint64_t wanted, uint32_t calls)
{
	return begin(w, token, wanted, calls ? calls : 1);
}

EXPORT enum weigh_reason weigh_next(weigh *w, uint64_t token, uint64_t wanted)
{
	return begin(w, token, wanted, 1);
}

EXPORT enum weigh_reason weigh_end(weigh *w)
{
	enum weigh_reason reason = weigh_reason_now(w);

	if (weigh_cannot_count(reason))
		return reason;
	if (!w->account || w->next_calls) {
		weigh_end_next(w);
		return WEIGH_NOT_OPEN;
	}
	stop(w, 1, reason);
	return reason;
}
