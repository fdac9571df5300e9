/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Accounts, and how time is split.
 *
 * A thread has a window while a call, or an interval between weigh_begin() and weigh_end(), is
 * open. Each moment of it belongs to exactly one part of the kernel: the innermost one that was
 * entered and not left. At each border the time since the last one goes to whose it was, so the
 * parts cannot add up to more than the whole. Off the CPU the same holds, for `waiting`.
 */
#ifndef WEIGH_CALLS_ACCOUNT_H
#define WEIGH_CALLS_ACCOUNT_H

#include "../kernel.h"
#include "../follow.h"
#include "../members.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#define WEIGH_U64 __u64
#include "subsystems.h" /* derived from the schema by the build script */
#include "counters.h"
#include "contention.h"
#include "call_event.h"

#include "page.h" /* derived from the schema too */

#define MAX_DEPTH 8
#define IMAGE_BYTES 16

enum interrupted {
	NOT_INTERRUPTED,
	IN_SOFTIRQ,
	IN_INTERRUPT,
	IN_INTERRUPT_OF_SOFTIRQ,
};

/* What the next wait is for, where it is known before. */
enum awaits {
	AWAITS_NOTHING,
	AWAITS_PAUSE, /* held back, for one wait */
	AWAITS_WRITER, /* the kernel's own writers */
};

struct window {
	enum stage stage;
	__u32 client; /* serial number of a program with libweigh; 0: none */
	__u32 slot;
	__u32 inside; /* a system call of the job */
	__u32 bounded; /* inside a system call that a request of libweigh is about */
	__u64 ticket; /* the slot is this thread's while it holds the same */
	__u64 request; /* the one that the rest is about */
	/* Of a call of the job that its program asked for: the request, 0 if it did not, and its account's. */
	__u64 also, also_generation;
	__u64 last; /* when time was split last */
	__u64 off; /* when the thread left the CPU */
	__u64 run_delay; /* the kernel's sum, up to which it is accounted */
	__u64 migrations; /* the same */
	__u64 waited; /* the last wait, which still holds the wait for a CPU at its end */
	__u64 began; /* the call */
	__u64 number; /* of the call */
	__u64 sequence; /* of the call, in the job */
	__u64 of[2]; /* which file or thread the call is about, if the table is by that */
	__u64 interrupted_at;
	enum interrupted interrupted;
	__u32 waits_for; /* subsystem */
	__u32 preempted;
	enum awaits awaits;
	__u32 depth;
	__u32 base; /* the part that the call's own code is of */
	__u8 inner[MAX_DEPTH]; /* subsystems that were entered and not left */
	__u64 frames[MAX_DEPTH]; /* where on the stack, if a function's entry was it: see custom_subsystem.h */
	__s32 descriptor; /* the first argument of a call that takes one */
	__u32 unused;
	__u32 cell; /* of the call, + 1 */
	__u32 unheard; /* a program that no library has spoken for since its exec */
	char image[IMAGE_BYTES]; /* what it is called */
	__u32 left_behind; /* whether the call left something to be charged when it is done */
	struct rivals rivals;
	struct counting counting;
	/* The range of a file that was written last, and in which call. */
	__u64 wrote_mapping, wrote_from, wrote_to, wrote_in;
	__u32 length; /* of what is to be sent, in numbers */
	struct telling telling;
	/* Of the present call; zero between calls. */
	struct weigh_account account;
};

_Static_assert(__builtin_offsetof(struct window, account) ==
		       __builtin_offsetof(struct window, telling) + sizeof(struct telling),
	       "what is sent goes on into the account");

MEMBERS(struct window)

/* Most threads are not followed, nor known to any other program. */
static __always_inline struct window *window_of(struct task_struct *task)
{
	return followed(task)->bpf_storage ? entry_of(task) : 0;
}

struct client {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ELEMENTS);
	__type(key, __u32);
	__type(value, union element);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CLIENTS);
	__type(key, __u32);
	__array(values, struct client);
} clients SEC(".maps");

/*
 * Which program each page is of. Pages are given to others: a holder of an old serial number, a thread
 * or something that was left behind, is not to reach the new one's.
 */
__u32 serials[MAX_CLIENTS];
const volatile __u32 follows_calls; /* whether the programs of system calls are attached */

const volatile __u64 at_borders; /* bit set of subsystems whose entries functions at their borders tell */
const volatile __u64 chosen = -1; /* bit set of subsystems: those of a call that nobody asked more of */

const volatile struct window window_layout;
const volatile union element element_layout;

