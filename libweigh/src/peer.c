/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Other processes' accounts: a copy that the agent renews. The kernel cannot map the array itself
 * for reading only.
 */
#include "internal.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_PEERS 64

struct weigh_peer {
	_Atomic(const union element *) page;
	pid_t pid;
};

static struct weigh_peer peers[MAX_PEERS];
/* In the place of a page that is being mapped. */
static const union element mapping;

static weigh_peer *free_peer(void)
{
	for (size_t i = 0; i < MAX_PEERS; i++) {
		const union element *none = 0;

		if (atomic_compare_exchange_strong(&peers[i].page, &none, &mapping))
			return &peers[i];
	}
	return 0;
}

static enum weigh_reason map(weigh_peer *peer, pid_t pid)
{
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_PEER,
		.number = (uint64_t)pid,
	};
	struct weigh_reply reply;
	enum weigh_reason reason;
	void *page = MAP_FAILED;
	int array;

	weigh_lock();
	reason = weigh_talk(&request, &reply, &array);
	if (!reason) {
		page = mmap(0, PAGE_BYTES, PROT_READ, MAP_SHARED, array, 0);
		close(array);
	}
	weigh_unlock();
	if (reason)
		return reason;
	if (page == MAP_FAILED)
		return WEIGH_NO_MEMORY;
	peer->pid = pid;
	atomic_store(&peer->page, page);
	return WEIGH_MEASURED;
}

EXPORT weigh_peer *weigh_peer_open(weigh *w, pid_t pid, enum weigh_reason *told)
{
	enum weigh_reason reason = weigh_reason_now(w);
	int kept = errno;
	weigh_peer *peer = 0;

	if (!reason) {
		weigh_end_next(w);
		peer = free_peer();
		reason = peer ? map(peer, pid) : WEIGH_TOO_MANY_PEERS;
	}
	if (peer && reason) {
		atomic_store(&peer->page, 0);
		peer = 0;
	}
	if (told)
		*told = reason;
	errno = kept;
	return peer;
}

EXPORT const struct weigh_account *weigh_peer_next(const weigh_peer *peer, uint32_t *position)
{
	const union element *page = atomic_load(&peer->page);

	while (*position < MAX_ACCOUNTS) {
		const struct weigh_account *account = &page[FIRST_ACCOUNT + (*position)++].account;

		if (load(&account->generation) % 2)
			return account;
	}
	return 0;
}

EXPORT const struct weigh_account *weigh_peer_read(const weigh_peer *peer, uint64_t token)
{
	const struct weigh_account *account;
	uint32_t position = 0;

	do {
		account = weigh_peer_next(peer, &position);
	} while (account && load(&account->token) != token);
	return account;
}

EXPORT void weigh_peer_close(weigh_peer *peer)
{
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_LEAVE,
		.number = (uint64_t)peer->pid,
	};
	const union element *page = atomic_exchange(&peer->page, &mapping);
	struct weigh_reply reply;
	int kept = errno, with;

	if (page && page != &mapping) {
		munmap((void *)page, PAGE_BYTES);
		if (is_ours()) {
			weigh_lock();
			weigh_talk(&request, &reply, &with);
			weigh_unlock();
		}
	}
	atomic_store(&peer->page, 0);
	errno = kept;
}
