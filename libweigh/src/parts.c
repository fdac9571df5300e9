/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Parts of the kernel: which the program wants to be seen, and which of those that were wanted were not.
 *
 * A program that says nothing is taken to want what its requests have wanted so far: the first of them
 * that wants a part waits until it is attached.
 */
#include "internal.h"
#include <errno.h>
#include <unistd.h>

static uint64_t attached(enum weigh_reason reason)
{
	return reason ? 0 : load(&page_head()->attached) & SHOWN;
}

/* Notes in an account what it lacks. */
void weigh_lack(struct weigh_account *account, uint64_t lacking)
{
	if (lacking & ~load(&account->unmeasured))
		__atomic_fetch_or(&account->unmeasured, lacking, __ATOMIC_RELAXED);
}

/* The same of what it wanted and did not get. */
void weigh_check_parts(struct weigh_account *account, uint64_t wanted, enum weigh_reason reason)
{
	weigh_lack(account, wanted & KNOWN & ~attached(reason));
}

/* Notes with an account what an interval of it is to account: what is not in it may be 0 for that alone. */
void weigh_note_wanted(struct weigh_account *account, uint64_t wanted)
{
	WEIGH_U64 *place = wanted_of(account);

	if (wanted & KNOWN & ~load(place))
		__atomic_fetch_or(place, wanted & KNOWN, __ATOMIC_RELAXED);
}

/* Whether anybody has measured anything of it. */
bool weigh_is_measured(struct weigh_account *account)
{
	return load(&account->touched) || load(wanted_of(account)) & ~load(&account->unmeasured);
}

static enum weigh_reason say(uint64_t parts)
{
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_WANT,
		.value = parts,
	};
	struct weigh_reply reply;
	enum weigh_reason reason;
	int with;

	reason = weigh_talk(&request, &reply, &with);
	/* Not before: until then other threads wait. Whatever has become of it, it is not asked again. */
	atomic_store(&weigh_process.wants, parts);
	return reason;
}

/* Asks for what a request wants, unless the program has said what it wants. Whether that took time. */
bool weigh_need_parts(uint64_t wanted, enum weigh_reason reason)
{
	struct process *process = &weigh_process;
	uint64_t parts;
	int kept = errno;

	if (reason || atomic_load(&process->has_said))
		return false;
	wanted &= load(&page_head()->available) & SHOWN;
	if (!(wanted & ~atomic_load(&process->wants)))
		return false;
	weigh_lock();
	parts = atomic_load(&process->wants);
	if (wanted & ~parts)
		say(parts | wanted);
	weigh_unlock();
	errno = kept;
	return true;
}

EXPORT enum weigh_reason weigh_want(weigh *w, uint64_t parts)
{
	enum weigh_reason reason = weigh_reason_now(w);
	int kept = errno;

	if (weigh_cannot_count(reason))
		return reason;
	weigh_end_next(w);
	weigh_lock();
	atomic_store(&weigh_process.has_said, true);
	if (reason)
		/* A later server of the program is told then. */
		atomic_store(&weigh_process.wants, parts);
	else
		reason = say(parts);
	weigh_unlock();
	errno = kept;
	return reason;
}

EXPORT uint64_t weigh_subsystems(const weigh *w)
{
	return weigh_reason_now(w) ? 0 : load(&page_head()->available) & SHOWN;
}

EXPORT enum weigh_reason weigh_why_part(const weigh *w, unsigned subsystem)
{
	enum weigh_reason reason = weigh_reason_now(w);
	uint64_t part = subsystem < 64 ? 1ULL << subsystem & KNOWN : 0;

	if (reason || attached(reason) & part)
		return reason;
	if (load(&page_head()->available) & part & SHOWN)
		return WEIGH_NOT_WANTED;
	reason = weigh_why_configured(part);
	if (reason)
		return reason;
	return part & WEIGH_COUNTERS ? WEIGH_NO_COUNTER : WEIGH_NOT_SEEN;
}
