/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Limits on numbers of accounts: the agent compares, and makes a descriptor readable when one is passed.
 *
 * The agent sees the page alone; which limit is whose is known here. What the agent says is passed is checked against
 * the account, for it may be of a limit that was given back meanwhile.
 */
#include "internal.h"
#include <errno.h>
#include <unistd.h>

/* With the lock held. */
static struct limit {
	uint64_t token, value;
	size_t number; /* in bytes */
	bool is_used;
} limits[LIMITS];

void weigh_forget_limits(void)
{
	for (uint32_t i = 0; i < LIMITS; i++)
		limits[i].is_used = false;
}

static void take_back(uint32_t limit)
{
	struct page_head *head = page_head();

	__atomic_store_n(&head->limited[limit], 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&head->passed, ~(1ULL << limit), __ATOMIC_SEQ_CST);
	limits[limit].is_used = false;
}

/* The lock is held: the account is given back. */
void weigh_forget_limits_of(uint64_t token)
{
	for (uint32_t i = 0; i < LIMITS; i++) {
		if (limits[i].is_used && limits[i].token == token)
			take_back(i);
	}
}

/* The one of this number, or a free one; LIMITS if there is none. */
static uint32_t find(uint64_t token, size_t number, bool or_free)
{
	uint32_t found = LIMITS;

	for (uint32_t i = 0; i < LIMITS; i++) {
		if (limits[i].is_used && limits[i].token == token && limits[i].number == number)
			return i;
		if (or_free && !limits[i].is_used && found == LIMITS)
			found = i;
	}
	return found;
}

static void arm(uint32_t limit, uint32_t account)
{
	struct page_head *head = page_head();

	/* A reader that sees the account sees what is to be compared. */
	__atomic_store_n(&head->limit_at[limit], limits[limit].number / 8, __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->limit_value[limit], limits[limit].value, __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->limited[limit], (uint64_t)account + 1, __ATOMIC_SEQ_CST);
}

static enum weigh_reason set(uint64_t token, size_t number, uint64_t value, uint32_t account)
{
	uint32_t limit = find(token, number, true);

	if (limit == LIMITS)
		return WEIGH_TOO_MANY_LIMITS;
	take_back(limit);
	limits[limit] = (struct limit){ token, value, number, true };
	arm(limit, account);
	return WEIGH_MEASURED;
}

static uint32_t number_of(const struct weigh_account *account)
{
	return (uint32_t)((const union element *)account - weigh_process.page) - FIRST_ACCOUNT;
}

/* Another agent has come: it is told what the one before knew. The lock is held. */
void weigh_renew_limits(void)
{
	bool has_any = false;

	for (uint32_t i = 0; i < LIMITS; i++) {
		const struct weigh_account *account = limits[i].is_used ? weigh_find(limits[i].token) : 0;

		if (account)
			arm(i, number_of(account));
		has_any = has_any || account;
	}
	if (has_any)
		weigh_ask_to_be_told();
}

EXPORT enum weigh_reason weigh_limit(weigh *w, uint64_t token, size_t number, uint64_t value)
{
	enum weigh_reason reason = weigh_reason_now(w);
	struct weigh_account *account;

	if (reason)
		return reason;
	if (number % 8 || number >= sizeof(*account) || !value)
		return WEIGH_NO_NUMBER;
	weigh_end_next(w);
	account = weigh_find(token);
	if (!account)
		return WEIGH_NO_TOKEN;
	weigh_lock();
	reason = set(token, number, value, number_of(account));
	weigh_unlock();
	return reason ? reason : weigh_be_told();
}

EXPORT void weigh_unlimit(weigh *w, uint64_t token, size_t number)
{
	uint32_t limit;

	(void)w;
	if (!is_ours())
		return;
	weigh_lock();
	limit = find(token, number, false);
	if (limit < LIMITS)
		take_back(limit);
	weigh_unlock();
}

/* Whether a limit that the agent says is passed is one, and is; then it is none any more. The lock is held. */
static bool take_passed(uint32_t limit, struct weigh_passed *passed)
{
	struct weigh_account *account;
	uint64_t reached;

	if (!limits[limit].is_used)
		return false;
	account = weigh_find(limits[limit].token);
	if (!account)
		return false;
	reached = load((WEIGH_U64 *)((char *)account + limits[limit].number));
	if (reached < limits[limit].value) {
		arm(limit, number_of(account));
		return false;
	}
	*passed = (struct weigh_passed){ limits[limit].token, limits[limit].number, limits[limit].value, reached };
	take_back(limit);
	return true;
}

EXPORT int weigh_passed(weigh *w, struct weigh_passed *passed, int room)
{
	int kept = errno, told = 0;
	uint64_t bits, rest;

	if (!is_ours() || room <= 0)
		return 0;
	weigh_end_next(w);
	weigh_hear();
	weigh_lock();
	bits = __atomic_exchange_n(&page_head()->passed, 0, __ATOMIC_SEQ_CST);
	for (rest = bits; rest && told < room; rest &= rest - 1) {
		uint32_t limit = (uint32_t)__builtin_ctzll(rest);

		if (limit < LIMITS && take_passed(limit, &passed[told]))
			told++;
	}
	/* What has found no room is told the next time. */
	if (rest)
		__atomic_fetch_or(&page_head()->passed, rest, __ATOMIC_SEQ_CST);
	weigh_unlock();
	errno = kept;
	return told;
}
