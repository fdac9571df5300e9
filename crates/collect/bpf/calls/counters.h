/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counters of the CPU, of calls: each CPU counts whatever runs on it, and what a call's thread did there is
 * the difference from where it came to where it left. To read one costs microseconds in a virtual machine;
 * nothing of this is in programs that were loaded without.
 */
#ifndef WEIGH_CALLS_COUNTERS_H
#define WEIGH_CALLS_COUNTERS_H

const volatile __u64 counts; /* bit set of the counters that there are */

/* An event for each CPU, of one group: put there by user space while somebody wants them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} count_cycles SEC(".maps"), count_instructions SEC(".maps");

struct counting {
	__u64 wanted; /* of the open call */
	__u64 running; /* of these, those that have been read where the thread is now */
	__u32 cpu;
	__u32 of_interval; /* of libweigh: what each part has of it, and no more */
	__u64 cycles, instructions;
	__u64 enabled_ns, counted_ns; /* how long there was an event, and it had a counter of the CPU */
};

static __always_inline bool read_counter(struct counting *now, void *map, __u64 bit, __u64 *count)
{
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(map, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return false;
	now->running |= bit;
	now->enabled_ns = value.enabled;
	now->counted_ns = value.running;
	*count = value.counter;
	return true;
}

#define READ_CYCLES(now)                                                                           \
	read_counter(now, &count_cycles, 1ULL << WEIGH_CYCLES, &(now)->cycles)
#define READ_INSTRUCTIONS(now)                                                                     \
	read_counter(now, &count_instructions, 1ULL << WEIGH_INSTRUCTIONS, &(now)->instructions)

/* The thread has come to a CPU in a call whose counters are wanted. */
static __always_inline void resume_counting(struct counting *counting)
{
	__u64 wanted;

	if (!counts || !counting->wanted)
		return;
	wanted = counting->wanted & counts;
	counting->running = 0;
	counting->cpu = bpf_get_smp_processor_id();
	/* Cycles last, and first when it ends: reading the other is not in them. */
	if (wanted & (1ULL << WEIGH_INSTRUCTIONS))
		READ_INSTRUCTIONS(counting);
	if (wanted & (1ULL << WEIGH_CYCLES))
		READ_CYCLES(counting);
}

/*
 * What the CPU has counted since is the account's and, if that is asked for, the part's. It goes on from here. The head of an
 * account of an interval the program itself fills in.
 */
static __always_inline void take_counts(struct counting *counting, struct weigh_account *account,
					struct weigh_by_part *part)
{
	__u64 running = counting->running, more;
	struct counting now = {};

	counting->running = 0;
	/* It came here unseen: what it did where it was before is not known. */
	if (counting->cpu != bpf_get_smp_processor_id())
		return;
	if (running & (1ULL << WEIGH_CYCLES) && READ_CYCLES(&now)) {
		more = now.cycles - counting->cycles;
		counting->cycles = now.cycles;
		if (!counting->of_interval)
			__sync_fetch_and_add(&account->cycles, more);
		if (part)
			__sync_fetch_and_add(&part->cycles, more);
	}
	if (running & (1ULL << WEIGH_INSTRUCTIONS) && READ_INSTRUCTIONS(&now)) {
		more = now.instructions - counting->instructions;
		counting->instructions = now.instructions;
		if (!counting->of_interval)
			__sync_fetch_and_add(&account->instructions, more);
		if (part)
			__sync_fetch_and_add(&part->instructions, more);
	}
	if (!now.running)
		return;
	counting->running = now.running;
	if (!counting->of_interval) {
		__sync_fetch_and_add(&account->counting_ns, now.enabled_ns - counting->enabled_ns);
		__sync_fetch_and_add(&account->counted_ns, now.counted_ns - counting->counted_ns);
		if (now.running & ~account->touched)
			__sync_fetch_and_or(&account->touched, now.running);
	}
	counting->enabled_ns = now.enabled_ns;
	counting->counted_ns = now.counted_ns;
}

/* It leaves the CPU, or the call is over. */
static __always_inline void pause_counting(struct counting *counting, struct weigh_account *account,
					   struct weigh_by_part *part)
{
	if (!counts || !counting->running)
		return;
	take_counts(counting, account, part);
	counting->running = 0;
}

static __always_inline void start_counting(struct counting *counting, __u64 wanted)
{
	if (!counts)
		return;
	counting->wanted = wanted & counts;
	counting->of_interval = 0;
	/* An interval ends unseen. */
	counting->running = 0;
	resume_counting(counting);
}

static __always_inline void forget_counting(struct counting *counting)
{
	counting->wanted = 0;
	counting->running = 0;
}

static __always_inline void stop_counting(struct counting *counting, struct weigh_account *account,
					  struct weigh_by_part *part)
{
	if (!counts)
		return;
	pause_counting(counting, account, part);
	counting->wanted = 0;
}

#endif
