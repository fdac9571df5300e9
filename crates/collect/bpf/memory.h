/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The memory that a job holds, followed at the kernel's own counter updates.
 *
 * It is kept by address space, not by thread: exec and vfork move threads between them. A value
 * is put in place with an exchange, and the difference to what stood there goes into the job's
 * sum, so that updates on several CPUs at once always add up to the values that stand.
 */
#ifndef WEIGH_MEMORY_H
#define WEIGH_MEMORY_H

#include "job.h"
#include "limits.h"

/*
 * Where each CPU's share of a spread variable lies, relative to the pointer that stands for all
 * of them. No symbol that every kernel offers to BPF tells; the address of a per-CPU array's
 * element, less the array's own spread pointer, does.
 */
#define MAX_CPUS 4096

__u64 cpu_offsets[MAX_CPUS];
__u64 element_address;
__u32 map_id_to_find; /* that of `scratches`, set once it is known */

SEC("iter/bpf_map")
int find_cpu_offsets(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_array *array = (struct bpf_array *)ctx->map;
	__u64 spread = 0;

	if (!array || BPF_CORE_READ(array, map.id) != map_id_to_find)
		return 0;
	bpf_probe_read_kernel(&spread, sizeof(spread),
			      (void *)array + bpf_core_field_offset(struct bpf_array, pptrs));
	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++) {
		__u32 first = 0;
		void *element;

		if (cpu >= cpus)
			break;
		element = bpf_map_lookup_percpu_elem(&scratches, &first, cpu);
		if (!element)
			continue;
		/* Through memory: the verifier lets no one count with a pointer. */
		*(void *volatile *)&element_address = element;
		cpu_offsets[cpu] = *(volatile __u64 *)&element_address - spread;
	}
	return 0;
}

/* Values seen last, so that an update that changed nothing visible costs a few loads. */
#define RECENT_SLOTS 256

struct recent {
	__u64 mm;
	__s64 counts[NR_MM_COUNTERS];
	__u64 padding[3];
};

struct recent recents[RECENT_SLOTS];

static __always_inline struct recent *recent_of(__u64 mm)
{
	return &recents[(mm >> 6 ^ mm >> 14) % RECENT_SLOTS];
}

/* The part of a spread counter that is still with the CPUs. */
__s64 with_cpus(__u64 counters)
{
	__s64 total = 0;

	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++) {
		__s32 share = 0;

		if (cpu >= cpus || !cpu_offsets[cpu])
			break;
		bpf_probe_read_kernel(&share, sizeof(share), (void *)(counters + cpu_offsets[cpu]));
		total += share;
	}
	return total;
}

#define MEMBER_CASES(DO) DO(MM_FILEPAGES) DO(MM_ANONPAGES) DO(MM_SWAPENTS) DO(MM_SHMEMPAGES)

/* The counter as it stands, without what is with the CPUs. A switch: BTF wants fixed offsets. */
static __always_inline __s64 plain_count(struct mm_struct *mm, int which)
{
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		__s64 count = 0;

		/* The verifier does not let these be read as what BTF says they are. */
		bpf_probe_read_kernel(&count, sizeof(count),
				      (void *)mm +
					      bpf_core_field_offset(struct mm_struct___before_6_2,
								    rss_stat.count) +
					      which * sizeof(count));
		return count;
	} else {
		struct mm_struct___since_6_2 *new = (void *)mm;

		switch (which) {
#define NEW_COUNT(which)                                                                           \
	case which:                                                                                \
		return new->rss_stat[which].count;
			MEMBER_CASES(NEW_COUNT)
		}
	}
	return 0;
}

static __always_inline __s64 exact_count(struct mm_struct *mm, int which)
{
	__s64 total = plain_count(mm, which);

	if (!bpf_core_type_exists(struct mm_rss_stat)) {
		struct mm_struct___since_6_2 *new = (void *)mm;

		switch (which) {
#define NEW_SHARE(which)                                                                           \
	case which:                                                                                \
		total += with_cpus((__u64)BPF_CORE_READ(new, rss_stat[which].counters));           \
		break;
			MEMBER_CASES(NEW_SHARE)
		}
	}
	return total > 0 ? total : 0;
}

/* Puts a new value in place; what changed goes into the job's sum, which is returned. */
static __always_inline __s64 replace(__s64 *place, __s64 *sum, __s64 value)
{
	__s64 change;

	if (*(volatile __s64 *)place == value)
		return *(volatile __s64 *)sum;
	change = value - exchange(place, value);

	return change ? (__s64)atomic_add(sum, change) + change : *(volatile __s64 *)sum;
}

#define PEAK_STEP_BYTES (256 << 10)
#define PEAK_QUIET_NS 2000000ull
#define UNCERTAIN_BYTES (512 << 10)

/*
 * Tell user space of a peak that is noticeably higher than the one it knows. It is woken only
 * where pages have to be looked at because much of the sum may be shared.
 */