#define BIT(subsystem) (1ULL << (subsystem))
/* A constant once the programs are loaded: what is not asked for is not in them. */
#define ASKED_FOR(subsystem) (chosen & BIT(subsystem))
/* Without these the time of the others would be wrong: they are always attached. */
#define ALWAYS (BIT(WEIGH_KERNEL) | BIT(WEIGH_SCHED) | BIT(WEIGH_IRQ))
#define add(place, amount) __sync_fetch_and_add(place, amount)

const volatile bool tells_by_part; /* whether anybody may ask for numbers of each part */

/* An account that is open, the window it is open in, and the subsystems that it is asked of. */
struct open {
	struct window *window;
	struct weigh_account *account;
	__u64 wanted;
};

__u64 missed_returns; /* of functions: they have returned, and nobody was told */
__u64 missed_arrivals; /* of threads on a CPU: they ran, and nobody was told */

/* How many of the levels from this one on were entered by a function. */
static __always_inline __u32 functions_above(struct window *window, __u32 from)
{
	__u32 functions = 0;

#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i >= from && i < window->depth && window->frames[i])
			functions++;
	return functions;
}

/* The clock, which costs as much as a program: read where it is needed, and once for all who do. */
static __always_inline __u64 read_once(__u64 *now)
{
	if (!*now)
		*now = bpf_ktime_get_ns();
	return *now;
}

/* Starts the splitting of time anew. */
static __always_inline void begin(struct window *window, struct task_struct *task, __u64 now)
{
	window->last = now;
	if (window->off)
		add(&missed_arrivals, 1);
	window->off = 0;
	window->waited = 0;
	if (window->depth)
		missed_returns += functions_above(window, 0);
	window->depth = 0;
	window->interrupted = NOT_INTERRUPTED;
	window->awaits = AWAITS_NOTHING;
	window->run_delay = task->sched_info.run_delay;
	window->migrations = task->se.nr_migrations;
	if (names_rivals)
		forget_rivals(&window->rivals);
}

/* Counters of an interval, whose own ones the program reads itself: those of each part. */
static __always_inline void count_by_part(struct counting *counting, __u64 wanted)
{
	start_counting(counting, wanted & WEIGH_BY_PART ? wanted : 0);
	counting->of_interval = 1;
}

static __always_inline void *page_of(__u32 client)
{
	__u32 number = client % MAX_CLIENTS;

	return serials[number] == client ? bpf_map_lookup_elem(&clients, &number) : 0;
}

static __always_inline union element *element_of(__u32 client, __u32 index)
{
	void *page = page_of(client);

	return page ? bpf_map_lookup_elem(page, &index) : 0;
}

static __always_inline struct slot *slot_in(void *page, __u32 slot)
{
	__u32 index = FIRST_SLOT_ELEMENT + slot / SLOTS_PER_ELEMENT % SLOT_ELEMENTS;
	union element *element = bpf_map_lookup_elem(page, &index);

	return element ? &element->slots[slot % SLOTS_PER_ELEMENT] : 0;
}

static __always_inline struct slot *slot_of(__u32 client, __u32 slot)
{
	void *page = page_of(client);

	return page ? slot_in(page, slot) : 0;
}

/* The account that a thread of a program with libweigh asked for, if it did. */
static __always_inline struct weigh_account *asked_for(struct window *window,
							struct task_struct *task, __u64 *wanted)
{
	void *page = page_of(window->client);
	union element *element;
	struct slot *slot;
	__u64 request;
	__u32 index;

	slot = page ? slot_in(page, window->slot) : 0;
	if (!slot)
		return 0;
	request = *(volatile __u64 *)&slot->request;
	if (!(__u32)request || *(volatile __u64 *)&slot->ticket != window->ticket)
		return 0;
	/* What comes between the request and its call is not the call's. */
	if (follows_calls && !window->bounded && *(volatile __u64 *)&slot->calls)
		return 0;
	*wanted = *(volatile __u64 *)&slot->wanted;
	if (request != window->request) {
		window->request = request;
		/* When it was made only the program knows, and until a part is entered nobody asks. */
		begin(window, task, 0);
		if (counts && tells_by_part)
			count_by_part(&window->counting, *wanted);
	}
	index = (__u32)request - 1;
	if (index >= MAX_ACCOUNTS)
		return 0;
	index += FIRST_ACCOUNT;
	element = bpf_map_lookup_elem(page, &index);
	return element ? &element->account : 0;
}

