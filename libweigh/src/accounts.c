/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which account is whose: a table of tokens, in the order of the accounts, by open addressing. Finding
 * takes no lock; taking and giving back do.
 *
 * The generation of an account is odd while it is a token's. What the kernel side has kept of an older
 * generation is not charged to the next.
 */
#include "internal.h"

enum place { PLACE_FREE, PLACE_TAKEN, PLACE_LEFT };

static _Atomic uint32_t places[MAX_ACCOUNTS];
static uint64_t tokens[MAX_ACCOUNTS];
/* Whether there has ever been an account: until then nothing is in the page. */
static bool has_begun;

static uint32_t first_place(uint64_t token)
{
	return (uint32_t)(token * 0x9E3779B97F4A7C15ULL >> 32) % MAX_ACCOUNTS;
}

static uint32_t find(uint64_t token)
{
	uint32_t place, number = first_place(token);

	for (uint32_t i = 0; i < MAX_ACCOUNTS; i++) {
		place = atomic_load_explicit(&places[number], memory_order_acquire);
		if (place == PLACE_FREE)
			break;
		if (place == PLACE_TAKEN && load(&tokens[number]) == token)
			return number;
		number = (number + 1) % MAX_ACCOUNTS;
	}
	return MAX_ACCOUNTS;
}

void weigh_forget_accounts(void)
{
	for (uint32_t i = 0; i < MAX_ACCOUNTS; i++)
		atomic_store(&places[i], PLACE_FREE);
	weigh_forget_parts();
	weigh_forget_limits();
	has_begun = false;
}

/* The lock is held. */
bool weigh_has_had_accounts(void)
{
	return has_begun;
}

struct weigh_account *weigh_find(uint64_t token)
{
	uint32_t number = find(token);

	return number < MAX_ACCOUNTS ? account_numbered(number) : 0;
}

bool weigh_token_of(uint32_t number, uint64_t *token)
{
	*token = load(&tokens[number]);
	return atomic_load(&places[number]) == PLACE_TAKEN;
}

static uint32_t take(uint64_t token)
{
	uint32_t number = find(token), first = first_place(token);

	for (uint32_t i = 0; number == MAX_ACCOUNTS && i < MAX_ACCOUNTS; i++) {
		uint32_t tried = (first + i) % MAX_ACCOUNTS;

		if (atomic_load(&places[tried]) != PLACE_TAKEN)
			number = tried;
	}
	if (number == MAX_ACCOUNTS || atomic_load(&places[number]) == PLACE_TAKEN)
		return number;
	has_begun = true;
	account_numbered(number)->token = token;
	store(&account_numbered(number)->generation, account_numbered(number)->generation + 1);
	store(&tokens[number], token);
	atomic_store(&places[number], PLACE_TAKEN);
	return number;
}

/* The account of a token, which may be new. NULL if there is none left. */
struct weigh_account *weigh_take(uint64_t token)
{
	uint32_t number = find(token);

	if (number == MAX_ACCOUNTS) {
		weigh_lock();
		number = take(token);
		weigh_unlock();
	}
	if (number < MAX_ACCOUNTS)
		return account_numbered(number);
	add(&page_head()->refused, 1);
	return 0;
}

static void clear(struct weigh_account *account)
{
	WEIGH_U64 *numbers = (WEIGH_U64 *)account;
	WEIGH_U64 generation = account->generation;

	store(&account->generation, generation + 1);
	store(wanted_of(account), 0);
	for (size_t i = 0; i < sizeof(*account) / sizeof(*numbers); i++) {
		if (&numbers[i] != &account->generation)
			store(&numbers[i], 0);
	}
}

static void give_back(uint32_t number)
{
	struct page_head *head = page_head();
	WEIGH_U64 bit = 1ULL << number % 64;

	__atomic_fetch_and(&head->watched[number / 64], ~bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&head->settled[number / 64], ~bit, __ATOMIC_SEQ_CST);
	weigh_forget_limits_of(tokens[number]);
	atomic_store(&places[number], PLACE_LEFT);
	weigh_give_parts_back(account_numbered(number));
	clear(account_numbered(number));
	/* At the end of a row nothing lies behind the places that were left: they are free. */
	if (atomic_load(&places[(number + 1) % MAX_ACCOUNTS]) != PLACE_FREE)
		return;
	while (atomic_load(&places[number]) == PLACE_LEFT) {
		atomic_store(&places[number], PLACE_FREE);
		number = (number + MAX_ACCOUNTS - 1) % MAX_ACCOUNTS;
	}
}

EXPORT enum weigh_reason weigh_release(weigh *w, uint64_t token)
{
	enum weigh_reason reason = weigh_reason_now(w);
	uint32_t number;

	if (weigh_cannot_count(reason))
		return reason;
	weigh_end_next(w);
	weigh_lock();
	number = find(token);
	if (number < MAX_ACCOUNTS)
		give_back(number);
	weigh_unlock();
	return number < MAX_ACCOUNTS ? reason : WEIGH_NO_TOKEN;
}

EXPORT const struct weigh_account *weigh_read(weigh *w, uint64_t token)
{
	if (!is_ours())
		return 0;
	weigh_end_next(w);
	return weigh_find(token);
}

EXPORT uint64_t weigh_refused(const weigh *w)
{
	(void)w;
	return is_ours() ? load(&page_head()->refused) : 0;
}