int announce_peak(struct job *job, __s64 rss, __s64 floor)
{
	struct crossing *event;
	__s64 known;
	__u64 now;

	if (!job)
		return 0;
	known = job->announced_peak;
	if (rss < known + (known >> 5) + PEAK_STEP_BYTES)
		return 0;
	now = bpf_ktime_get_boot_ns();
	if (now - job->announced_at < PEAK_QUIET_NS)
		return 0;
	if (__sync_val_compare_and_swap(&job->announced_peak, known, rss) != known)
		return 0;
	job->announced_at = now;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		atomic_add(&job->lost_events, 1);
		return 0;
	}
	event->kind = EVENT_PEAK;
	event->limited = LIMITED_NOTHING;
	event->at = now;
	event->rss = rss;
	event->floor = floor;
	event->observed = rss;
	event->pid = 0;
	event->tid = 0;
	event->held = 0;
	event->frames = 0;
	bpf_ringbuf_submit(event, rss - floor > rss >> 6 && rss - floor > UNCERTAIN_BYTES ?
					  BPF_RB_FORCE_WAKEUP :
					  BPF_RB_NO_WAKEUP);
	return 0;
}

/* Brings the sums up to date after the pages of an address space were changed. */
int account_memory(struct memory *memory, struct job *job, __s64 virtual_size)
{
	__s64 anonymous, shared, common, own, swapped, unshared, sum, floor, held, swap, virtual_sum;
	__s64 anonymous_sum, unshared_sum, shared_sum;
	struct control *control;

	if (!memory || !job)
		return 0;
	control = control_of(memory->job);
	if (!control)
		return 0;
	anonymous = memory->pages[MM_ANONPAGES] * page_bytes;
	shared = memory->pages[MM_SHMEMPAGES] * page_bytes;
	common = memory->pages[MM_FILEPAGES] * page_bytes + shared;
	own = anonymous + common;
	swapped = memory->pages[MM_SWAPENTS] * page_bytes;
	unshared = anonymous > memory->inherited ? anonymous - memory->inherited : 0;
	sum = replace(&memory->rss, &job->rss, own);
	anonymous_sum = replace(&memory->anonymous, &job->anonymous, anonymous);
	shared_sum = replace(&memory->shared, &job->shared, shared);
	unshared_sum = replace(&memory->floor, &job->floor, unshared);
	swap = replace(&memory->swap, &job->swap, swapped);
	virtual_sum = replace(&memory->virtual_size, &job->virtual_size, virtual_size);

	if (common >= job->common) {
		job->common = common;
		job->common_mm = memory->address;
	} else if (job->common_mm == memory->address) {
		job->common = common;
	}
	floor = unshared_sum + job->common;
	held = floor;
	if (control->departures == job->departures)
		held += control->unseen;
	/* What one process holds is a lower bound too, and the better one after a fork. */
	if (own > floor)
		floor = own;
	if (floor > held)
		held = floor;

	if (own > memory->rss_peak)
		memory->rss_peak = own;
	if (virtual_size > memory->virtual_peak)
		memory->virtual_peak = virtual_size;
	if (swapped > memory->swap_peak)
		memory->swap_peak = swapped;
	if (own > job->process_peak) {
		raise_to(&job->process_peak, own);
		check(LIMITED_PROCESS_RSS, job, control, own);
	}
	if (swap > job->swap_peak) {
		raise_to(&job->swap_peak, swap);
		check(LIMITED_SWAP, job, control, swap);
	}
	if (virtual_sum > job->virtual_peak) {
		raise_to(&job->virtual_peak, virtual_sum);
		check(LIMITED_VIRTUAL, job, control, virtual_sum);
	}
	if (floor > job->floor_peak)
		raise_to(&job->floor_peak, floor);
	if (held > job->held_peak) {
		raise_to(&job->held_peak, held);
		check(LIMITED_MEMORY, job, control, held);
	}
	if (sum > job->rss_peak) {
		raise_to(&job->rss_peak, sum);
		job->rss_peak_at = bpf_ktime_get_boot_ns();
		job->spaces_at_peak = job->spaces;
		job->anonymous_at_peak = anonymous_sum;
		job->unshared_at_peak = unshared_sum;
		job->shared_at_peak = shared_sum;
		check(LIMITED_RSS_SUM, job, control, sum);
		announce_peak(job, sum, floor);
	}
	return 0;
}

static __always_inline __s64 virtual_bytes(struct mm_struct *mm)
{
	return (__s64)mm->total_vm * page_bytes;
}

/* Huge pages of hugetlbfs are in no resident size, and no tracepoint tells of them. */
static __always_inline void look_at_hugetlb(struct memory *memory, struct job *job,
					    struct mm_struct *mm)
{
	__s64 bytes;

	if (!bpf_core_field_exists(mm->hugetlb_usage))
		return;
	bytes = BPF_CORE_READ(mm, hugetlb_usage.counter) * page_bytes;
	if (bytes != memory->hugetlb)
		raise_to(&job->hugetlb_peak, replace(&memory->hugetlb, &job->hugetlb, bytes));
}