/* The account that is open for a thread, if one is. */
static __always_inline bool has_open(struct open *open, struct task_struct *task)
{
	struct window *window = window_of(task);

	if (!window)
		return false;
	open->window = window;
	open->wanted = chosen;
	if (window->inside)
		open->account = &window->account;
	else if (window->client)
		open->account = asked_for(window, task, &open->wanted);
	else
		return false;
	return open->account;
}

/* Whether the doings of this subsystem go to it, which it then has been touched by. */
static __always_inline bool asks(struct open *open, __u32 subsystem)
{
	if (!((open->wanted | ALWAYS) & BIT(subsystem)))
		return false;
	if (!(open->account->touched & BIT(subsystem)))
		__sync_fetch_and_or(&open->account->touched, BIT(subsystem));
	return true;
}

/* The account that this subsystem's doings on behalf of a thread go to, if there is one. */
static __always_inline bool opened(struct open *open, struct task_struct *task, __u32 subsystem)
{
	return has_open(open, task) && asks(open, subsystem);
}

/* Whether one is open, and this is the thread's own context, not an interrupt on top of it. */
static __always_inline bool in_context(struct open *open)
{
	return has_open(open, bpf_get_current_task_btf()) &&
	       open->window->interrupted == NOT_INTERRUPTED;
}

/* The same for the doings of a subsystem. */
static __always_inline bool mine(struct open *open, __u32 subsystem)
{
	return in_context(open) && asks(open, subsystem);
}

/* Whose the time is now. */
static __always_inline __u32 innermost(struct window *window)
{
	__u32 depth = window->depth, base;

	if (!depth) {
		base = window->base;
		return base < WEIGH_SUBSYSTEMS ? base : WEIGH_KERNEL;
	}
	depth = (depth - 1) % MAX_DEPTH;
	depth = window->inner[depth];
	return depth < WEIGH_SUBSYSTEMS ? depth : WEIGH_KERNEL;
}

/* Numbers of each part of the present call of a thread. Made as its first call begins: later its own memory would be counted. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct weigh_parts);
} parts_of_calls SEC(".maps");

/* The same of the account that an interval of libweigh is of, where its program has taken room for them. */
static __always_inline struct weigh_parts *parts_of_request(struct window *window)
{
	__u32 index = (__u32)window->request - 1, number;
	void *page = page_of(window->client);
	union element *element;

	if (!page || index >= MAX_ACCOUNTS)
		return 0;
	index += FIRST_ACCOUNT;
	element = bpf_map_lookup_elem(page, &index);
	if (!element)
		return 0;
	number = *(volatile __u64 *)&element->parts_element - 1;
	if (number >= MAX_PARTS)
		return 0;
	number += FIRST_PARTS;
	element = bpf_map_lookup_elem(page, &number);
	return element ? &element->parts : 0;
}

static __always_inline struct weigh_parts *parts_of(struct window *window)
{
	if (!window->inside)
		return parts_of_request(window);
	return bpf_task_storage_get(&parts_of_calls, bpf_get_current_task_btf(), 0, 0);
}

/* What is kept of the innermost part, if that is asked for. */
static __always_inline struct weigh_by_part *by_part(struct open *open)
{
	struct window *window = open->window;
	struct weigh_parts *parts;
	__u32 part;

	if (!tells_by_part || !(open->wanted & WEIGH_BY_PART))
		return 0;
	part = window->interrupted == NOT_INTERRUPTED ? innermost(window) : WEIGH_IRQ;
	parts = parts_of(window);
	if (!parts || part >= WEIGH_SUBSYSTEMS)
		return 0;
	return &parts->of[part];
}

/* The same of what the CPU does: what is left of an interval is the program's own. */
static __always_inline struct weigh_by_part *by_part_on_cpu(struct open *open)
{
	struct window *window = open->window;

	if (!window->inside && !window->bounded && window->interrupted == NOT_INTERRUPTED &&
	    innermost(window) == WEIGH_KERNEL)
		return 0;
	return by_part(open);
}

/* The thread is at a border. Global, for the verifier's sake: see pends(). */
__noinline int count_until_here(struct window *window, struct weigh_account *account, __u64 wanted)
{
	struct open open = { window, account, wanted };

	if (!window || !account)
		return 0;
	take_counts(&window->counting, account, by_part_on_cpu(&open));
	return 0;
}

/*
 * A wait ends when the thread is runnable; until it runs it waits for a CPU. How long that was the
 * scheduler knows a moment after it tells of the switch.
 */
