/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Numbers of each part of the kernel, on request: an element of the page for each account that wants them, as long as there
 * are some left. Which one it is stands behind the account, where the kernel side reads it.
 */
#include "internal.h"

/* Which elements are an account's. */
static uint64_t taken[MAX_PARTS / 64];

static struct weigh_parts *element_of(const struct weigh_account *account)
{
	uint64_t number = load(parts_element_of((struct weigh_account *)account));

	return number && number <= MAX_PARTS ? &weigh_process.page[FIRST_PARTS + number - 1].parts : 0;
}

static void clear(struct weigh_parts *parts)
{
	WEIGH_U64 *numbers = (WEIGH_U64 *)parts;

	for (size_t i = 0; i < sizeof(*parts) / sizeof(*numbers); i++)
		store(&numbers[i], 0);
}

/* The lock is held. */
static void take(struct weigh_account *account)
{
	for (uint32_t number = 0; number < MAX_PARTS; number++) {
		uint64_t bit = 1ULL << number % 64;

		if (taken[number / 64] & bit)
			continue;
		taken[number / 64] |= bit;
		clear(&weigh_process.page[FIRST_PARTS + number].parts);
		store(parts_element_of(account), number + 1);
		return;
	}
}

/* Whether an account has such numbers, which it may be given now. */
bool weigh_take_parts(struct weigh_account *account)
{
	if (load(parts_element_of(account)))
		return true;
	weigh_lock();
	if (!load(parts_element_of(account)))
		take(account);
	weigh_unlock();
	return load(parts_element_of(account));
}

/* The lock is held. */
void weigh_give_parts_back(struct weigh_account *account)
{
	uint64_t number = load(parts_element_of(account));

	if (!number || number > MAX_PARTS)
		return;
	store(parts_element_of(account), 0);
	taken[(number - 1) / 64] &= ~(1ULL << (number - 1) % 64);
}

void weigh_forget_parts(void)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		taken[i] = 0;
}

/* As they stand, into an agent's array. */
void weigh_carry_parts(union element *fresh)
{
	for (uint32_t number = 0; number < MAX_PARTS; number++)
		if (taken[number / 64] & 1ULL << number % 64)
			fresh[FIRST_PARTS + number] = weigh_process.page[FIRST_PARTS + number];
}

EXPORT const struct weigh_parts *weigh_read_parts(weigh *w, uint64_t token)
{
	const struct weigh_account *account = weigh_read(w, token);

	return account ? element_of(account) : 0;
}