/* Reads all counters of an address space exactly. */
static __always_inline void refresh_memory(struct memory *memory, struct job *job,
					   struct mm_struct *mm)
{
	memory->pages[MM_FILEPAGES] = exact_count(mm, MM_FILEPAGES);
	memory->pages[MM_ANONPAGES] = exact_count(mm, MM_ANONPAGES);
	memory->pages[MM_SWAPENTS] = exact_count(mm, MM_SWAPENTS);
	memory->pages[MM_SHMEMPAGES] = exact_count(mm, MM_SHMEMPAGES);
	look_at_hugetlb(memory, job, mm);
	account_memory(memory, job, virtual_bytes(mm));
}

/* Takes an address space out of the job's sums. */
int forget_memory(struct memory *memory, struct job *job)
{
	__u64 address;

	if (!memory || !job)
		return 0;
	address = memory->address;
	replace(&memory->rss, &job->rss, 0);
	replace(&memory->floor, &job->floor, 0);
	replace(&memory->anonymous, &job->anonymous, 0);
	replace(&memory->shared, &job->shared, 0);
	replace(&memory->hugetlb, &job->hugetlb, 0);
	replace(&memory->swap, &job->swap, 0);
	replace(&memory->virtual_size, &job->virtual_size, 0);
	if (job->common_mm == memory->address) {
		job->common = 0;
		job->common_mm = 0;
	}
	bpf_map_delete_elem(&memories, &address);
	return 0;
}

/* A process begins to use an address space. */
static __always_inline void enter_memory(struct process *process, __u64 process_key,
					 struct job *job, struct mm_struct *mm, bool forked)
{
	__u64 key = (__u64)mm;
	union scratch *space = scratch(1);
	struct memory *memory = bpf_map_lookup_elem(&memories, &key);

	process->mm = key;
	process->mm_id = 0;
	if (memory && !forked && memory->users) {
		memory->users++;
		process->mm_id = memory->id;
		return;
	}
	if (memory) { /* the address of one that is gone, and is used again */
		if (memory->users)
			atomic_add(&job->spaces, -1);
		forget_memory(memory, job);
	}
	if (!space)
		return;
	__builtin_memset(&space->memory, 0, sizeof(space->memory));
	space->memory.job = process->job;
	space->memory.users = 1;
	space->memory.address = key;
	space->memory.process = process_key;
	space->memory.id = atomic_add(&job->mm_ids, 1) + 1;
	if (bpf_map_update_elem(&memories, &key, &space->memory, BPF_NOEXIST)) {
		atomic_add(&job->lost_mms, 1);
		return;
	}
	memory = bpf_map_lookup_elem(&memories, &key);
	if (!memory)
		return;
	process->mm_id = memory->id;
	atomic_add(&job->spaces, 1);
	if (forked)
		memory->inherited = exact_count(mm, MM_ANONPAGES) * page_bytes;
	refresh_memory(memory, job, mm);
}

/*
 * What a process tells as its own: the peaks of the address space that was made for it, or that was
 * left to it. Memory of who started it is not.
 */
static __always_inline void keep_peaks(struct process *process, __u64 process_key,
				       struct memory *memory)
{
	if (memory->process && memory->process != process_key)
		return;
	process->rss_peak = memory->rss_peak;
	process->virtual_peak = memory->virtual_peak;
	process->swap_peak = memory->swap_peak;
}

/*
 * A process stops using its address space: it `ends`, or executes a program, which has one of its
 * own. If `mm` is given it still stands and its end is yet to be followed; else it is already gone.
 */
static __always_inline void leave_memory(struct process *process, __u64 process_key,
					 struct job *job, struct mm_struct *mm, bool ends)
{
	__u64 key = process->mm;
	struct memory *memory;

	if (!key)
		return;
	memory = bpf_map_lookup_elem(&memories, &key);
	if (!memory || memory->id != process->mm_id)
		return;
	if (mm)
		refresh_memory(memory, job, mm);
	if (ends)
		keep_peaks(process, process_key, memory);
	if (__sync_fetch_and_add(&memory->users, -1) != 1) {
		if (memory->process == process_key)
			memory->process = 0;
		return;
	}
	atomic_add(&job->spaces, -1);
	atomic_add(&job->departures, 1);
	if (mm)
		memory->dying = 1;
	else
		forget_memory(memory, job);
}

/* The process is gone for good: so is what was left of its address space. */
static __always_inline void bury_memory(struct process *process, struct job *job)
{
	__u64 key = process->mm;
	struct memory *memory;

	if (!key)
		return;
	memory = bpf_map_lookup_elem(&memories, &key);
	if (memory && memory->id == process->mm_id && memory->users == 0)
		forget_memory(memory, job);
}

/* Without a page, on swap neither: no living process has so little. */
static __always_inline bool is_empty(struct memory *memory)
{
	return !(memory->pages[MM_FILEPAGES] | memory->pages[MM_ANONPAGES] |
		 memory->pages[MM_SWAPENTS] | memory->pages[MM_SHMEMPAGES]);
}

#endif