static __always_inline void settle_wait(struct open *open, struct task_struct *task)
{
	struct window *window = open->window;
	__u64 sum = task->sched_info.run_delay, delay = sum - window->run_delay;
	__u32 part = window->waits_for;

	window->run_delay = sum;
	if (!window->waited)
		return;
	if (delay > window->waited)
		delay = window->waited;
	window->waited = 0;
	if (!delay || part >= WEIGH_SUBSYSTEMS)
		return;
	add(&open->account->parts[part].waiting_ns, -delay);
	add(&open->account->sched.run_queue_ns, delay);
	if (names_rivals)
		was_behind(&window->rivals, delay);
}

/* A thread is moved while it is off the CPU: what the kernel has counted more by then is known when it is back. */
static __always_inline void take_migrations(struct window *window, struct weigh_account *account,
					    struct task_struct *task)
{
	__u64 sum = task->se.nr_migrations;

	if (sum == window->migrations)
		return;
	add(&account->sched.migrations, sum - window->migrations);
	window->migrations = sum;
}

/* The thread was off the CPU for so long, and has come back. */
static __always_inline void was_off(struct window *window, struct weigh_account *account,
				    __u64 passed)
{
	__u32 part = window->waits_for;

	window->waited = 0;
	if ((__s64)passed <= 0 || part >= WEIGH_SUBSYSTEMS)
		return;
	if (window->preempted) {
		if (names_rivals)
			was_behind(&window->rivals, passed);
		add(&account->sched.run_queue_ns, passed);
		return;
	}
	if (!(account->touched & BIT(part)))
		__sync_fetch_and_or(&account->touched, BIT(part));
	add(&account->parts[part].waiting_ns, passed);
	window->waited = passed;
}

/*
 * Some kernels run no program while a certain thread is the current one, and at a switch that still is
 * the one that leaves. A thread that meets a border is on a CPU: if it is not known to have come back, it
 * came unseen, and all that has passed is taken for the wait. Global, for the verifier's sake: see pends().
 */
__noinline int came_unseen(struct window *window, struct weigh_account *account, __u64 now)
{
	if (!window || !account)
		return 0;
	add(&missed_arrivals, 1);
	was_off(window, account, now - window->off);
	take_migrations(window, account, bpf_get_current_task_btf());
	window->off = 0;
	window->last = now;
	return 0;
}

/*
 * Gives the time since the last border to whose it was. Outside of system calls what is left over
 * is the program's own, mixed with the kernel's, and not told apart here.
 */
static __always_inline void split_time(struct open *open, struct task_struct *task, __u64 now)
{
	struct window *window = open->window;
	__u64 before, passed;
	__u32 part;

	if (window->off)
		came_unseen(window, open->account, now);
	settle_wait(open, task);
	/* Here, for old verifiers forget what is known of a number that is kept over a call. */
	part = innermost(window);
	/* An interrupt may come at any point of this, and split for itself up to a later time. */
	if (part == WEIGH_KERNEL && !window->inside && !window->bounded) {
		if ((__s64)(now - window->last) > 0)
			window->last = now;
		return;
	}
	before = __sync_lock_test_and_set(&window->last, now);
	passed = now - before;
	if ((__s64)passed < 0)
		window->last = before;
	if ((__s64)passed > 0 && part < WEIGH_SUBSYSTEMS)
		add(&open->account->parts[part].time_ns, passed);
}

static __always_inline void count_border(struct open *open)
{
	if (counts && tells_by_part && open->wanted & WEIGH_BY_PART && open->window->counting.running)
		count_until_here(open->window, open->account, open->wanted);
}

/* The same of all that is divided among parts; at other ends counters are read anyway. */
static __always_inline void split(struct open *open, struct task_struct *task, __u64 now)
{
	count_border(open);
	split_time(open, task, now);
}

static __always_inline void enter(__u32 subsystem)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window;
	struct open open;

	if (!mine(&open, subsystem))
		return;
	window = open.window;
	split(&open, task, bpf_ktime_get_ns());
	add(&open.account->parts[subsystem].entries, 1);
	/* Deeper than there is room for: the time stays with the innermost that has room. */
	if (window->depth < MAX_DEPTH) {
		window->inner[window->depth % MAX_DEPTH] = subsystem;
		window->frames[window->depth % MAX_DEPTH] = 0;
	}
	window->depth++;
}

/* Leaving what was not seen to be entered changes nothing. */
static __always_inline void leave(__u32 subsystem)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window;
	struct open open;

	if (!mine(&open, subsystem))
		return;
	window = open.window;
	if (window->depth > MAX_DEPTH) {
		window->depth--;
		return;
	}
	if (!window->depth || innermost(window) != subsystem)
		return;
	split(&open, task, bpf_ktime_get_ns());
	window->depth--;
}

#endif
