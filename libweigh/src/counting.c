/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counters of the CPU, of an interval: events of the thread itself, which the agent opens, for the program
 * has not the rights, and which are read here, where the interval begins and ends. So they have all that the
 * thread does on a CPU, in the program and in the kernel. Those of the next call the kernel side counts.
 */
#include "internal.h"
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PERF_EVENT_IOC_ID of <linux/perf_event.h>, which not every system has. */
#define EVENT_ID _IOR('$', 7, uint64_t *)

/* What the first of a group gives. */
struct group {
	uint64_t events, enabled_ns, running_ns, counts[WEIGH_MAX_DESCRIPTORS];
};

/* A number that only this event has; 0 if it is none: the program may have another file there by now. */
static uint64_t event_id(int descriptor)
{
	uint64_t id = 0;

	return descriptor >= 0 && !ioctl(descriptor, EVENT_ID, &id) ? id : 0;
}

void weigh_forget_counters(struct weigh *w)
{
	for (size_t i = 0; i < WEIGH_MAX_DESCRIPTORS; i++) {
		if (w->event_ids[i] && event_id(w->events[i]) == w->event_ids[i])
			close(w->events[i]);
		w->event_ids[i] = 0;
	}
	w->counters = 0;
	w->counters_asked = 0;
}

/* Has the agent open them. Once: what it refuses it would refuse again. */
static void ask_for(struct weigh *w, uint64_t counters)
{
	struct weigh_request request = {
		.layout = WEIGH_LAYOUT,
		.kind = WEIGH_ASK_COUNT,
		.number = (uint64_t)w->tid,
		.value = counters,
	};
	struct weigh_reply reply;

	weigh_lock();
	weigh_forget_counters(w);
	w->counters_asked = counters;
	if (!weigh_talk_for(&request, &reply, w->events, WEIGH_MAX_DESCRIPTORS))
		w->counters = reply.value & WEIGH_COUNTERS;
	for (size_t i = 0; i < WEIGH_MAX_DESCRIPTORS; i++)
		w->event_ids[i] = event_id(w->events[i]);
	weigh_unlock();
}

/* Not by read(), where a thread may be cancelled. */
static bool read_group(const struct weigh *w, struct group *group)
{
	size_t length = 3 * sizeof(uint64_t) +
			(size_t)__builtin_popcountll(w->counters) * sizeof(uint64_t);

	if (!w->counters || event_id(w->events[0]) != w->event_ids[0])
		return false;
	return syscall(SYS_read, w->events[0], group, sizeof(*group)) == (long)length;
}

static void lack(struct weigh_account *account, uint64_t counters)
{
	if (counters & ~account->unmeasured)
		__atomic_fetch_or(&account->unmeasured, counters, __ATOMIC_RELAXED);
}

/* An interval that wants them begins. */
void weigh_count_from(struct weigh *w, struct weigh_account *account, uint64_t wanted)
{
	struct process *process = &weigh_process;
	uint64_t may = wanted & load(&page_head()->available);
	struct group group;
	int kept = errno;

	w->counting = 0;
	if (atomic_load(&process->has_said))
		may &= atomic_load(&process->wants);
	if (may & ~w->counters_asked)
		ask_for(w, may | w->counters_asked);
	if (read_group(w, &group)) {
		w->counting = may & w->counters;
		w->enabled_ns = group.enabled_ns;
		w->running_ns = group.running_ns;
		for (size_t i = 0; i < WEIGH_MAX_DESCRIPTORS; i++)
			w->counts[i] = group.counts[i];
	}
	lack(account, wanted & ~w->counting);
	errno = kept;
}

/* It ends. */
void weigh_count_to(struct weigh *w, struct weigh_account *account)
{
	uint64_t *of[] = { &account->cycles, &account->instructions };
	uint64_t counting = w->counting, present = w->counters;
	struct group group;
	int kept = errno;
	size_t place = 0;

	w->counting = 0;
	if (!read_group(w, &group)) {
		lack(account, counting);
		errno = kept;
		return;
	}
	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		uint64_t bit = 1ULL << (WEIGH_FIRST_COUNTER + i);

		if (counting & bit)
			add(of[i], group.counts[place] - w->counts[place]);
		place += !!(present & bit);
	}
	add(&account->counting_ns, group.enabled_ns - w->enabled_ns);
	add(&account->counted_ns, group.running_ns - w->running_ns);
	__atomic_fetch_or(&account->touched, counting, __ATOMIC_RELAXED);
	errno = kept;
}
