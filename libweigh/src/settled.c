/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What comes after the calls: whether all of it has come, and being told when it has.
 */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The agent looks so often at first, in milliseconds. */
#define OFTEN 20

EXPORT int weigh_settled(weigh *w, uint64_t token)
{
	struct weigh_account *account;

	if (!is_ours())
		return -1;
	weigh_end_next(w);
	account = weigh_find(token);
	return account && weigh_is_measured(account) ? !load(&account->later.pending) : -1;
}

/* Takes the descriptor that came, in the place of the one that there was. */
static void take_told_by(int descriptor)
{
	struct process *process = &weigh_process;
	bool is_there = process->told_by >= 0 &&
			weigh_identity(process->told_by) == process->told_identity;

	if (descriptor < 0)
		return;
	if (is_there) {
		dup3(descriptor, process->told_by, O_CLOEXEC);
		close(descriptor);
	} else {
		process->told_by = descriptor;
	}
	process->told_identity = weigh_identity(process->told_by);
}

/* The lock is held. */
enum weigh_reason weigh_ask_to_be_told(void)
{
	struct weigh_request request = { .layout = WEIGH_LAYOUT, .kind = WEIGH_ASK_WATCH };
	struct weigh_reply reply;
	int with;
	enum weigh_reason reason = weigh_talk(&request, &reply, &with);

	take_told_by(with);
	return reason;
}

static enum weigh_reason want_to_be_told(void)
{
	enum weigh_reason reason;
	int kept = errno;

	weigh_lock();
	reason = weigh_ask_to_be_told();
	weigh_unlock();
	errno = kept;
	return reason;
}

/* The agent looks soon for what the page says is watched. */
enum weigh_reason weigh_be_told(void)
{
	if (__atomic_load_n(&page_head()->looked, __ATOMIC_SEQ_CST) == OFTEN)
		return WEIGH_MEASURED;
	return want_to_be_told();
}

/* Makes the descriptor unreadable. */
void weigh_hear(void)
{
	uint64_t count;

	weigh_lock();
	/* It does not wait: the agent has made it so. */
	if (weigh_process.told_by >= 0 &&
	    weigh_identity(weigh_process.told_by) == weigh_process.told_identity &&
	    read(weigh_process.told_by, &count, sizeof(count)) < 0)
		count = 0;
	weigh_unlock();
}

EXPORT enum weigh_reason weigh_watch(weigh *w, uint64_t token)
{
	enum weigh_reason reason = weigh_reason_now(w);
	struct weigh_account *account;
	struct page_head *head;
	uint32_t number;

	if (reason)
		return reason;
	weigh_end_next(w);
	account = weigh_find(token);
	if (!account)
		return WEIGH_NO_TOKEN;
	number = (uint32_t)((union element *)account - weigh_process.page) - FIRST_ACCOUNT;
	head = page_head();
	__atomic_fetch_or(&head->watched[number / 64], 1ULL << number % 64, __ATOMIC_SEQ_CST);
	return weigh_be_told();
}

EXPORT int weigh_descriptor(weigh *w)
{
	if (weigh_reason_now(w))
		return -1;
	if (weigh_process.told_by < 0 && want_to_be_told())
		return -1;
	return weigh_process.told_by;
}

EXPORT int weigh_dispatch(weigh *w,
			  void (*settled)(uint64_t token, const struct weigh_account *account,
					  void *data),
			  void *data)
{
	int kept = errno, told = 0;
	uint64_t token;

	if (!is_ours())
		return 0;
	weigh_end_next(w);
	weigh_hear();
	for (uint32_t word = 0; word < ACCOUNT_WORDS; word++) {
		WEIGH_U64 *place = &page_head()->settled[word];
		WEIGH_U64 bits = load(place) ? __atomic_exchange_n(place, 0, __ATOMIC_SEQ_CST) : 0;

		for (; bits; bits &= bits - 1) {
			uint32_t number = word * 64 + (uint32_t)__builtin_ctzll(bits);

			if (!weigh_token_of(number, &token))
				continue;
			settled(token, account_numbered(number), data);
			told++;
		}
	}
	errno = kept;
	return told;
}
